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


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"items":[{}],"metadata":{"a":[]},"kind":"List"}', id="a list behind it"),
        pytest.param(b'{ "kind":"List", "items" : [ {} ] }\n', id="blanks"),
    ],
)
def test_lists_that_are_found(text: bytes) -> None:
    """Lists are found however they are written."""
    found = find_list(text)
    assert found is not None
    assert [piece for _, piece in found.pieces()] == [b"{}"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"kind":"Pod"}', id="an object"),
        pytest.param(b'[{"items":[{}]}]', id="a list in a list"),
        pytest.param(b'{"spec":{"items":[{}]}}', id="a list in an object"),
        pytest.param(b'{"a":{"items":[{}]},"items":[{}]}', id="a list before the list"),
        pytest.param(b'{"items":[{}', id="cut off"),
        pytest.param(b'{"items":[{}]', id="not closed"),
        pytest.param(b'{"items":[{}]}\n{"items":[{}]}', id="two lists"),
        pytest.param(b'{"items":[{}]],"a":1}', id="closed twice"),
        pytest.param(b'{"items":[{"a":1]}', id="closed crosswise"),
        pytest.param(b'{"a":"%b","items":[{}]}' % (b"x" * 70_000), id="far from the beginning"),
    ],
)
def test_what_is_not_surely_a_list(text: bytes) -> None:
    """What might be something else is left to be read as a whole."""
    assert find_list(text) is None


@pytest.mark.parametrize(
    ("inside", "told"),
    [
        pytest.param(b'{"a":} {"b":2}', [b'{"a":}', b'{"b":2}'], id="no value"),
        pytest.param(b'{"a":1},7,null', [b'{"a":1}', b"7,null"], id="no objects"),
        pytest.param(b'"a]",{}', [b'"a]"', b"{}"], id="a text"),
        pytest.param(b'a",{}', [b'a"', b"{}"], id="half a text"),
    ],
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
