"""As much of kubectl as pages show, on a cluster in memory: what a reader would see."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from shlex import split
from typing import Any, Final

from app.kube.manifests import documents
from app.ports import PODS, VPAS, Json, PatchKind, Ref, Resource
from app.sandbox.sandbox import Sandbox

Column = tuple[str, str, str]  # title, type, path

_RESOURCES: Final = {"vpa": VPAS, "pod": PODS, "pods": PODS}
_STEP: Final = re.compile(r"\.([\w-]+)|\[(\d+)\]|\[\?\(@\.(\w+)=='(\w+)'\)\]")
_GAP: Final = 3  # blanks between two columns
_NARROWEST: Final = 6  # characters of a column, the gap included


class Kubectl:
    """Runs commands on the namespace `default`."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox, self._cluster = sandbox, sandbox.cluster

    def __call__(self, command: str) -> str:
        """Return what a command prints."""
        _, verb, kind, *words = split(command)
        return {"get": self._get, "label": self._label}[verb](_RESOURCES[kind], words)

    def _get(self, resource: Resource, words: Sequence[str]) -> str:
        names = list(takewhile(lambda word: not word.startswith("-"), words))
        options = dict(zip(words[len(names) :: 2], words[len(names) + 1 :: 2], strict=True))
        found = self._cluster.list(resource, "default", label_selector=options.get("-l", ""))
        items = [item for item in found.items if not names or item["metadata"]["name"] in names]
        columns = _custom(options["-o"]) if "-o" in options else _usual(resource)
        now, missing = self._sandbox.clock.now(), "<none>" if "-o" in options else ""
        rows = [[_cell(item, column, now) or missing for column in columns] for item in items]
        return _table([[title.upper() for title, _, _ in columns], *rows])

    def _label(self, resource: Resource, words: Sequence[str]) -> str:
        name, pair, *_ = words
        key, value = pair.split("=")
        body = {"metadata": {"labels": {key: value}}}
        self._cluster.patch(Ref(resource, "default", name), body, kind=PatchKind.MERGE)
        return f"{resource.kind.lower()}/{name} labeled\n"


def _usual(resource: Resource) -> list[Column]:
    """Return the columns that a definition asks for, as an API server tells kubectl."""
    specs = [one["spec"] for one in documents.objects("crd")]
    (spec,) = (one for one in specs if one["names"]["kind"] == resource.kind)
    columns = spec["versions"][0]["additionalPrinterColumns"]
    asked = (one for one in columns if "priority" not in one)
    return [
        ("name", "string", ".metadata.name"),
        *((one["name"], one["type"], one["jsonPath"]) for one in asked),
    ]


def _custom(option: str) -> list[Column]:
    pairs = option.removeprefix("custom-columns=").split(",")
    return [(title, "string", path) for title, _, path in (pair.partition(":") for pair in pairs)]


def _cell(item: Json, column: Column, now: datetime) -> str:
    _, kind, path = column
    found: Any = item
    for name, index, key, value in _STEP.findall(path):
        if found is None:
            return ""
        if name:
            found = found.get(name)
        elif index:
            found = found[int(index)]
        else:
            found = next((one for one in found if one[key] == value), None)
    if found is None:
        return ""
    return _age(now - datetime.fromisoformat(found)) if kind == "date" else str(found)


def _age(age: timedelta) -> str:
    minutes, seconds = divmod(int(age.total_seconds()), 60)
    if minutes < 2:
        return f"{60 * minutes + seconds}s"
    if minutes < 180:
        return f"{minutes}m{seconds}s" if minutes < 10 and seconds else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m" if hours < 8 and minutes else f"{hours}h"


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(*map(len, cells), _NARROWEST - _GAP) + _GAP for cells in zip(*rows, strict=True)]
    lines = ("".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)
