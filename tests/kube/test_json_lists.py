"""A list that is cut into its items holds what it holds as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from app.kube.files import Document, Unreadable, documents
from app.kube.splitting import find_list
from tests.cases import cases
from tests.junk import ANYTHING

ITEMS = st.lists(
    ANYTHING | st.dictionaries(st.sampled_from(["items", 'a"]}', "kind"]), ANYTHING), max_size=5
)
AROUND = st.dictionaries(st.sampled_from(["kind", "metadata", "a]"]), ANYTHING, max_size=3)


@given(ITEMS, AROUND, AROUND, st.sampled_from([None, 1, "\t"]))
def test_pieces_are_the_items(
    items: list[object], before: dict[str, object], after: dict[str, object], indent: int | None
) -> None:
    """Whatever stands in a list and around it, no item is lost, changed or invented."""
    text = json.dumps({**before, "items": items, **after}, indent=indent).encode()
    try:
        whole = orjson.loads(text)
    except orjson.JSONDecodeError:  # numbers that no JSON holds
        reject()
    found = find_list(text)
    if found is None:
        assert '"items"' in json.dumps(before)
        return
    assert found.envelope == whole | {"items": []}
    told = [item for _, piece in found.pieces() for item in orjson.loads(b"[%b]" % piece)]
    assert told == whole["items"]


@cases(
    "text",
    {
        "a list behind it": (b'{"items":[{}],"metadata":{"a":[]},"kind":"List"}',),
        "blanks": (b'{ "kind":"List", "items" : [ {} ] }\n',),
    },
)
def test_lists_that_are_found(text: bytes) -> None:
    """Lists are found however they are written."""
    found = find_list(text)
    assert found is not None
    assert [piece for _, piece in found.pieces()] == [b"{}"]


@cases(
    "text",
    {
        "an object": (b'{"kind":"Pod"}',),
        "a list in a list": (b'[{"items":[{}]}]',),
        "a list in an object": (b'{"spec":{"items":[{}]}}',),
        "a list before the list": (b'{"a":{"items":[{}]},"items":[{}]}',),
        "cut off": (b'{"items":[{}',),
        "not closed": (b'{"items":[{}]',),
        "two lists": (b'{"items":[{}]}\n{"items":[{}]}',),
        "closed twice": (b'{"items":[{}]],"a":1}',),
        "closed crosswise": (b'{"items":[{"a":1]}',),
        "far from the beginning": (b'{"a":"%b","items":[{}]}' % (b"x" * 70_000),),
    },
)
def test_what_is_not_surely_a_list(text: bytes) -> None:
    """What might be something else is left to be read as a whole."""
    assert find_list(text) is None


@cases(
    "inside told",
    {
        "no value": (b'{"a":} {"b":2}', [b'{"a":}', b'{"b":2}']),
        "no objects": (b'{"a":1},7,null', [b'{"a":1}', b"7,null"]),
        "a text": (b'"a]",{}', [b'"a]"', b"{}"]),
        "half a text": (b'a",{}', [b'a"', b"{}"]),
    },
)
def test_broken_items(inside: bytes, told: list[bytes]) -> None:
    """What is wrong in one item is told with it, and hides no other one."""
    found = find_list(b'{"items":[' + inside + b"]}")
    assert found is not None
    assert [piece for _, piece in found.pieces()] == told


def shown(path: Path) -> list[tuple[str, object]]:
    """Return the documents and problems of a file, with their places in it."""
    return [
        (each.place.partition(":")[2], each.item if isinstance(each, Document) else each.message)
        for each in documents(str(path))
    ]


@pytest.mark.parametrize("kind", ["List", "ConfigMapList"])
def test_large_files(tmp_path: Path, kind: str) -> None:
    """A large list has the documents and places that a small one has, and tells what is wrong."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "x" * 1000}}
    nested = {"kind": "List", "items": [config]}
    items = [config, nested, 7, *[config] * 1200]
    envelope = {"apiVersion": "v1", "kind": kind, "items": items, "metadata": {}}
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    small.write_bytes(orjson.dumps(envelope | {"items": items[:5]}))
    large.write_bytes(orjson.dumps(envelope))
    found = shown(large)
    assert len(found) == len(items)
    assert found[:5] == shown(small)


def test_a_large_object_is_no_list(tmp_path: Path) -> None:
    """Something else with items is one object, however large."""
    path = tmp_path / "x.json"
    item = {"kind": "Menu", "items": [{"dish": "x" * 1000}] * 1200}
    path.write_bytes(orjson.dumps(item))
    assert [found.item for found in documents(str(path)) if isinstance(found, Document)] == [item]


def test_a_fault_in_a_large_list(tmp_path: Path) -> None:
    """An item that is no JSON is told with its line; all others count."""
    path = tmp_path / "x.json"
    lines = [b'{"kind":"Pod","a":"%b"},' % (b"x" * 1000) for _ in range(1200)]
    lines[600] = b'{"kind":"Pod","a":},'
    path.write_bytes(b'{"kind":"List","items":[\n' + b"\n".join(lines).removesuffix(b",") + b"\n]}")
    found = list(documents(str(path)))
    (wrong,) = (each for each in found if isinstance(each, Unreadable))
    assert len(found) == 1200
    assert wrong.place == f"{path}:1.items[600]"
    assert "line 602, column 19" in wrong.message
