"""Memory peaks: one per stream and interval, replaced while the interval runs.

Strategy: arrays, one entry per stream. A peak is stamped with the end of its interval, so it has
its final weight from the start and can be taken back exactly. Peaks of usage and of OOM kills
are kept apart, because only usage counts when the next kill is judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.recommender.core.bank import Bank, Rows
from app.recommender.core.checkpoints import OpenWindow
from app.recommender.core.decay import Times, Weights
from app.recommender.core.grid import MEMORY, Amounts
from app.recommender.core.moments import UNSET

Streams = NDArray[np.intp]
Mask = NDArray[np.bool_]

PEAK_WEIGHT: Final = 1.0


@dataclass(frozen=True, slots=True)
class Peaks:
    """What one observation of each of several streams does to their rows."""

    replaced: Mask  # the old peak must be taken back
    old: Amounts  # bytes
    new: Mask  # the observed amount is the new peak
    ends: Times  # the end of the interval, of old and new


def file_peaks(bank: Bank, rows: Rows, peaks: Peaks, amounts: Amounts) -> Weights:
    """Take back and add what an observation of streams, each feeding a row, asks for.

    Returns how much weight each observation moved; a peak that stays in its bucket moves none.
    """
    gone, new = peaks.replaced, peaks.new
    before, after = MEMORY.bucket(peaks.old), MEMORY.bucket(amounts)
    moved = np.zeros(len(rows))
    bank.subtract(rows[gone], before[gone], peaks.ends[gone], PEAK_WEIGHT)
    moved[new] = bank.add(rows[new], after[new], peaks.ends[new], PEAK_WEIGHT)
    moved[gone & (before == after)] = 0.0
    return moved


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

    def clear(self, streams: Streams) -> None:
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

    def peak(self, streams: Streams) -> Amounts:
        """Return the running peaks."""
        return np.maximum(self.usage[streams], self.oom[streams])

    def observe(
        self,
        streams: Streams,
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
