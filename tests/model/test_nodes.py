"""Nodes tell what they can give to pods."""

from __future__ import annotations

import pytest
from hypothesis import given

from app.model.errors import BadObject
from app.model.nodes import read_node
from tests import make
from tests.junk import objects_like


def test_a_node() -> None:
    """Name and allocatable resources are read."""
    node = make.node(cpu="2", memory="4Gi")
    assert node.name == "node-1"
    assert node.allocatable["memory"] == make.quantity("4Gi")


def test_an_empty_node() -> None:
    """A node that tells nothing has nothing to give."""
    assert read_node({}).allocatable == {}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", 1),
        ("status.allocatable", []),
        ("status.allocatable[cpu]", "x"),
    ],
)
def test_wrong_values(path: str, value: object) -> None:
    """What is wrong is told with its path."""
    with pytest.raises(BadObject) as caught:
        read_node(make.with_value(make.node_json(), path, value))
    assert caught.value.path == path


@given(objects_like(make.node_json()))
def test_anything_is_read_or_refused(item: make.Json) -> None:
    """Whatever is sent as a node, it is a node or a bad object."""
    try:
        node = read_node(item)
    except BadObject:
        return
    assert isinstance(node.name, str)
