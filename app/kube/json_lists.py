"""Large lists in JSON, cut into their items.

Strategy: a list that is read as a whole takes many times its size, one whose items are read one
after the other next to nothing. Brackets tell where items begin and end; what stands around them
is read as JSON, and if that is no list, the text is left to be read as a whole.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

_ITEMS: Final = re.compile(rb'"items"\s*+:\s*+\[')
_LONGEST_HEAD: Final = 65_536  # what may stand before the items
# The next bracket that stands in no string; possessive, so that it never goes back.
_BRACKET: Final = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+([{}\[\]])', re.DOTALL)
_OPENING: Final = (b"{", b"[")
_BLANK: Final = b" \t\r\n,"


@dataclass(frozen=True, slots=True)
class JsonList:
    """A list in a text."""

    envelope: dict[str, Any]  # the list without its items
    text: bytes
    ends: array[int]  # by turns where an item begins and where it ends

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield where an item begins, and its text; several that are no objects come as one."""
        for begin, end in zip(self.ends[::2], self.ends[1::2], strict=True):
            yield begin, self.text[begin:end].strip(_BLANK)


def find_list(text: bytes) -> JsonList | None:
    """Return the list that a text is, None if it is none."""
    head = _ITEMS.search(text, 0, _LONGEST_HEAD)
    if head is None:
        return None
    ends, end = _ends(text, head.end())
    try:
        envelope = orjson.loads(text[: head.end()] + text[end:])
    except orjson.JSONDecodeError:
        return None
    is_list = isinstance(envelope, dict) and envelope.get("items") == []
    return JsonList(envelope, text, ends) if is_list else None


def _ends(text: bytes, start: int) -> tuple[array[int], int]:
    """Return where items begin and end, and where the list does."""
    ends = array("q")
    depth, done = 0, start
    for bracket in _BRACKET.finditer(text, start):
        at = bracket.start(1)
        if bracket[1] in _OPENING:
            if depth == 0:
                _note_others(text, done, at, ends)
                ends.append(at)
            depth += 1
        elif depth == 0:
            _note_others(text, done, at, ends)
            return ends, at
        else:
            depth -= 1
            if depth == 0:
                done = at + 1
                ends.append(done)
    return ends, len(text)


def _note_others(text: bytes, start: int, end: int, ends: array[int]) -> None:
    """Note what stands between two objects beside commas, so that nothing is passed over."""
    if text[start:end].strip(_BLANK):
        ends.extend((start, end))
