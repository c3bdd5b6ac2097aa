"""Sentences about words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint at the known word that is most alike, empty if none is."""
    lowered = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.5)
    return f'; did you mean "{lowered[found[0]]}"?' if found else ""
