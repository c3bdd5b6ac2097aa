"""What Python holds, once all that is no longer needed is gone."""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from app.model import quantity

_SHARE: Final = 0.03  # that may come on top, for what differs from hour to hour
_BLOCKS: Final = 20_000  # and for what is bounded, but not full after a third
_QUEUED: Final = 3  # pieces of what waits in a queue of bounded length
_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Memory:
    """How many pieces are held, and of which types there are most."""

    blocks: int
    types: Counter[str]


def measured() -> Memory:
    """Return what is held; what only waits or is remembered within bounds does not count."""
    quantity.clear_caches()
    gc.unfreeze()  # a process freezes what it reads first, and with it all that was there before
    gc.collect()
    for found in gc.get_objects():
        if isinstance(found, _CACHE) and found.cache_parameters()["maxsize"] is not None:
            found.cache_clear()
    gc.collect()
    queues = [found for found in gc.get_objects() if type(found) is deque]
    queued = sum(len(found) for found in queues if found.maxlen is not None)
    types = Counter(
        f"{type(found).__module__}.{type(found).__qualname__}" for found in gc.get_objects()
    )
    return Memory(sys.getallocatedblocks() - _QUEUED * queued, types)


def growth(before: Memory, after: Memory) -> str:
    """Say by how much more is held than before, empty if that is within what hours differ by."""
    if after.blocks <= before.blocks * (1 + _SHARE) + _BLOCKS:
        return ""
    more = Counter(after.types)
    more.subtract(before.types)
    named = ", ".join(f"{name} +{count}" for name, count in more.most_common(_SHOWN))
    return f"growth: {before.blocks} pieces at a third, {after.blocks} at the end: {named}"


_CACHE: Final = type(lru_cache(maxsize=1)(len))
