"""Running containers, and the usage of those that carry the same name and the same pod labels.

OOM kills are seen as upstream sees them: in transitions between two states of a pod, and only
there. Histograms behave as upstream's do, to the last bit: the range of filled buckets is part of
the state, because upstream scales, merges and stores only what lies inside of it; and merging
shifts whichever reference is older, also that of the histogram that is only read.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from app.model.pods import Pod
from app.model.vpa import ContainerPolicy
from app.recommender.core.checkpoints import HEAVIEST, Checkpoint, StoredHistogram
from app.recommender.core.histograms import (
    BUCKETS,
    CPU_GRID,
    EPSILON,
    LONGEST,
    MEMORY_GRID,
    Grid,
    Weights,
    exp2,
    nearest_reference,
)
from app.recommender.core.moments import UNSET, span
from app.recommender.core.oom import OomRecord, kill_record, needed_memory, was_killed
from app.recommender.core.rules import (
    AggregationRules,
    ContainerAggregation,
    RecommenderRules,
    aggregation_of,
)
from app.recommender.core.tables import CPU_WEIGHT, PEAK_WEIGHT


class Aggregate:
    """What was learned of one container name under one set of labels."""

    def __init__(self, rules: AggregationRules, created_ns: int) -> None:
        self.cpu = Histogram(span(rules.cpu_half_life))
        self.memory = Histogram(span(rules.memory_half_life))
        self.first_ns = self.last_ns = UNSET  # of the CPU samples
        self.count = 0
        self.created_ns = created_ns
        self.settings = aggregation_of(None, rules)

    def add_cpu(self, millicores: int, time_ns: int) -> None:
        """Add a CPU sample."""
        self.cpu.add(bucket_of(CPU_GRID, millicores), CPU_WEIGHT, time_ns)
        self.last_ns = max(self.last_ns, time_ns)
        self.first_ns = time_ns if self.first_ns == UNSET else min(self.first_ns, time_ns)
        self.count += 1

    def add_peak(self, memory_bytes: int, time_ns: int) -> None:
        """Add a memory peak."""
        self.memory.add(bucket_of(MEMORY_GRID, memory_bytes), PEAK_WEIGHT, time_ns)

    def take_peak(self, memory_bytes: int, time_ns: int) -> None:
        """Take a memory peak away, whether it was added here or not."""
        self.memory.subtract(bucket_of(MEMORY_GRID, memory_bytes), PEAK_WEIGHT, time_ns)

    def merge(self, other: Aggregate) -> None:
        """Take everything of another aggregate."""
        self.cpu.merge(other.cpu)
        self.memory.merge(other.memory)
        if other.first_ns != UNSET and not UNSET < self.first_ns <= other.first_ns:
            self.first_ns = other.first_ns
        self.last_ns = max(self.last_ns, other.last_ns)
        self.count += other.count

    def load(self, found: Checkpoint) -> None:
        """Take in a checkpoint."""
        self.cpu.load(found.cpu)
        self.memory.load(found.memory)
        self.first_ns, self.last_ns, self.count = found.first_ns, found.last_ns, found.count

    def follow(self, policy: ContainerPolicy | None, rules: RecommenderRules) -> None:
        """Take the settings a policy makes; those it does not make stay as they are."""
        if not rules.per_vpa_config or policy is None:
            return
        had = self.settings
        made = aggregation_of(policy, rules.aggregation)
        self.settings = ContainerAggregation(
            had.interval_ns if policy.memory_interval_seconds is None else made.interval_ns,
            had.interval_count if policy.memory_interval_count is None else made.interval_count,
            had.bump_up_ratio if policy.oom_bump_up_ratio is None else made.bump_up_ratio,
            had.min_bump_up_bytes if policy.oom_min_bump_up is None else made.min_bump_up_bytes,
        )

    @property
    def is_unset(self) -> int:
        """How many of the histograms never had a sample."""
        return (self.cpu.reference_ns == UNSET) + (self.memory.reference_ns == UNSET)

    def is_expired(self, now_ns: int) -> bool:
        """Whether nothing was heard for the whole time of expiry; memory does not count."""
        since_ns = self.last_ns if self.count else self.created_ns
        return since_ns == UNSET or now_ns - since_ns >= self.settings.expiry_ns


class RunningContainer:
    """One container of one pod."""

    def __init__(self, aggregate: Callable[[], Aggregate]) -> None:
        self.aggregate = aggregate  # asked at every use: it may have been collected meanwhile
        self.last_cpu_ns = UNSET
        self.last_memory_ns = UNSET
        self.end_ns = UNSET
        self.usage_bytes = 0
        self.oom_bytes = 0

    @property
    def peak_bytes(self) -> int:
        """The highest peak of the running interval."""
        return max(self.usage_bytes, self.oom_bytes)

    def use_cpu(self, millicores: int, time_ns: int) -> bool:
        """Count a CPU sample; tell whether it counted."""
        if millicores < 0 or time_ns <= self.last_cpu_ns:
            return False
        self.aggregate().add_cpu(millicores, time_ns)
        self.last_cpu_ns = time_ns
        return True

    def use_memory(self, memory_bytes: int, time_ns: int, *, is_oom: bool = False) -> bool:
        """Count a memory sample; tell whether it counted."""
        if memory_bytes < 0 or (not is_oom and time_ns < self.last_memory_ns):
            return False
        self.last_memory_ns = time_ns
        if self.end_ns == UNSET:
            self.end_ns = time_ns
        if time_ns < self.end_ns:
            old = self.peak_bytes
            if old == 0 or memory_bytes <= old:
                return True
            self.aggregate().take_peak(old, self.end_ns)
        else:
            interval_ns = self.aggregate().settings.interval_ns
            self.end_ns += (time_ns - self.end_ns) // interval_ns * interval_ns + interval_ns
            self.usage_bytes = self.oom_bytes = 0
        self.aggregate().add_peak(memory_bytes, self.end_ns)
        if is_oom:
            self.oom_bytes = memory_bytes
        else:
            self.usage_bytes = memory_bytes
        return True

    def kill(self, memory_bytes: int, time_ns: int) -> bool:
        """Count an OOM kill; tell whether it counted."""
        settings = self.aggregate().settings
        if self.last_memory_ns != UNSET and time_ns < self.last_memory_ns - settings.interval_ns:
            return False
        return self.use_memory(self.needed(memory_bytes), time_ns, is_oom=True)

    def needed(self, memory_bytes: int) -> int:
        """Return how much would have been enough for a container that had so much."""
        settings = self.aggregate().settings
        return needed_memory(
            memory_bytes,
            self.usage_bytes,
            ratio=settings.bump_up_ratio,
            bump_bytes=settings.min_bump_up_bytes,
        )


def kills_by_transition(before: Pod | None, after: Pod) -> list[OomRecord]:
    """Return the kills that upstream sees between two states of a pod."""
    found = []
    for status in after.statuses:
        old = before.status(status.name) if before is not None else None
        if before is None or old is None:
            continue
        restarted = status.restart_count > old.restart_count
        if was_killed(status.terminated) and (old.terminated is None or restarted):
            found.append(kill_record(after, status.name, status.terminated, after))
        elif (
            status.is_running
            and old.is_running
            and restarted
            and was_killed(status.last_terminated)
        ):
            found.append(kill_record(after, status.name, status.last_terminated, before))
    return found


_REMEMBERED: Final = 65_536


class Histogram:
    """Weights of buckets."""

    __slots__ = ("first", "half_life_ns", "last", "reference_ns", "total", "weights")

    def __init__(self, half_life_ns: int) -> None:
        self.half_life_ns = half_life_ns
        self.weights: Weights = np.zeros(BUCKETS)
        self.total = 0.0
        self.first = BUCKETS - 1  # of the filled buckets
        self.last = 0
        self.reference_ns = UNSET

    def add(self, bucket: int, weight: float, time_ns: int) -> None:
        """Add a sample."""
        weight *= self._factor(time_ns)
        self.weights[bucket] += weight
        self.total += weight
        if self.weights[bucket] >= EPSILON:
            self.first, self.last = min(self.first, bucket), max(self.last, bucket)

    def subtract(self, bucket: int, weight: float, time_ns: int) -> None:
        """Take a sample away, whether it was added here or not."""
        weight *= self._factor(time_ns)
        self.total = _less(self.total, weight)
        self.weights[bucket] = _less(float(self.weights[bucket]), weight)
        self._trim()

    def merge(self, other: Histogram) -> None:
        """Take all samples of another histogram, which may be shifted by that."""
        if self.is_new and other.reference_ns != UNSET:
            self._copy(other)
            return
        if self.reference_ns < other.reference_ns:
            self._shift(other.reference_ns)
        elif other.reference_ns < self.reference_ns:
            other._shift(self.reference_ns)
        filled = slice(other.first, other.last + 1)
        self.weights[filled] += other.weights[filled]
        self.total += other.total
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)

    @property
    def is_new(self) -> bool:
        """Whether nothing ever happened to it."""
        return self.reference_ns == UNSET and self.first > self.last and not self.total

    def store(self) -> StoredHistogram:
        """Return the histogram as a checkpoint holds it."""
        filled = self.weights[self.first : self.last + 1]
        if not len(filled):
            return StoredHistogram(self.reference_ns, {}, self.total)
        counts = np.floor(filled * (HEAVIEST / filled.max()) + 0.5).astype(np.int64)
        stored = {self.first + int(at): int(counts[at]) for at in np.flatnonzero(counts)}
        return StoredHistogram(self.reference_ns, stored, self.total)

    def load(self, stored: StoredHistogram) -> None:
        """Take in what a checkpoint holds."""
        parts = sum(stored.weights.values())
        self.reference_ns = stored.reference_ns
        if not parts:
            return
        ratio = stored.total / float(parts)
        for bucket, count in stored.weights.items():
            self.weights[bucket] += float(count) * ratio
            self.first, self.last = min(self.first, bucket), max(self.last, bucket)
        self.total += stored.total
        self._trim()

    def _copy(self, other: Histogram) -> None:
        """Do as merging does, for one that is new."""
        filled = slice(other.first, other.last + 1)
        self.weights[filled] = other.weights[filled]
        self.total, self.first, self.last = other.total, other.first, other.last
        self.reference_ns = _nearest(other.reference_ns, self.half_life_ns)

    def _factor(self, time_ns: int) -> float:
        if time_ns > self.reference_ns + LONGEST * self.half_life_ns:
            self._shift(time_ns)
        return _factor(time_ns - self.reference_ns, self.half_life_ns)

    def _shift(self, time_ns: int) -> None:
        half_life_ns, before_ns = self.half_life_ns, self.reference_ns
        self.reference_ns = _nearest(time_ns, half_life_ns)
        factor = 0.0  # what was never given a reference is forgotten
        if before_ns != UNSET:
            ahead = float(before_ns - self.reference_ns) / float(half_life_ns)
            exponent = math.floor(ahead + 0.5)
            factor = math.ldexp(1.0, exponent)
        self.weights[self.first : self.last + 1] *= factor
        self.total *= factor
        self._trim()

    def _trim(self) -> None:
        filled = np.flatnonzero(self.weights >= EPSILON)
        inside = filled[filled >= self.first]
        self.first = int(inside[0]) if len(inside) else BUCKETS - 1
        inside = filled[filled <= self.last]
        self.last = int(inside[-1]) if len(inside) else 0


def bucket_of(grid: Grid, amount: int) -> int:
    """Return the bucket of one amount."""
    return bisect_right(_smallest(grid), amount) - 1


@lru_cache
def _smallest(grid: Grid) -> list[int]:
    return [int(amount) for amount in grid.smallest]


@lru_cache(_REMEMBERED)
def _factor(ahead_ns: int, half_life_ns: int) -> float:
    return float(exp2(np.array([float(ahead_ns) / float(half_life_ns)]))[0])


@lru_cache(_REMEMBERED)
def _nearest(time_ns: int, half_life_ns: int) -> int:
    return int(nearest_reference(np.array([time_ns]), half_life_ns)[0])


def _less(amount: float, by: float) -> float:
    left = amount - by
    return 0.0 if left < EPSILON else left
