"""Objects come from any kind of file, and what is broken is told with its place."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from app.kube.files import Document, Unreadable, documents
from app.model.errors import BadSetting
from app.model.fields import Json
from tests import make
from tests.cases import cases

A, B, C = ({"kind": "Thing", "metadata": {"name": name}} for name in "abc")
LINES = b"".join(json.dumps(item).encode() + b"\n" for item in (A, B, C))
PRETTY = "\n".join(json.dumps(item, indent=2) for item in (A, B, C)).encode()
YAML = yaml.safe_dump_all([A, B, C]).encode()
LIST = json.dumps(make.snapshot_json(A, B, C)).encode()
YAML_LIST = yaml.safe_dump(make.snapshot_json(A, B, C)).encode()
BRACES = b"# c\n{kind: x, metadata: {name: a}}\n---\n" + YAML[YAML.index(b"---") :]
MIXED = json.dumps([A, B]).encode() + b"\n" + json.dumps(C, indent=1).encode()
PACKED = gzip.compress(YAML)
NESTED = json.dumps(make.snapshot_json(A, {"kind": "List", "items": [B, 7]}, *"x")).encode()
NO_OBJECT = "not a Kubernetes object"


def read(path: Path | str) -> list[Any]:
    """Return names and problems in their order."""
    found = []
    for document in documents(str(path)):
        if isinstance(document, Document):
            found.append(document.item["metadata"]["name"])
        else:
            found.append(document)
    return found


def written(folder: Path, name: str, body: bytes) -> Path:
    """Return a file with a content."""
    path = folder / name
    path.write_bytes(body)
    return path


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
@cases(
    "name body",
    {
        "List": ("x.json", LIST),
        "JSON list": ("x.json", json.dumps([A, [B], [[C]]]).encode()),
        "JSON that is called YAML": ("x.yaml", LIST),
        "YAML that is called JSON": ("x.json", YAML),
        "YAML": ("x.yaml", YAML),
        "YAML with a mark": ("x.yaml", b"\xef\xbb\xbf" + YAML),
        "YAML from Windows": ("x.yaml", YAML.replace(b"\n", b"\r\n")),
        "YAML in UTF-16": ("x.yaml", YAML.decode().encode("utf-16")),
        "YAML List": ("x.yaml", YAML_LIST),
        "JSON as documents of YAML": ("x", b"\n---\n".join(LINES.split(b"\n"))),
        "YAML in braces": ("x", BRACES),
        "lines": ("x.jsonl", LINES),
        "lines with gaps": ("x.ndjson", LINES.replace(b"\n", b"\r\n\r\n")),
        "lines with a mark": ("x.jsonl", b"\xef\xbb\xbf" + LINES),
        "lines in UTF-16": ("x.jsonl", LINES.decode().encode("utf-16")),
        "lines that are called JSON": ("x.json", LINES),
        "lines without an end": ("x", b"\n" + LINES[:-1]),
        "JSON values one after the other": ("x.json", PRETTY),
        "JSON values of any kind": ("x", MIXED),
    },
)
def test_kinds_of_files(
    tmp_path: Path, name: str, body: bytes, pack: Callable[[bytes], bytes]
) -> None:
    """What a file is shows in what stands in it, packed or not."""
    assert read(written(tmp_path, name, pack(body))) == ["a", "b", "c"]
    assert read(written(tmp_path, f"{name}.gz", pack(body))) == ["a", "b", "c"]


@pytest.mark.parametrize("body", [b"", b"\n \n", b"---\n---\n", b"# c\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["x.yaml", "x.json", "x.jsonl"])
def test_empty_files(tmp_path: Path, name: str, body: bytes) -> None:
    """An empty file holds nothing, and that is no problem."""
    if name.endswith(".jsonl") and body.strip(b"\n \xef\xbb\xbf"):
        assert all(isinstance(found, Unreadable) for found in read(written(tmp_path, name, body)))
    else:
        assert read(written(tmp_path, name, body)) == []


@cases(
    "name body found",
    {
        "lines": (
            "x.jsonl",
            b'{"metadata":{"name":"a"}}\n\n{\n{"metadata":{"name":"b"}} x\nnull\n7\n[]\n' + LINES,
            [
                "a",
                ("3", "(line 3, column 2)"),
                ("4", "(line 4, column 27)"),
                *((place, NO_OBJECT) for place in "567"),
                *"abc",
            ],
        ),
        "first broken": ("x", b"{\nno\n" + LINES, [("1", ""), ("2", ""), *"abc"]),
        "documents": (
            "x.yaml",
            b"metadata: {name: a}\n---\nx: [\n---\njust text\n---\nmetadata: {name: b}\n",
            [
                "a",
                ("2", "invalid YAML: did not find expected node content (line 4, column 1)"),
                ("4", "not a Kubernetes object"),
                "b",
            ],
        ),
        "cut off": ("x.json", PRETTY[:-3], ["a", "b", ("13", "")]),
        "a list cut off": ("x.json", LIST[:-3], [("1", "")]),
        "deep JSON": ("x.json", b"[" * 2000 + b"]" * 2000, [("1", "")]),
        "deeper": ("x.json", b'{"a":' * 2000 + b"1" + b"}" * 2000, [("1", "")]),
        "in lists": ("x", b"[" * 900 + b"]" * 900, [("1" + "[0]" * 899, NO_OBJECT)]),
        "not UTF-8": ("x.yaml", b"a: \xff", [("1", "")]),
        "half of UTF-16": ("x.yaml", b"\xff\xfea", [("", "")]),
        "packed, cut off": ("x.gz", PACKED[:-9], [("", "marker was reached")]),
        "packed, damaged": ("x.gz", PACKED[:20] + b"x" * 50, [("", "")]),
        "nothing packed": ("x.gz", b"\x1f\x8b" + b"x" * 50, [("", "")]),
        "only named so": (
            "x.gz",
            b"not packed",
            [("1", "not gzip: not a Kubernetes object")],
        ),
        "bytes": ("x", b"\x00\x01\x02", [("1", "")]),
        "lists": (
            "x.json",
            NESTED,
            [*"ab", ("1.items[1].items[1]", NO_OBJECT), ("1.items[2]", NO_OBJECT)],
        ),
    },
)
def test_broken_files(tmp_path: Path, name: str, body: bytes, found: list[Any]) -> None:
    """What is broken is told with its place, in its place, and the rest is read."""
    path = written(tmp_path, name, body)
    told = read(path)
    assert len(told) == len(found)
    for actual, expected in zip(told, found, strict=True):
        if isinstance(expected, str):
            assert actual == expected
            continue
        place, message = expected
        assert isinstance(actual, Unreadable)
        assert actual.place == (f"{path}:{place}" if place else str(path))
        assert "\n" not in actual.message
        assert actual.message.endswith(message)


@cases(
    "item names",
    {
        "typed": ({"kind": "ThingList", "apiVersion": "v1", "items": [A, B]}, "ab"),
        "empty": ({"kind": "List", "items": []}, ""),
        "null": ({"kind": "ThingList", "items": None, "metadata": {"name": "x"}}, "x"),
        "another kind": ({"kind": "AllowList", "metadata": {"name": "x"}}, "x"),
        "odd": ({"kind": 7, "items": [A], "metadata": {"name": "x"}}, "x"),
    },
)
def test_lists(tmp_path: Path, item: Json, names: str) -> None:
    """A list is opened if it is one."""
    assert read(written(tmp_path, "x.json", json.dumps(item).encode())) == list(names)


def test_items_of_typed_lists(tmp_path: Path) -> None:
    """What a typed list says its items do not have to say."""
    item = {"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {}}, {"kind": "X"}]}
    path = written(tmp_path, "x.json", json.dumps(item).encode())
    found = list(documents(str(path)))
    assert found == [
        Document(f"{path}:1.items[0]", {"apiVersion": "v1", "kind": "Pod", "metadata": {}}),
        Document(f"{path}:1.items[1]", {"apiVersion": "v1", "kind": "X"}),
    ]


def test_lists_make_room(tmp_path: Path) -> None:
    """What was read of a list is let go on the way: a large one leaves room for what is kept."""
    path = written(tmp_path, "list.json", json.dumps(make.snapshot_json(*[A] * 5000)).encode())
    tracemalloc.start()
    try:
        found = documents(str(path))
        next(found)
        at_first, _ = tracemalloc.get_traced_memory()
        for _ in range(4998):
            next(found)
        at_last, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert at_last < at_first / 2


def test_folders(tmp_path: Path) -> None:
    """Of a folder all files are read in the order of their names, hidden and others not."""
    for name, item in {"b/2.json": B, "b/1.yaml": A, "c.jsonl.gz": C, "a.txt": A}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        body = json.dumps(item).encode()
        path.write_bytes(gzip.compress(body) if name.endswith("gz") else body)
    hidden = tmp_path / "..2026_01" / "x.json"  # how Kubernetes mounts files
    hidden.parent.mkdir()
    hidden.write_bytes(LIST)
    (tmp_path / ".x.json").write_bytes(LIST)
    (tmp_path / "d.json").mkdir()
    (tmp_path / "e.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "z.json").symlink_to(hidden)
    assert read(tmp_path) == ["a", "b", "c", "a", "b", "c"]
    assert read(tmp_path / "d.json") == []


@pytest.mark.parametrize("name", ["missing.yaml", "missing/x.yaml", "x" * 5000, "a.json/x.json"])
def test_files_that_are_not_there(tmp_path: Path, name: str) -> None:
    """A file that was named and is not there ends everything, with a sentence."""
    written(tmp_path, "a.json", LIST)
    with pytest.raises(BadSetting) as caught:
        read(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_that_may_not_be_read(tmp_path: Path) -> None:
    """A named file must be readable; one in a folder is left out and told."""
    path = written(tmp_path, "a.json", LIST)
    path.chmod(0)
    written(tmp_path, "b.json", json.dumps(B).encode())
    with pytest.raises(BadSetting, match="Permission denied"):
        read(path)
    assert read(tmp_path) == [Unreadable(str(path), "Permission denied"), "b"]


@pytest.mark.parametrize("body", [LINES, gzip.compress(YAML)], ids=["lines", "packed"])
def test_standard_input(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash stands for what is piped in."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(body)))
    assert read("-") == ["a", "b", "c"]


def test_places_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is piped in has lines as well."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"x: [\n---\n{}")))
    assert [found.place for found in documents("-")] == ["stdin:1", "stdin:2"]


def test_no_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a standard input there is nothing to read from it."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(BadSetting, match="standard input is closed"):
        read("-")
