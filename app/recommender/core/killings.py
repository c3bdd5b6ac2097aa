"""Counts OOM kills: each once, for the rows its pod belonged to at the time.

Strategy: a kill counts when it is heard of, usage when it is read, so usage from before a kill
may come after it. The peak that the kill asked for is then raised, as if it had come in order.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from app.recommender.core.intake import Intake
from app.recommender.core.moments import AHEAD, SECOND, UNSET
from app.recommender.core.oom import OomRecord, needed_memory
from app.recommender.core.roster import Roster
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.tracked import TrackedPod

_MEMORY_TARGET = 3  # the column of what was published
_TOLD_AGAIN = 3  # kills of one container, at most: two by its status, and an eviction
_Container = tuple[str, str, str]  # namespace, pod, container


class Killings:
    """The kills that were counted, and counting more."""

    def __init__(self, roster: Roster, intake: Intake, rules: RecommenderRules) -> None:
        self._roster = roster
        self._intake = intake
        self._rules = rules
        self._counted: dict[_Container, set[int]] = {}  # seconds
        self._held: list[OomRecord] = []  # until it is known which kills history holds already
        self._newest: dict[int, OomRecord] = {}  # by instance

    def newest(self) -> list[tuple[_Container, int]]:
        """Return containers and the seconds of counted kills, the newest first."""
        found = [
            (container, second) for container, all_of in self._counted.items() for second in all_of
        ]
        return sorted(found, key=lambda kill: -kill[1])

    def remember(self, container: _Container, second: int) -> None:
        """Note a kill that history holds already."""
        seconds = {second, *self._counted.get(container, ())}
        self._counted[container] = set(sorted(seconds)[-_TOLD_AGAIN:])

    def forget_missing(self) -> None:
        """Forget the kills of containers that are gone."""
        for container in [one for one in self._counted if one not in self._roster.instances]:
            del self._counted[container]
        for instance in [one for one in self._newest if one not in self._roster.owners]:
            del self._newest[instance]

    def count(self, records: Iterable[OomRecord], now_ns: int) -> None:
        """Count kills, the VPAs concerned become urgent."""
        self._count_each(records, now_ns)

    def count_held(self, now_ns: int) -> None:
        """Count what was held back."""
        held, self._held = self._held, []
        self._count_each(held, now_ns, holds=False)

    def _count_each(self, records: Iterable[OomRecord], now_ns: int, *, holds: bool = True) -> None:
        for record in records:
            with self._roster.mishaps.guard("kill", record, name=_name):
                self._count(record, now_ns, holds=holds)

    def _count(self, record: OomRecord, now_ns: int, *, holds: bool) -> None:
        tally = self._intake.tally
        container = (record.namespace, record.pod, record.container)
        instance = self._roster.instances.get(container)
        pod = self._roster.pods.get(container[:2])
        if instance is None or pod is None or record.uid not in {"", pod.pod.uid}:
            tally.kills_unknown += 1
        elif record.time_ns // SECOND in self._counted.get(container, ()):
            tally.kills_repeated += 1
        elif record.time_ns > now_ns + AHEAD:
            tally.kills_late += 1
        elif holds and self._awaits_history(pod):
            self._held.append(record)
        elif self._file(record, pod, instance, now_ns):
            self.remember(container, record.time_ns // SECOND)
            tally.kills += 1

    def _awaits_history(self, pod: TrackedPod) -> bool:
        return any(self._roster.by_line[line].awaits_history for line in pod.vpas)

    def amend(self, instances: Iterable[int]) -> None:
        """Judge the newest kill of some instances again, as usage from before it has come."""
        found = [(self._newest[instance], instance) for instance in instances]
        for record, instance in found:
            with self._roster.mishaps.guard("kill", record, name=_name):
                self._amend(record, instance)

    def _amend(self, record: OomRecord, instance: int) -> None:
        windows = self._roster.streams.windows
        pod = self._roster.owners[instance]
        for stream in self._roster.streams_at(pod, instance, record.time_ns):
            needed = self._needed(record, stream, int(windows.usage[stream]))
            if needed > windows.oom[stream]:
                self._ask(record, instance, stream, needed)

    def _file(self, record: OomRecord, pod: TrackedPod, instance: int, now_ns: int) -> bool:
        """Turn a kill into memory observations; tell whether it counted."""
        table, windows = self._roster.streams.instances, self._roster.streams.windows
        repeats, intervals = self._rules.extras.repeat_oom_bump, self._roster.rows.interval_ns
        last = int(table.last_memory[instance])
        youngest = now_ns if last == UNSET else last
        counted = False
        for stream in self._roster.streams_at(pod, instance, record.time_ns):
            row = int(self._roster.streams.table.row[stream])
            if record.time_ns < youngest - int(intervals[row]):
                self._intake.tally.kills_late += 1
                continue
            counted = True
            peak = max(windows.usage[stream], windows.oom[stream] if repeats else 0)
            if not self._ask(record, instance, stream, self._needed(record, stream, int(peak))):
                self._intake.tally.kills_equal += 1
        if counted and record.time_ns > table.killed[instance]:
            table.killed[instance] = min(record.time_ns, now_ns)
            self._newest[instance] = record
        return counted

    def _ask(self, record: OomRecord, instance: int, stream: int, needed: int) -> bool:
        """Add the peak that a kill asks for; tell whether it is no mere repetition."""
        row = int(self._roster.streams.table.row[stream])
        if self._is_repetition(instance, row, needed):
            return False
        self._roster.streams.instances.synthetic[instance] = needed
        at, times = np.array([stream]), np.array([record.time_ns])
        self._intake.learn_memory(at, np.array([needed]), times, is_oom=True)
        self._roster.table.is_urgent[self._roster.rows.vpa[row]] = True
        return True

    def _needed(self, record: OomRecord, stream: int, peak: int) -> int:
        row, rows = int(self._roster.streams.table.row[stream]), self._roster.rows
        return needed_memory(
            record.memory_bytes,
            peak,
            ratio=float(rows.bump_up_ratio[row]),
            bump_bytes=float(rows.min_bump_up_bytes[row]),
        )

    def _is_repetition(self, instance: int, row: int, needed: int) -> bool:
        """Whether this very peak was made before, and what is published honours it still.

        A container that is held at its maxAllowed is killed again and again for the same reason.
        """
        made = int(self._roster.streams.instances.synthetic[instance])
        return needed <= min(made, int(self._roster.rows.published[row, _MEMORY_TARGET]))


def _name(record: OomRecord) -> str:
    return f"{record.namespace}/{record.pod}/{record.container}"
