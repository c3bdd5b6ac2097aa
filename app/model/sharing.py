"""One object for many equal values: a hundred thousand pods repeat the same few texts."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

_REMEMBERED = 16_384
_LONGEST = 64  # characters; longer texts hardly ever come twice


@lru_cache(_REMEMBERED, typed=True)
def shared(value: T) -> T:
    """Return the first of equal values that was seen lately."""
    return value


def shared_text(text: str) -> str:
    """Return the first of equal short texts that was seen lately."""
    return shared(text) if len(text) <= _LONGEST else text
