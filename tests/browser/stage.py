"""Pages for a browser to look at: of the demo as it is after some hours, and of recorded objects.

Strategy: the demo is played by the agenda of its clock and then stands still, so that equal seeds
give equal pages; what was seen of it is written down as objects and usage are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import httpx
import orjson

from app.flags.command_line import parse
from app.model.fields import Json
from app.model.times import rfc3339
from app.page.flags import PageSettings
from app.page.process import Process, source_of
from app.ports import (
    CHECKPOINTS,
    EVENTS,
    HPAS,
    LEASES,
    LIMIT_RANGES,
    POD_DISRUPTION_BUDGETS,
    POD_METRICS,
    PODS,
    VPAS,
    WORKLOADS,
    Cluster,
)
from app.run.api import ReadPort
from app.run.demo_clusters import announced
from app.run.embedded_page import embedded_page
from app.run.flags import RunSettings
from app.run.modes import InMemoryMode
from app.run.run_history import RunHistory
from app.run.world import shop_file
from app.runtime.clock import SystemClock
from app.runtime.http_server import bound
from tests.cluster.programs import eventually
from tests.flows.autoscaler import in_memory
from tests.make import NO_GATES

HOURS: Final = 12
_STEP_SECONDS: Final = 30.0
_WORDS: Final = ("--address=127.0.0.1:0", "--refresh=1s")
_RECORDED: Final = (
    *(PODS, VPAS, CHECKPOINTS, EVENTS, HPAS, LEASES, LIMIT_RANGES, POD_DISRUPTION_BUDGETS),
    POD_METRICS,
    *WORKLOADS,
)


@dataclass(frozen=True)
class Pages:
    """Where pages are served."""

    url: str
    name: str
    words: tuple[str, ...] = ()  # flags that tell what they are about

    def json(self, path: str) -> Any:  # noqa: ANN401  JSON
        """Return the view of a page."""
        return httpx.get(f"{self.url}{path}").raise_for_status().json()


@contextmanager
def demo(folder: Path) -> Iterator[tuple[Pages, Pages]]:
    """Serve the demo and, of the same objects, what was written down of it."""
    settings = parse(RunSettings, ["--page-port=0", "--host=127.0.0.1"], {})
    with in_memory(shop_file()) as mode, _readable(mode, folder), _watched(mode) as history:
        process = embedded_page(settings, mode.runtime, folder, history)
        process._source.start()
        events: list[Json] = []
        for _ in range(int(HOURS * 3600 / _STEP_SECONDS)):
            mode.advance(_STEP_SECONDS)
            process._pictures.tick(mode.clock.now())
            events += _usage(mode.cluster, mode.clock.now())
        process._pictures.check(mode.clock.now())
        _record(folder, mode.cluster, events)
        with _served(process, "demo") as live, recorded(folder, mode.clock.now()) as files:
            yield live, files


@contextmanager
def _watched(mode: InMemoryMode) -> Iterator[RunHistory]:
    """Let the page tell of the demo's own history, as in a run."""
    history = RunHistory(mode.runtime, mode.cluster)
    with history.watching():
        yield history


@contextmanager
def _readable(mode: InMemoryMode, folder: Path) -> Iterator[None]:
    """Let what only an API server can be asked be asked, as in a run."""
    listener = bound("127.0.0.1", 0, "--demo")
    port = ReadPort(mode.cluster, mode.clock, "token", listener)
    port.start()
    try:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/token"
        with announced(folder, url, "shop", NO_GATES):
            yield
    finally:
        port.stop()


@contextmanager
def _served(process: Process, name: str) -> Iterator[Pages]:
    for loop in process._loops:
        loop.start()
    process._server.start("page")
    try:
        url = process.url.rstrip("/")
        eventually(lambda: httpx.get(f"{url}/").is_success, f"the page of {name} answers")
        yield Pages(url, name)
    finally:
        process.stop()


@contextmanager
def recorded(folder: Path, now: datetime) -> Iterator[Pages]:
    """Serve what lies in a folder."""
    words = (
        f"--objects={folder / 'objects.json'}",
        f"--events={folder / 'events.jsonl'}",
        f"--at={rfc3339(now)}",
        "--feature-gates=AllAlpha=true",
    )
    settings = parse(PageSettings, [*_WORDS, *words], {})
    with source_of(settings, SystemClock()) as source:
        process = Process(settings, source)
        source.start()
        with _served(process, "recorded objects") as found:
            yield Pages(found.url, found.name, words)


def _usage(cluster: Cluster, now: datetime) -> Iterator[Json]:
    for item in cluster.list(POD_METRICS).items:
        metadata = item["metadata"]
        for one in item["containers"]:
            yield {
                "type": "usage",
                "time": rfc3339(now),
                "namespace": metadata["namespace"],
                "pod": metadata["name"],
                "container": one["name"],
                **one["usage"],
            }


def _record(folder: Path, cluster: Cluster, events: Sequence[Json]) -> None:
    items = [
        {"apiVersion": resource.api_version, "kind": resource.kind, **item}
        for resource in _RECORDED
        for item in cluster.list(resource).items
    ]
    found = {"apiVersion": "v1", "kind": "List", "items": items}
    (folder / "objects.json").write_bytes(orjson.dumps(found))
    (folder / "events.jsonl").write_bytes(b"\n".join(map(orjson.dumps, events)) + b"\n")
