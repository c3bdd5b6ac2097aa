"""Somebody's manifests, brought into a cluster in memory: which of them, and on how many nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Final

from app.adapters.files import Document, documents
from app.model.errors import BadObject, BadSetting
from app.model.kinds import BUILT_IN_KINDS
from app.model.workloads import read_workload
from app.ports import Json
from app.sandbox.nodes import NodeSize

_MADE_BY_OTHERS: Final = ("Event", "Node", "Lease", "Namespace", "PodMetrics")
_LEAST_NODES: Final = 3
_NODE_CORES: Final = 16
_NODE_GIB: Final = 64
_SPARE: Final = 2.0  # times what is asked for at first, for what will be asked for


def shop() -> Path:
    """Return the file with the built-in shop."""
    return Path(str(files("app.wiring.demo").joinpath("shop.yaml")))


def manifests(paths: Sequence[Path]) -> list[Json]:
    """Return the objects of files and folders that people would apply.

    What controllers made of others is left out, for it will be made anew; so is what only a
    running cluster has.

    Raises:
        BadSetting: a file cannot be read, or there is nothing in it.
    """
    found: list[Json] = []
    for document in chain.from_iterable(documents(str(path)) for path in paths):
        if not isinstance(document, Document):
            raise BadSetting(f"{document.place}: {document.message}")
        item = document.item
        metadata = item.get("metadata")
        owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
        if not owners and item.get("kind") not in _MADE_BY_OTHERS:
            found.append(item)
    if not found:
        shown = ", ".join(map(str, paths))
        raise BadSetting(f"--objects: there are no objects to apply in {shown}")
    return found


def nodes_for(items: Iterable[Json]) -> tuple[NodeSize, ...]:
    """Return nodes with room enough for the pods of some objects, and for their growth."""
    millicores, size_bytes = 0, 0
    for item in items:
        with suppress(BadObject):
            if item.get("kind") not in BUILT_IN_KINDS:
                continue
            workload = read_workload(item)
            for container in workload.template:
                count = workload.replicas or 1
                cpu, memory = (container.resources.request(name) for name in ("cpu", "memory"))
                millicores += count * (cpu.milli if cpu is not None else 0)
                size_bytes += count * (memory.units if memory is not None else 0)
    wanted = max(millicores / 1000 / _NODE_CORES, size_bytes / 2**30 / _NODE_GIB) * _SPARE
    count = max(math.ceil(wanted), _LEAST_NODES)
    return tuple(
        NodeSize(f"node-{number}", str(_NODE_CORES), f"{_NODE_GIB}Gi")
        for number in range(1, count + 1)
    )
