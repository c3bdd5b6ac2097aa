"""How garbage is collected: seldom, and not at all while much is read.

Strategy: nearly all that is read stays, and nearly all that goes is in no circle; so circles are
looked for seldom, because each look goes through much that stays.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NEW_OBJECTS: Final = 50_000  # the usage of some 6,000 pods is so many, for a moment
_LOOKS: Final = 10  # at what is new until one goes further, and further again


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
