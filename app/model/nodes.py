"""Nodes, as far as their room for pods is concerned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.model.fields import Object, object_at, quantities_at, text_at
from app.model.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Node:
    """A node and what it can give to pods."""

    name: str
    allocatable: Mapping[str, Quantity]


def read_node(item: Object) -> Node:
    """Read a node."""
    return Node(
        name=text_at(object_at(item, "metadata", ""), "name", "metadata"),
        allocatable=quantities_at(object_at(item, "status", ""), "allocatable", "status") or {},
    )
