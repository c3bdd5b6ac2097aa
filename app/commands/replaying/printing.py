"""What is printed of a replay: JSON lines, a table, and how far it has come."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, TextIO

import orjson

from app.commands.replaying.playback import ReplayLook
from app.model.fields import Json
from app.recommender.core.checkpoints import to_json
from app.recommender.core.status import status_json, status_of

CSV_HEADER: Final = b"time,namespace,vpa,container,cpu_millicores,memory_bytes\n"
_LISTS: Final = ("target", "lowerBound", "upperBound", "uncappedTarget")
_NO_AMOUNTS: Final[Json] = {"containerName": "", **{name: {} for name in _LISTS}}
_WIDTH: Final = 40  # of the bar


def json_lines(look: ReplayLook, *, checkpoints: bool) -> Iterator[bytes]:
    """Yield a line for each VPA, and for each checkpoint if wanted."""
    time = _time(look.now)
    for vpa in look.vpas:
        status = status_json(status_of(vpa))
        yield _line(
            {
                "time": time,
                "namespace": vpa.namespace,
                "name": vpa.name,
                "recommendation": _with_all_lists(status.get("recommendation")),
                "conditions": status["conditions"],
            }
        )
    for checkpoint in look.checkpoints if checkpoints else ():
        item = to_json(checkpoint)
        name = {key: item["metadata"][key] for key in ("namespace", "name")}
        shown = {"metadata": name, "spec": item["spec"], "status": item["status"]}
        yield _line({"time": time, "checkpoint": shown})


def _with_all_lists(recommendation: Json | None) -> Json | None:
    """Return a recommendation with the lists that a status leaves out because they are empty."""
    if not recommendation:
        return recommendation
    found = recommendation["containerRecommendations"]
    return {"containerRecommendations": [_NO_AMOUNTS | one for one in found]}


def csv_lines(look: ReplayLook) -> Iterator[bytes]:
    """Yield a row for each container that has a target; an amount that is not there is empty."""
    time = _time(look.now)
    for vpa in look.vpas:
        for one in vpa.recommendation or ():
            cpu, memory = one.target.get("cpu"), one.target.get("memory")
            amounts = ("" if cpu is None else cpu.milli, "" if memory is None else memory.units)
            row = (time, vpa.namespace, vpa.name, one.container, *amounts)
            yield ",".join(map(str, row)).encode() + b"\n"


class Bar:
    """Shows how much of something is done, on one line that is gone in the end."""

    def __init__(self, screen: TextIO | None) -> None:
        self._screen = screen if screen is not None and screen.isatty() else None
        self._shown = ""

    def show(self, what: str, share: float, left: str = "") -> None:
        """Show a share between 0 and 1, and what is left."""
        percent = int(min(max(share, 0.0), 1.0) * 100)
        bar = "#" * (percent * _WIDTH // 100)
        found = f"{what:<8} [{bar:<{_WIDTH}}] {percent:3}%{f'  {left}' if left else ''}"
        if found != self._shown:
            gap = " " * max(len(self._shown) - len(found), 0)
            self._shown = found
            self._write(f"\r{found}{gap}")

    def clear(self) -> None:
        """Leave an empty line."""
        if self._shown:
            self._shown = ""
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        if self._screen is not None:
            self._screen.write(text)
            self._screen.flush()


def _time(now: datetime) -> str:
    return now.isoformat().replace("+00:00", "Z")


def _line(item: Json) -> bytes:
    return orjson.dumps(item, option=orjson.OPT_APPEND_NEWLINE)
