"""Numbers of pods that are written as a count or as a share."""

from __future__ import annotations

import math


def pods_meant(value: object, total: int, *, round_up: bool) -> int:
    """Return how many pods `3` or `"25%"` of a total means; nonsense means none."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return value
    text = str(value or "")
    if not text.endswith("%") or not text[:-1].isdecimal():
        return 0
    share = int(text[:-1]) * total / 100
    return math.ceil(share) if round_up else math.floor(share)
