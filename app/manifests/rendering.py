"""Kubernetes documents as YAML text, the same bytes every time.

Strategy: keys keep the order in which the code wrote them, sentences are folded over several
lines, and nothing is shared by anchors, so that a difference reads line by line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

_WIDTH = 84  # columns, indentation included, to which the last word comes on top
_LONG = 70  # characters; a sentence beyond this is folded


class _Folded(str):
    """A string to be written as a folded block."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """The safe dumper, which also knows folded blocks."""


def _fold(dumper: yaml.SafeDumper, text: _Folded) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=">")


_Dumper.add_representer(_Folded, _fold)


def printed_by(words: str) -> str:
    """Return a header that is true of the file in the repository and of what users print."""
    return (
        f"What `plumbline manifests {words}` prints; a change here is lost when it is printed anew."
    )


def render(documents: Iterable[Mapping[str, Any]], *, header: str) -> str:
    """Return the documents, parted by `---`, under `header` as a comment."""
    comment = "".join(f"# {line}\n" for line in header.splitlines())
    return comment + "".join(f"---\n{yaml_text(document)}" for document in documents)


def yaml_text(value: object) -> str:
    """Return a value as YAML."""
    text: str = yaml.dump(
        _tree(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH
    )
    return text


def _tree(value: object) -> object:
    """Copy a document; a part that stands in two places becomes two parts."""
    match value:
        case Mapping():
            return {key: _tree(each) for key, each in value.items()}
        case list() | tuple():
            return [_tree(each) for each in value]
        case str() if "\n" in value or (len(value) > _LONG and " " in value):
            return _Folded(value)
        case _:
            return value
