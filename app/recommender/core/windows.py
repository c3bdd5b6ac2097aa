"""Memory peaks: one per stream and interval, replaced while the interval runs.

Strategy: arrays, one entry per stream. A peak is stamped with the end of its interval, so it has
its final weight from the start and can be taken back exactly. Peaks of usage and of OOM kills
are kept apart, because only usage counts when the next kill is judged.
"""

from __future__ import annotations

import numpy as np

from app.recommender.core.checkpoints import OpenWindow
from app.recommender.core.columns import Lines
from app.recommender.core.decay import Times
from app.recommender.core.grid import Amounts
from app.recommender.core.moments import UNSET
from app.recommender.core.rows import Peaks


class Windows:
    """The running interval of each stream."""

    def __init__(self) -> None:
        self.ends: Times = np.zeros(0, dtype=np.int64)  # UNSET before the first observation
        self.usage: Amounts = np.zeros(0, dtype=np.int64)  # bytes
        self.oom: Amounts = np.zeros(0, dtype=np.int64)  # bytes

    def grow(self, streams: int) -> None:
        """Make room for so many streams."""
        more = streams - len(self.ends)
        if more > 0:
            self.ends = np.concatenate([self.ends, np.full(more, UNSET, dtype=np.int64)])
            self.usage = np.concatenate([self.usage, np.zeros(more, dtype=np.int64)])
            self.oom = np.concatenate([self.oom, np.zeros(more, dtype=np.int64)])

    def clear(self, streams: Lines) -> None:
        """Forget the intervals of some streams."""
        self.ends[streams] = UNSET
        self.usage[streams] = 0
        self.oom[streams] = 0

    def resume(self, stream: int, end_ns: int, usage_bytes: int, oom_bytes: int) -> None:
        """Go on with an interval that began elsewhere."""
        self.ends[stream], self.usage[stream], self.oom[stream] = end_ns, usage_bytes, oom_bytes

    def told(self, stream: int, pod: str) -> OpenWindow:
        """Return the interval of a stream as a checkpoint tells it."""
        end_ns, usage, oom = self.ends[stream], self.usage[stream], self.oom[stream]
        return OpenWindow(pod, int(end_ns), int(usage), int(oom))

    def peak(self, streams: Lines) -> Amounts:
        """Return the running peaks."""
        return np.maximum(self.usage[streams], self.oom[streams])

    def observe(
        self,
        streams: Lines,
        times: Times,
        amounts: Amounts,
        intervals_ns: Amounts,
        *,
        is_oom: bool,
    ) -> Peaks:
        """Take one observation for each stream, each stream at most once."""
        ends = self.ends[streams]
        inside = (ends != UNSET) & (times < ends)
        old = self.peak(streams)
        replaced = inside & (amounts > old)
        starts = np.where(ends == UNSET, times, ends)
        later = starts + (times - starts) // intervals_ns * intervals_ns + intervals_ns
        ends = np.where(inside, ends, later)
        new = replaced | ~inside
        rolled = streams[~inside]
        self.usage[rolled] = 0
        self.oom[rolled] = 0
        self.ends[streams] = ends
        (self.oom if is_oom else self.usage)[streams[new]] = amounts[new]
        return Peaks(replaced, old, new, ends)
