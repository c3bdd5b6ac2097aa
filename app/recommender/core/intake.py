"""Samples and kills on their way into the rows, and how they compare with what was recommended.

Strategy: a batch is split into parts in which no container occurs twice, and each part is a
handful of array operations. Containers that feed one row and have not moved lately take the
straight way; the few others are looked at one by one, for a sample goes to the rows its pod
belonged to when it was taken. Comparisons are gathered as arrays, one for each update mode,
resource and kind of sample, until the metrics ask for them and bin them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from app.model.update_modes import mode_rules
from app.recommender.core.histograms import Amounts, Flags, Floats, Indexes, Rows, Times
from app.recommender.core.membership import Membership
from app.recommender.core.moments import AHEAD, DAY, UNSET
from app.recommender.core.rules import CPU, MEMORY, RecommenderRules
from app.recommender.core.samples import MANY, NO_STREAM
from app.recommender.core.tables import MEMORY_OFFSET, TARGET, RowTable, VpaTable
from app.recommender.core.usage import REFUSED, UsageBatch

_UNKNOWN: Final = -1
_OLDEST_NS: Final = 400 * DAY  # samples may be so old


@dataclass(slots=True)
class SampleTally:
    """What became of samples and kills; numbers only grow."""

    unreadable: int = 0  # pods and containers in lists of usage
    unknown: int = 0  # containers of samples that no pod has
    misdated: int = 0  # samples from tomorrow, or from long ago
    cpu: int = 0  # samples counted, once for each row
    cpu_repeated: int = 0  # not newer than the last one
    cpu_refused: int = 0  # amounts that cannot be
    cpu_boosted: int = 0  # taken during a startup boost
    cpu_moved: int = 0  # averaged over a change of VPAs
    memory: int = 0
    memory_late: int = 0
    memory_refused: int = 0
    past_series_refused: int = 0  # of history from elsewhere
    past_points_refused: int = 0
    kills: int = 0
    kills_repeated: int = 0
    kills_late: int = 0  # too long ago, or in the future
    kills_unknown: int = 0
    kills_equal: int = 0  # would have repeated a synthetic peak

    def counts(self) -> dict[str, int]:
        """Return all numbers by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


class Intake:
    """Feeds samples to rows."""

    def __init__(self, members: Membership, quality: Quality, rules: RecommenderRules) -> None:
        self.tally = SampleTally()
        self._quality = quality
        self._members = members
        self._drops_boosted = rules.cpu_startup_boost

    def take(self, batch: UsageBatch, now_ns: int, amend: Callable[[list[int]], None]) -> None:
        """Count a batch of samples, none from beyond tomorrow or too long ago.

        A single one with a broken date would age everything else to nothing. Instances whose
        kill was counted before a sample that is older come to `amend`.
        """
        self.tally.unreadable += batch.unreadable
        known = self._members.instances
        instances = np.array([known.get(key, _UNKNOWN) for key in batch.containers], dtype=np.intp)
        kept = np.flatnonzero(instances != _UNKNOWN)
        self.tally.unknown += len(instances) - len(kept)
        if now_ns != UNSET:
            times = batch.times[kept]
            sound = (times <= now_ns + AHEAD) & (times >= now_ns - _OLDEST_NS)
            self.tally.misdated += len(kept) - int(sound.sum())
            kept = kept[sound]
        for part in _parts(instances[kept], batch.times[kept]):
            chosen = kept[part]
            self._take_cpu(instances[chosen], batch, chosen)
            amend(self._take_memory(instances[chosen], batch, chosen))

    def _take_cpu(self, instances: Indexes, batch: UsageBatch, chosen: Indexes) -> None:
        table, tally = self._members.routes.instances, self.tally
        cpu, times = batch.cpu_millicores[chosen], batch.times[chosen]
        told = cpu >= 0
        fresh = told & (times > table.last_cpu[instances])
        tally.cpu_refused += int((cpu == REFUSED).sum())
        tally.cpu_repeated += int((told & ~fresh).sum())
        counted = np.flatnonzero(fresh)
        instances, times = instances[counted], times[counted]
        starts = times - batch.windows_ns[chosen[counted]]
        table.last_cpu[instances] = times
        if self._drops_boosted:
            free = starts >= table.boosted_until[instances]
            tally.cpu_boosted += len(free) - int(free.sum())
            counted, instances, times = counted[free], instances[free], times[free]
            starts = starts[free]
        settled = starts >= table.moved[instances]
        samples, streams = self._routed(instances, times, settled, starts)
        tally.cpu += len(samples)
        rows, used = self._members.routes.streams.row[streams], cpu[counted[samples]]
        self._quality.compare(CPU, rows, used)
        self._members.rows.learn_cpu(rows, used, times[samples])

    def _take_memory(self, instances: Indexes, batch: UsageBatch, chosen: Indexes) -> list[int]:
        """Count memory; return the instances that were killed later than that."""
        table, tally = self._members.routes.instances, self.tally
        memory, times = batch.memory_bytes[chosen], batch.times[chosen]
        told = memory >= 0
        fresh = told & (times >= table.last_memory[instances])
        tally.memory_refused += int((memory == REFUSED).sum())
        tally.memory_late += int((told & ~fresh).sum())
        counted = np.flatnonzero(fresh)
        instances, times = instances[counted], times[counted]
        table.last_memory[instances] = times
        settled = times >= table.moved[instances]
        samples, streams = self._routed(instances, times, settled, None)
        tally.memory += len(samples)
        self.learn_memory(streams, memory[counted[samples]], times[samples], is_oom=False)
        overtaken: list[int] = instances[times <= table.killed[instances]].tolist()
        return overtaken

    def learn_memory(
        self, streams: Indexes, amounts: Amounts, times: Times, *, is_oom: bool
    ) -> None:
        """Add memory observations of streams, each given once."""
        rows = self._members.routes.streams.row[streams]
        self._quality.compare(MEMORY, rows, amounts, is_oom=is_oom)
        peaks = self._members.routes.streams.observe(
            streams,
            times,
            amounts,
            self._members.rows.interval_ns[rows],
            is_oom=is_oom,
        )
        self._members.rows.learn_peaks(rows, peaks, amounts, times)

    def _routed(
        self, instances: Indexes, times: Times, settled: Flags, starts: Times | None
    ) -> tuple[Indexes, Indexes]:
        """Return (sample, stream) pairs: where each sample goes, in the order of the samples."""
        direct = self._members.routes.instances.stream[instances]
        straight = settled & (direct != MANY)
        samples = np.flatnonzero(straight & (direct != NO_STREAM))
        streams = direct[samples]
        others = np.flatnonzero(~straight)
        if not len(others):
            return samples, streams
        pairs = [
            (sample, stream)
            for sample in others.tolist()
            for stream in self._streams_at(
                int(instances[sample]),
                int(times[sample]),
                None if starts is None else int(starts[sample]),
            )
        ]
        more = np.array(pairs, dtype=np.intp).reshape(-1, 2)
        samples = np.concatenate([samples, more[:, 0]])
        order = np.argsort(samples, kind="stable")
        return samples[order], np.concatenate([streams, more[:, 1]])[order]

    def _streams_at(self, instance: int, time_ns: int, start_ns: int | None) -> list[int]:
        """Return the streams of one instance at a time; none if it moved while measured."""
        pod = self._members.pod_of_instance[instance]
        if start_ns is not None and pod.moved_within(start_ns, time_ns):
            self.tally.cpu_moved += 1
            return []
        return self._members.streams_at(pod, instance, time_ns)


def _parts(instances: Indexes, times: Times) -> list[Indexes]:
    """Part samples so that no container occurs twice in a part, the older ones first."""
    if len(np.unique(instances)) == len(instances):
        return [np.arange(len(instances))]
    order = np.lexsort((times, instances))
    ordered = instances[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(ordered)])
    turn = np.empty(len(instances), dtype=np.intp)
    turn[order] = np.arange(len(ordered)) - np.repeat(starts, lengths)
    return [np.flatnonzero(turn == number) for number in range(int(turn.max()) + 1)]


_COLUMN: Final = {CPU: TARGET, MEMORY: MEMORY_OFFSET + TARGET}
PER_UNIT: Final = {CPU: 1000.0, MEMORY: 1.0}  # millicores of a core, bytes of a byte


@dataclass(frozen=True, slots=True, eq=False)
class UsageComparison:
    """Samples beside the target that stood before caps when they came; cores or bytes."""

    mode: str
    resource: str
    is_oom: bool
    used: Floats
    recommended: Floats  # 0 where there was none


@dataclass(frozen=True, slots=True, eq=False)
class TargetChange:
    """Targets before caps, of containers of VPAs with so many pods; cores or bytes."""

    mode: str
    resource: str
    pods: int
    before: Floats
    after: Floats


class Quality:
    """Gathers comparisons until they are asked for."""

    def __init__(self, rows: RowTable, vpas: VpaTable, *, gathers: bool) -> None:
        self._rows = rows
        self._vpas = vpas
        self._gathers = gathers
        self._comparisons: list[UsageComparison] = []
        self._changes: list[TargetChange] = []

    def compare(self, resource: str, rows: Rows, used: Amounts, *, is_oom: bool = False) -> None:
        """Note samples that were counted for some rows."""
        if not self._gathers:
            return
        modes = self._vpas.mode[self._rows.vpa[rows]]
        recommended = self._rows.estimated[rows, _COLUMN[resource]]
        unit = PER_UNIT[resource]
        for number in np.unique(modes).tolist():
            mode, lines = self._vpas.modes[number], modes == number
            if mode_rules(mode).on_creation:
                self._comparisons.append(
                    UsageComparison(
                        mode, resource, is_oom, used[lines] / unit, recommended[lines] / unit
                    )
                )

    def move(self, rows: Rows, amounts: Amounts) -> None:
        """Note what is recommended now for some rows, in the columns of publications."""
        if not self._gathers:
            return
        vpas = self._rows.vpa[rows]
        keys = np.stack([self._vpas.mode[vpas], self._vpas.pods[vpas]], axis=1)
        for resource, column in _COLUMN.items():
            before, after = self._rows.estimated[rows, column], amounts[:, column]
            known, unit = (before > 0) & (after > 0), PER_UNIT[resource]
            for number, pods in np.unique(keys[known], axis=0).tolist():
                lines = known & (keys == (number, pods)).all(axis=1)
                mode = self._vpas.modes[number]
                change = TargetChange(
                    mode, resource, pods, before[lines] / unit, after[lines] / unit
                )
                self._changes.append(change)

    def take(self) -> tuple[list[UsageComparison], list[TargetChange]]:
        """Return everything since the last time."""
        found = self._comparisons, self._changes
        self._comparisons, self._changes = [], []
        return found
