"""How much work a review is, told before its objects are read.

Strategy: bytes tell little. A pod of 30 KB may have three containers with long environments, or
two thousand that are to be sized one by one. So the parts that cost something are counted; one
unit is about what sizing a container costs, 50 us.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from app.model.review import AdmissionRequest

_BYTES: Final = 4096  # that cost about a unit to read
_OWNERS: Final = 16
_NODES: Final = 4  # fields and items of a VPA
_MOST_NODES: Final = 10_000


def effort(request: AdmissionRequest, size_bytes: int) -> int:
    """Return about how much work a review is that takes so many bytes."""
    spec = _at(request.new, "spec")
    if request.resource.word != "pods":
        nodes = _nodes([spec, _at(request.old, "spec")])
        return size_bytes // _BYTES + nodes // _NODES
    containers = _length(_at(spec, "containers")) + _length(_at(spec, "initContainers"))
    owners = _length(_at(request.new, "metadata", "ownerReferences"))
    return size_bytes // _BYTES + containers + owners // _OWNERS


def _at(value: object, *keys: str) -> object:
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else 0


def _nodes(values: list[object]) -> int:
    """Count what is in some values, up to a number from which on it is a lot."""
    waiting, count = [iter(values)], 0
    while waiting and count < _MOST_NODES:
        for value in waiting.pop():
            count += 1
            children = _children(value)
            if children is not None:
                waiting.append(children)
            if count >= _MOST_NODES:
                break
    return count


def _children(value: object) -> Iterator[object] | None:
    if isinstance(value, dict):
        return iter(value.values())
    return iter(value) if isinstance(value, list) else None
