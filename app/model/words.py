"""Words: what they mean, and which one was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

# What Go takes for true and false, and so everybody who writes flags for Kubernetes.
BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint at the known word that is most alike, empty if none is."""
    lowered = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.5)
    return f'; did you mean "{lowered[found[0]]}"?' if found else ""
