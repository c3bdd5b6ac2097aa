"""Lets the C library give back memory that is free.

Strategy: glibc keeps what was freed, in an area for each thread, and keeps more the larger the
blocks were that came and went. Lists of a whole cluster are read by one thread and freed by
another, so much unused memory would stay: a fifth of a recommender of 8,000 pods. Under the
interpreter's lock threads hardly compete for an area, so one is enough for all.
"""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD: Final = -1  # as malloc.h numbers them
_ARENA_MAX: Final = -8
_FREE_BYTES: Final = 128 * 1024  # glibc's own value, which setting it keeps from growing


def give_back() -> bool:
    """Keep little that is free from now on; tell whether the C library does that."""
    try:
        adjust = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    return bool(adjust(_ARENA_MAX, 1)) and bool(adjust(_TRIM_THRESHOLD, _FREE_BYTES))
