"""YAML is read as Kubernetes means it, and no few lines can cost much."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.kube.splitting import yaml_documents
from app.model.errors import BadObject
from tests.cases import cases


def read(text: str | bytes) -> list[Any]:
    """Return the documents of a text; broken ones as their sentence."""
    body = text.encode() if isinstance(text, str) else text
    found = (value for _, value in yaml_documents(body))
    return [str(value) if isinstance(value, BadObject) else value for value in found]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("text", "text"),
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("1_000", 1000),
        ("0x1F", 31),
        ("0b101", 5),
        ("0755", 493),
        ("0.5", 0.5),
        ("-.5", -0.5),
        ("1.5e+3", 1500.0),
        ("true", True),
        ("Yes", True),
        ("off", False),
        ("null", None),
        ("~", None),
        ('""', ""),
        ("'7'", "7"),
        ('"true"', "true"),
        ("|\n    7", "7"),
        ("!!str 7", "7"),
        ("! 7", "7"),
        ("!!int 7", 7),
        ("!!int '7'", 7),
        ("!!bool yes", True),
        # What other readers of YAML take for something else, and JSON has no word for.
        ("2026-01-05T10:00:00Z", "2026-01-05T10:00:00Z"),
        ("2026-01-05", "2026-01-05"),
        ("!!timestamp 2026-01-05", "2026-01-05"),
        ("12:30:45", "12:30:45"),
        ("1e3", "1e3"),
        ("y", "y"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("089", "089"),
        ("0x_", "0x_"),
        ("<<", "<<"),
        ("9" * 40, int("9" * 40)),
        ("9" * 5000, "9" * 5000),
        ("!!binary aGk=", "aGk="),
    ],
)
def test_values(text: str, value: object) -> None:
    """Texts without quotes may be words or numbers; times and oddities stay text."""
    (found,) = read(f"a: {text}")
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


@cases(
    "text documents",
    {
        "empty": ("", []),
        "comments": ("\n  \n# only a comment\n", []),
        "empty documents": ("---\n---\n# x\n---\n~\n", []),
        "two": ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        "with ends": ("---\na: 1\n...\n---\nb: 2\n...\n", [{"a": 1}, {"b": 2}]),
        "more on the line": (
            "--- {a: 1}\n--- # c\nb: 2\n---\r\nc: 3\r\n",
            [{"a": 1}, {"b": 2}, {"c": 3}],
        ),
        "directives": ("%YAML 1.1\n# c\n---\na: 1\n", [{"a": 1}]),
        "dashes inside": (
            "a: |\n  x\n  ---\n  y\n---\nb: ----\n",
            [{"a": "x\n---\ny\n"}, {"b": "----"}],
        ),
        "lists": ("- 1\n- [2, {a: b}]\n", [[1, [2, {"a": "b"}]]]),
        "flow": ("{a: 1,\n b: 2}\n", [{"a": 1, "b": 2}]),
        "JSON": ('{"a": "\\u00e4", "b": [1, null]}', [{"a": "ä", "b": [1, None]}]),
    },
)
def test_documents(text: str, documents: list[object]) -> None:
    """A file holds any number of documents; empty ones are none."""
    assert read(text) == documents


def test_keys_are_texts() -> None:
    """A key that is no text becomes one, as in Kubernetes; one that cannot is told."""
    assert read("{1: a, true: b, off: c, 1.5: d, 'x': e, 2026-01-05: f}") == [
        {"1": "a", "true": "b", "false": "c", "1.5": "d", "x": "e", "2026-01-05": "f"}
    ]
    assert read("a: 1\na: 2") == [{"a": 2}]
    for key, column in (("~", 1), ("[a]", 1), ("{a: b}", 1), ("? [a]\n", 3)):
        sentence = f"invalid YAML: a key must be a text (line 1, column {column})"
        assert read(f"{key} : 1") == [sentence]


def test_a_broken_document_spoils_no_other() -> None:
    """What is wrong is told with its line in the file, and the rest is read."""
    text = "a: 1\n---\nb: [1\n---\n\nc: !unknown 3\n---\nd: 4\n"
    found = list(yaml_documents(text.encode()))
    assert [line for line, _ in found] == [1, 2, 4, 7]
    assert read(text) == [
        {"a": 1},
        "invalid YAML: did not find expected ',' or ']' (line 4, column 1)",
        "invalid YAML: the tag !unknown is not known (line 6, column 4)",
        {"d": 4},
    ]


@cases(
    "text",
    {
        "not UTF-8": (b"a: \xff\xfe",),
        "a null": (b"a: \x00",),
        "half a character": ('a: "\\ud800"',),
        "an open quote": ("a: 'x",),
        "a tab": ("\ta: 1",),
        "an alias of nothing": ("a: *x",),
        "a circle": ("a: &x [*x]",),
        "another circle": ("a: &x {b: *x}",),
        "an object of a language": ("a: !!python/object:os.system x",),
        "a merge of nothing": ("<<: 7",),
        "a merge of a number": ("<<: [{a: 1}, 7]",),
    },
)
def test_what_is_no_yaml(text: str | bytes) -> None:
    """What cannot be read is told in a sentence."""
    (found,) = read(text)
    assert found.startswith("invalid YAML: ")
    assert "\n" not in found


def test_anchors() -> None:
    """What an alias repeats is a copy, and a merge brings in what is not there."""
    text = """
    base: &base {cpu: 1, memory: 2, more: [x]}
    same: *base
    over: {<<: *base, cpu: 3}
    both: {<<: [{cpu: 4}, *base], more: 5}
    word: &word yes
    again: *word
    key: {*word : 6}
    """
    (found,) = read(text)
    assert found["same"] == {"cpu": 1, "memory": 2, "more": ["x"]}
    assert found["same"] is not found["base"]
    assert found["same"]["more"] is not found["base"]["more"]
    assert found["over"] == {"cpu": 3, "memory": 2, "more": ["x"]}
    assert found["both"] == {"cpu": 4, "memory": 2, "more": 5}
    assert (found["again"], found["key"]) == (True, {"true": 6})
    assert read("a: &x 1\n---\nb: *x\n")[1].endswith(
        'nothing above is called "x" (line 3, column 4)'
    )


LAUGHS = "a0: &a0 [" + "x, " * 9 + "x]\n"
LAUGHS += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30))
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 3000))


@cases(
    "text sentence",
    {
        "laughs": (LAUGHS, "the aliases repeat too much"),
        "a chain of aliases": (CHAIN, "nested too deeply"),
        "lists in lists": ("[" * 100_000, "nested too deeply"),
        "objects in objects": ("{a: " * 100_000, "nested too deeply"),
        "items in items": ("- " * 100_000, "nested too deeply"),
        "keys in keys": ("? " * 100_000, "nested too deeply"),
    },
)
def test_bombs(text: str, sentence: str) -> None:
    """A small file stays small, however it nests and repeats."""
    tracemalloc.start()
    try:
        (found,) = read(text)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sentence in found
    assert most_bytes < 300_000_000


def test_as_deep_as_may_be() -> None:
    """Objects may nest deeper than any object of Kubernetes does."""
    assert read("[" * 200 + "]" * 200) != ["invalid YAML: nested too deeply (line 1, column 202)"]
    assert read("[" * 202 + "]" * 202) == ["invalid YAML: nested too deeply (line 1, column 202)"]


def test_merges_do_not_pile_up() -> None:
    """What is merged ten times over and over is there once."""
    text = "a0: &a0 {k: 1}\n" + "".join(
        f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}], k{i}: 1}}\n" for i in range(1, 30)
    )
    (found,) = read(text)
    assert len(found["a29"]) == 30


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_what_was_written_is_read(value: object) -> None:
    """What a writer of YAML wrote comes back as it was."""
    assert read(yaml.safe_dump({"a": value})) == [{"a": value}]


@given(st.text(alphabet=" \n\t-?:,[]{}#&*!|>'\"%@`ab1.~<", max_size=40) | st.text(max_size=20))
def test_any_text_is_read_or_told(text: str) -> None:
    """Whatever stands in a file, it is documents or sentences."""
    for found in read(text):
        assert found is not None
