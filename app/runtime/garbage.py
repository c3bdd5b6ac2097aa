"""How memory becomes free: garbage is collected seldom, and the C library gives back what it can.

Strategy: nearly all that is read stays, and nearly all that goes is in no circle; so circles are
looked for seldom, because each look goes through much that stays.

glibc keeps what was freed, in an area for each thread, and keeps more the larger the blocks were
that came and went. Lists of a whole cluster are read by one thread and freed by another, so much
unused memory would stay: a fifth of a recommender of 8,000 pods. Under the interpreter's lock
threads hardly compete for an area, so one is enough for all.

Even so only the end of that area is given back by itself. What lies between things that stay is
given back on request, which takes a tenth of a second for each GB: after a flood, not after
each answer.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Final

_NEW_OBJECTS: Final = 50_000  # the usage of some 6,000 pods is so many, for a moment
_LOOKS: Final = 10  # at what is new until one goes further, and further again
_LONG_LOOKS: Final = (20, 50)  # where what is answered leaves next to nothing behind
_LOADING_SECONDS: Final = 120.0

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


def give_back_now() -> None:
    """Give back what is free anywhere."""
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def collect_seldom() -> None:
    """Let garbage collection cost little."""
    gc.set_threshold(_NEW_OBJECTS, _LOOKS, _LOOKS)


@contextmanager
def without_collection() -> Iterator[None]:
    """Hold garbage collection, which would look at everything that is read again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Loading:
    """Holds collection while the cluster is read, and leaves what was read out of it from then on.

    A collection that went through a whole snapshot would hold up reviews for long. If the cluster
    cannot be read for some time, collection goes on as usual until it is.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._until = monotonic() + _LOADING_SECONDS
        gc.disable()

    def tend(self, *, is_loaded: bool) -> None:
        """Take collection up again when the cluster is read, or reading takes too long."""
        if is_loaded:
            self.is_over = True
            gc.collect()
            gc.freeze()
            gc.set_threshold(_NEW_OBJECTS, *_LONG_LOOKS)
        if is_loaded or monotonic() > self._until:
            gc.enable()
