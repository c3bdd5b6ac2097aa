"""How large a VPA is, for labels that stay few."""

from __future__ import annotations

from typing import Final

_LARGEST: Final = 20


def size_log2(pods: int) -> int:
    """Return the whole logarithm of a number of pods; 0 for none, 20 at most."""
    return min(max(pods.bit_length() - 1, 0), _LARGEST)
