"""Patches are built as API servers expect them and applied as the RFCs say."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import partial, reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model import patches
from app.model.errors import Invalid
from tests.cases import cases


@pytest.mark.parametrize(
    ("segments", "text"),
    [
        ((), ""),
        (("metadata", "annotations"), "/metadata/annotations"),
        (
            ("spec", "containers", 2, "resources", "limits", "nvidia.com/gpu"),
            "/spec/containers/2/resources/limits/nvidia.com~1gpu",
        ),
        (
            ("metadata", "annotations", "custom~domain.com/annotation/name"),
            "/metadata/annotations/custom~0domain.com~1annotation~1name",
        ),
        (("~1", ""), "/~01/"),
    ],
)
def test_pointers(segments: tuple[str | int, ...], text: str) -> None:
    """Tildes are escaped before slashes."""
    assert patches.pointer(*segments) == text


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (patches.add(("a", "b/c"), "1"), '{"op": "add", "path": "/a/b~1c", "value": "1"}'),
        (patches.add("/a/b~1c", {}), '{"op": "add", "path": "/a/b~1c", "value": {}}'),
        (patches.remove(("a", "b~c")), '{"op": "remove", "path": "/a/b~0c"}'),
        (patches.test(["a"], None), '{"op": "test", "path": "/a", "value": null}'),
    ],
)
def test_operations(operation: patches.Operation, text: str) -> None:
    """Members come in wire order, and a finished path is left as it is."""
    assert json.dumps(operation) == text


def operation(op: str, path: str, **members: object) -> patches.Operation:
    """Return an operation as it comes over the wire."""
    return {"op": op, "path": path, **members}


def valued(op: str, path: str, value: object, **members: object) -> patches.Operation:
    """Return an operation that carries a value."""
    return operation(op, path, value=value, **members)


def sourced(op: str, source: str, path: str) -> patches.Operation:
    """Return an operation that takes its value from elsewhere in the document."""
    return operation(op, path, **{"from": source})


add, replace, expect = (partial(valued, op) for op in ("add", "replace", "test"))
move, copy = (partial(sourced, op) for op in ("move", "copy"))
remove = partial(operation, "remove")
BAR = {"foo": ["bar", "baz"]}


@cases(
    "document change changed",
    {
        "A.1 add a member": ({"foo": "bar"}, add("/baz", "qux"), {"baz": "qux", "foo": "bar"}),
        "A.2 add an element": (BAR, add("/foo/1", "qux"), {"foo": ["bar", "qux", "baz"]}),
        "A.3 remove a member": ({"baz": "qux", "foo": "bar"}, remove("/baz"), {"foo": "bar"}),
        "A.4 remove an element": ({"foo": ["bar", "qux", "baz"]}, remove("/foo/1"), BAR),
        "A.5 replace a value": (
            {"baz": "qux", "foo": "bar"},
            replace("/baz", "boo"),
            {"baz": "boo", "foo": "bar"},
        ),
        "A.6 move a value": (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            move("/foo/waldo", "/qux/thud"),
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        "A.7 move an element": (
            {"foo": ["all", "grass", "cows", "eat"]},
            move("/foo/1", "/foo/3"),
            {"foo": ["all", "cows", "eat", "grass"]},
        ),
        "A.8 test a value": (
            {"baz": "qux", "foo": ["a", 2, "c"]},
            expect("/foo/1", 2),
            {"baz": "qux", "foo": ["a", 2, "c"]},
        ),
        "A.10 add a nested member": (
            {"foo": "bar"},
            add("/child", {"grandchild": {}}),
            {"foo": "bar", "child": {"grandchild": {}}},
        ),
        "A.11 ignore unknown members": (
            {"foo": "bar"},
            add("/baz", "qux", xyz=123),
            {"foo": "bar", "baz": "qux"},
        ),
        "A.14 escapes are read from the right": (
            {"/": 9, "~1": 10},
            expect("/~01", 10),
            {"/": 9, "~1": 10},
        ),
        "A.16 append to a list": (
            {"foo": ["bar"]},
            add("/foo/-", ["abc", "def"]),
            {"foo": ["bar", ["abc", "def"]]},
        ),
        "add behind the last": (BAR, add("/foo/2", "qux"), {"foo": ["bar", "baz", "qux"]}),
        "add replaces": ({"foo": "bar"}, add("/foo", None), {"foo": None}),
        "add the whole document": (BAR, add("", 1), 1),
        "replace all": (BAR, replace("", []), []),
        "replace an element": (BAR, replace("/foo/0", "x"), {"foo": ["x", "baz"]}),
        "copy an element": (BAR, copy("/foo/0", "/foo/-"), {"foo": ["bar", "baz", "bar"]}),
        "copy the document into itself": (
            BAR,
            copy("", "/all"),
            {"foo": ["bar", "baz"], "all": BAR},
        ),
        "move to where it is": (BAR, move("/foo", "/foo"), BAR),
        "test the document": (BAR, expect("", {"foo": ["bar", "baz"]}), BAR),
        "empty keys": ({"": {"": 1}}, remove("//"), {"": {}}),
        "a list as document": ([[1, 2]], remove("/0/1"), [[1]]),
        "1 is 1.0": ({"a": 1}, expect("/a", 1.0), {"a": 1}),
    },
)
def test_apply(document: object, change: patches.Operation, changed: object) -> None:
    """The examples of RFC 6902 and what they leave open."""
    assert patches.apply(document, [change]) == changed


@cases(
    "change status",
    {
        "A.9 test fails": (expect("/baz", "bar"), 422),
        "A.12 no parent": (add("/qux/bat", 1), 422),
        "unknown operation": (operation("merge", "/baz", value=1), 400),
        "no operation": ({"path": "/baz", "value": 1}, 400),
        "not an object": (["add", "/baz"], 400),
        "no path": ({"op": "remove"}, 400),
        "no slash": (remove("baz"), 400),
        "unknown escape": (remove("/~2"), 400),
        "path is a number": ({"op": "remove", "path": 1}, 400),
        "no value": (operation("add", "/baz"), 400),
        "no from": (operation("copy", "/new"), 400),
        "remove everything": (remove(""), 422),
        "remove what is not there": (remove("/nope"), 422),
        "replace nothing": (replace("/nope", 1), 422),
        "copy nothing": (copy("/nope", "/new"), 422),
        "move nothing": (move("/nope", "/new"), 422),
        "into itself": (move("/map", "/map/a/b"), 422),
        "member of a string": (add("/baz/x", 1), 422),
        "look into a string": (expect("/baz/x", 1), 422),
        "beyond the end": (add("/foo/3", 1), 422),
        "leading zero": (add("/foo/01", 1), 422),
        "negative position": (add("/foo/-1", 1), 422),
        "a word as position": (add("/foo/one", 1), 422),
        "nothing behind the end": (remove("/foo/-"), 422),
        "absurd position": (remove("/foo/" + "9" * 9999), 422),
        "1 is not true": (expect("/one", True), 422),
        "shorter list": (expect("/foo", ["a"]), 422),
        "another element": (expect("/foo", ["a", "x"]), 422),
        "another key": (expect("/map", {"b": {}}), 422),
        "another kind": (expect("/map", []), 422),
    },
)
def test_refused(change: patches.Operation, status: int) -> None:
    """What does not fit is refused, and the sentence names the operation."""
    document = {"baz": "qux", "foo": ["a", "c"], "map": {"a": {}}, "one": 1}
    with pytest.raises(Invalid, match=r"^operation 1\b") as refused:
        patches.apply(document, [expect("/one", 1), change])
    assert refused.value.status == status
    assert len(refused.value.message) < 300


def test_wrong_kind_in_the_way() -> None:
    """The sentence tells operation, path and what is wrong."""
    with pytest.raises(Invalid) as refused:
        patches.apply({"a": 1}, [patches.add(("a", "b"), 2)])
    assert refused.value.message == (
        "operation 0 (add /a/b): there is neither an object nor a list on the way to its path"
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab0"), inner),
    max_leaves=12,
)
POINTERS = st.lists(st.sampled_from(["a", "b", "0", "1", "-"]), max_size=3).map(
    lambda segments: patches.pointer(*segments)
)
CHANGES = st.one_of(
    st.builds(operation, st.sampled_from(["add", "replace"]), POINTERS, value=JSON),
    st.builds(operation, st.just("remove"), POINTERS),
    st.builds(
        lambda op, path, source: operation(op, path, **{"from": source}),
        st.sampled_from(["copy", "move"]),
        POINTERS,
        POINTERS,
    ),
)


def one_by_one(document: object, changes: list[patches.Operation]) -> tuple[object, int]:
    """Return the document after the operations up to the first that fails, and their number."""
    for done, change in enumerate(changes):
        try:
            document = deepcopy(patches.apply(document, [change]))
        except Invalid:
            return document, done
    return document, len(changes)


@given(JSON, st.lists(CHANGES, max_size=8))
def test_applying_shares_without_leaking(
    document: object, changes: list[patches.Operation]
) -> None:
    """One patch does what its operations do one by one, and leaves what it was given alone."""
    before = deepcopy((document, changes))
    expected, fitting = one_by_one(document, changes)
    assert patches.apply(document, changes[:fitting]) == expected
    assert (document, changes) == before


@given(st.dictionaries(st.text(max_size=3), JSON, min_size=1), st.data())
def test_added_members_can_be_tested_and_removed(
    document: dict[str, Any], data: st.DataObject
) -> None:
    """Whatever a key contains, its pointer finds it again."""
    key = data.draw(st.text("~/01ab", max_size=4).filter(lambda key: key not in document))
    value = data.draw(JSON)
    back = remove(patches.pointer(key))
    there_and_back = [patches.add([key], value), patches.test([key], value), back]
    assert patches.apply(document, there_and_back) == document


@pytest.mark.parametrize(
    ("document", "patch", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge(document: object, patch: object, merged: object) -> None:
    """The test cases of RFC 7386."""
    assert patches.merge(document, patch) == merged


@given(JSON, JSON)
def test_merging_is_idempotent_and_leaves_its_input_alone(document: object, patch: object) -> None:
    """A patch merged twice is a patch merged once."""
    before = deepcopy((document, patch))
    merged = patches.merge(document, patch)
    assert patches.merge(merged, patch) == merged
    assert (document, patch) == before


def test_depth_is_no_matter() -> None:
    """Neither kind of patch recurses."""
    nested: dict[str, Any] = reduce(lambda inner, _: {"a": inner}, range(20_000), {})
    merged = patches.merge({}, nested)
    patched = patches.apply(merged, [patches.test("", nested), patches.add("/b", 1)])
    assert patched["b"] == 1
