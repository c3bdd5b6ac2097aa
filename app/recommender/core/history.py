"""History out of and into checkpoints, and when it is forgotten.

Strategy: a checkpoint is due when its row has changed enough, or slightly and long ago; the
most urgent ones go first, as many as the budget allows. Rows are stored without the peaks of
running intervals, which go along as open windows; what is restored gets them back, so a restart
in the middle of a day loses nothing. Checkpoints are merged into what was learned meanwhile.

History lives as long as its container, and a while longer: a row without a sample of any kind for
a full expiry period goes, with its checkpoint, unless its stored history is still to be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from app.recommender.core.checkpoints import (
    Checkpoint,
    CheckpointNames,
    OpenWindow,
    StoredHistogram,
    decode,
    encode,
)
from app.recommender.core.histograms import (
    MEMORY_GRID,
    Bank,
    Flags,
    Floats,
    Rows,
    Spans,
    nearest_reference,
)
from app.recommender.core.membership import Membership
from app.recommender.core.moments import AHEAD, DAY, GOLDEN, UNSET, span
from app.recommender.core.oom import OomKills
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.tables import PEAK_WEIGHT
from app.recommender.core.targets import VpaKey
from app.recommender.core.tracked import TrackedVpa

_SPREAD: Final = 0.25  # of the waiting times, so that rows do not come due all at once
_FARTHEST: Final = 366 * DAY  # no half-life or interval brings a reference further ahead
_LEAST_SHARE: Final = 1e-6  # so that age decides among rows that have hardly moved


class RowCheckpoints:
    """Rows as checkpoints: which to write, to read and to delete."""

    def __init__(self, members: Membership, oom_kills: OomKills, rules: RecommenderRules) -> None:
        self.names = CheckpointNames()
        self._members = members
        self._oom_kills = oom_kills
        self._rules = rules
        self._gone: list[tuple[str, str]] = []  # checkpoints to delete

    # --- out

    def checkpoints(self, now_ns: int, budget: int | None) -> list[Checkpoint]:
        """Return the most urgent checkpoints, or with no budget all that changed at all.

        They count as written from now on.
        """
        rows = self._changed()
        ages, shares = self._ages(rows, now_ns), self._unsaved(rows)
        urgency = ages * np.maximum(shares, _LEAST_SHARE)
        if budget is not None:
            wanted = self._is_due(rows, ages, shares)
            rows, urgency = rows[wanted], urgency[wanted]
        return self._store(rows[np.argsort(-urgency, kind="stable")][:budget], now_ns)

    def _is_due(self, rows: Rows, ages: Spans, shares: Floats) -> Flags:
        publish = self._rules.publish
        early = 1.0 - rows * GOLDEN % 1.0 * _SPREAD
        is_old = ages >= span(publish.checkpoint_age) * early
        has_paused = ages >= span(publish.checkpoint_pause) * early
        return np.asarray(is_old | (has_paused & (shares >= publish.checkpoint_change)))

    def _store(self, rows: Rows, now_ns: int) -> list[Checkpoint]:
        table, kills = self._members.rows, self._kills()
        memory, windows = self._without_windows(rows, now_ns)
        found = list[Checkpoint]()
        for position, row in enumerate(rows.tolist()):
            with self._members.skipped.guard("history", row, name=self._named):
                found.append(
                    Checkpoint(
                        *self._identity(row),
                        cpu=_encoded(table.cpu, row),
                        memory=_encoded(memory, position),
                        first_ns=int(table.first[row]),
                        last_ns=int(table.last[row]),
                        count=int(table.counts[row]),
                        updated_ns=now_ns,
                        windows=tuple(windows[row]),
                        kills=tuple(kills[row]),
                    )
                )
        table.is_dirty[rows] = False
        table.unsaved_cpu[rows] = table.unsaved_memory[rows] = 0.0
        table.written[rows] = now_ns
        return found

    def failed(self, checkpoint: Checkpoint) -> None:
        """Note that a checkpoint could not be written."""
        tracked = self._members.vpas.get(checkpoint.vpa_key)
        row = tracked.rows.get(checkpoint.container) if tracked is not None else None
        if row is not None:
            table = self._members.rows
            table.is_dirty[row] = True
            table.written[row] = UNSET
            table.unsaved_cpu[row] = table.cpu.totals[row]  # all of it, for it may never have been
            table.unsaved_memory[row] = table.memory.totals[row]

    def abandoned(self) -> list[tuple[str, str]]:
        """Return, once, the checkpoints to delete: namespace and name."""
        displaced, self._members.displaced = self._members.displaced, []
        for vpa, container in displaced:
            tracked = self._members.vpas.get(vpa)
            if tracked is None or container not in tracked.rows:  # else it began again
                self._release(vpa, container)
        gone, self._gone = self._gone, []
        return [one for one in gone if self.names.is_free(*one)]

    def kept(self, namespace: str, name: str) -> None:
        """Note that a checkpoint could not be deleted."""
        self._gone.append((namespace, name))

    def _changed(self) -> Rows:
        """Return the rows that differ from their checkpoints, which may be overwritten."""
        rows, by_line = self._members.rows, self._members.by_line
        dirty = np.flatnonzero(rows.is_dirty & (rows.vpa >= 0))
        lines = rows.vpa[dirty].tolist()
        return dirty[np.array([by_line[line].may_be_stored for line in lines], dtype=np.bool_)]

    def _ages(self, rows: Rows, now_ns: int) -> Spans:
        """Return how old checkpoints are, those without one as old as they may become.

        One that was written at a time that has yet to come is none: a clock was put right.
        """
        written = self._members.rows.written[rows]
        longest = span(self._rules.publish.checkpoint_age)
        return np.where((written == UNSET) | (written > now_ns), longest, now_ns - written)

    def _unsaved(self, rows: Rows) -> Floats:
        table = self._members.rows
        with np.errstate(divide="ignore", invalid="ignore"):
            cpu = np.nan_to_num(table.unsaved_cpu[rows] / table.cpu.totals[rows])
            memory = np.nan_to_num(table.unsaved_memory[rows] / table.memory.totals[rows])
        return np.minimum(np.maximum(cpu, memory), 1.0)

    def _identity(self, row: int) -> tuple[str, str, str, str]:
        """Return namespace, name, VPA and container of a row's checkpoint."""
        table = self._members.rows
        namespace, vpa = self._members.by_line[int(table.vpa[row])].key
        container = table.names[row]
        return namespace, self.names.of(namespace, (vpa, container)), vpa, container

    def _named(self, row: int) -> str:
        return "/".join(self._identity(row))

    def _without_windows(
        self, rows: Rows, now_ns: int
    ) -> tuple[Bank, defaultdict[int, list[OpenWindow]]]:
        """Return the memory histograms without running peaks, and those by row."""
        memory = self._members.rows.memory.copy(rows)
        open_windows = self._open(rows, now_ns)
        position = {row: index for index, row in enumerate(rows.tolist())}
        pairs = [(position[row], one) for row, found in open_windows.items() for one in found]
        if pairs:
            peaks = np.array([max(one.usage_bytes, one.oom_bytes) for _, one in pairs])
            ends = np.array([one.end_ns for _, one in pairs])
            positions = np.array([index for index, _ in pairs])
            memory.subtract(positions, MEMORY_GRID.bucket(peaks), ends, PEAK_WEIGHT)
        return memory, open_windows

    def _open(self, rows: Rows, now_ns: int) -> defaultdict[int, list[OpenWindow]]:
        """Return the running intervals by row, the highest peaks first, up to a limit.

        What exceeds the limit stays in the histogram, as if it had ended.
        """
        routes, wanted = self._members.routes, set(rows.tolist())
        found: defaultdict[int, list[OpenWindow]] = defaultdict(list)
        for row, one in self._members.unclaimed_windows:
            if row in wanted and one.end_ns > now_ns:
                found[row].append(one)
        streams = routes.of_rows(rows, self._members.rows.capacity)
        streams = streams[routes.streams.ends[streams] > now_ns]
        for stream in streams[np.argsort(-routes.streams.peak(streams), kind="stable")].tolist():
            of_row = found[int(routes.streams.row[stream])]
            if len(of_row) < self._rules.publish.open_windows:
                pod = self._members.pod_of_instance[int(routes.streams.instance[stream])].pod.name
                of_row.append(routes.streams.as_open_window(stream, pod))
        return found

    def _kills(self) -> defaultdict[int, list[tuple[str, int]]]:
        """Return counted kills by row, the newest first."""
        found: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        for (namespace, pod, container), second in self._oom_kills.newest():
            instance = self._members.instances.get((namespace, pod, container))
            streams = {} if instance is None else self._members.routes.all_of(instance)
            for row in streams:
                found[row].append((pod, second))
        return found

    # --- in

    def awaited(self) -> list[VpaKey]:
        """Return the VPAs whose checkpoints have not been read yet."""
        return [key for key, tracked in self._members.vpas.items() if tracked.awaits_history]

    def restore(
        self, checkpoints: Iterable[Checkpoint], now_ns: int, only: Collection[VpaKey] | None
    ) -> list[str]:
        """Take in all checkpoints there are, of all VPAs or of some only.

        Returns sentences about those that cannot be.
        """
        best: dict[tuple[str, str, str], Checkpoint] = {}
        for found in checkpoints:
            key = (*found.vpa_key, found.container)
            if key not in best or best[key].count < found.count:
                best[key] = found
        problems, skipped = list[str](), self._members.skipped
        for found in best.values():
            with skipped.guard("checkpoint", found.namespace, found.name):
                try:
                    problems.append(self._take_in(found, now_ns, only))
                except Exception:
                    self.lose([found.vpa_key])
                    raise
        for vpa in self.awaited() if only is None else only:
            with skipped.guard("VPA", *vpa):
                if (waiting := self._members.vpas.get(vpa)) is not None:
                    waiting.awaits_history = False
                    self._members.vpa_table.is_dirty[waiting.line] = True
        return [problem for problem in problems if problem]

    def _take_in(self, found: Checkpoint, now_ns: int, only: Collection[VpaKey] | None) -> str:
        """Take in one checkpoint if it is wanted; return what is wrong with it."""
        key = found.vpa_key
        self.names.take(found.namespace, found.name, (found.vpa, found.container))
        tracked = self._members.vpas.get(key)
        if tracked is None or not tracked.awaits_history or not (only is None or key in only):
            return ""
        if _is_from_the_future(found, now_ns):
            self.lose([key])
            return f"checkpoint {found.namespace}/{found.name}: it is from the future"
        self._absorb(tracked, found, now_ns)
        return ""

    def lose(self, vpas: Iterable[VpaKey]) -> None:
        """Note that history of some VPAs is lost."""
        for key in vpas:
            if (tracked := self._members.vpas.get(key)) is not None:
                tracked.inherited = tracked.vpa.recommendation or ()

    def _absorb(self, tracked: TrackedVpa, found: Checkpoint, now_ns: int) -> None:
        table = self._members.rows
        row = self._members.row_of(tracked, found.container, now_ns)
        if row is None:
            return
        peaks_ns = now_ns + int(table.interval_ns[row])  # they are dated up to an interval ahead
        for bank, stored, newest_ns in (
            (table.cpu, found.cpu, now_ns),
            (table.memory, found.memory, peaks_ns),
        ):
            if stored.weights:
                reference_ns = _reachable(stored.reference_ns, newest_ns, bank.half_life_ns)
                bank.absorb(row, *decode(stored), reference_ns)
        if found.first_ns != UNSET:
            known = int(table.first[row])
            table.first[row] = found.first_ns if known == UNSET else min(known, found.first_ns)
        table.last[row] = max(int(table.last[row]), found.last_ns)
        table.counts[row] += found.count
        table.written[row] = found.updated_ns
        youngest = found.last_ns if found.last_ns != UNSET else found.updated_ns
        table.last_any[row] = max(int(table.last_any[row]), min(youngest, now_ns))
        for window in found.windows:
            end_ns = window.end_ns if window.end_ns <= peaks_ns + AHEAD else peaks_ns
            self._reopen(tracked, row, replace(window, end_ns=end_ns), now_ns)
        for pod, second in found.kills:
            self._oom_kills.remember((found.namespace, pod, found.container), second)

    def _reopen(self, tracked: TrackedVpa, row: int, window: OpenWindow, now_ns: int) -> None:
        """Add a running peak again; its stream goes on with it, now or when its pod is seen."""
        peak = np.array([max(window.usage_bytes, window.oom_bytes)])
        table, routes = self._members.rows, self._members.routes
        table.memory.add(
            np.array([row]), MEMORY_GRID.bucket(peak), np.array([window.end_ns]), PEAK_WEIGHT
        )
        if window.end_ns <= now_ns:
            return
        key = (tracked.key[0], window.pod, table.names[row])
        instance = self._members.instances.get(key)
        stream = None if instance is None else routes.active_of(instance).get(row)
        if stream is None:
            self._members.unclaimed_windows.put(tracked.key[0], row, window)
        elif routes.streams.ends[stream] == UNSET:
            routes.streams.resume(stream, window.end_ns, window.usage_bytes, window.oom_bytes)

    # --- when it is over

    def tidy(self, now_ns: int) -> None:
        """Forget expired rows, intervals that ended, and kills of pods that are gone."""
        self._drop_expired(now_ns)
        self._drop_detached(self._members.detached.take_expired(now_ns))
        self._members.routes.tidy(now_ns)
        self._members.unclaimed_windows.drop(lambda _row, one: one.end_ns <= now_ns)
        self._oom_kills.forget_missing()

    def _drop_expired(self, now_ns: int) -> None:
        table = self._members.rows
        rows = np.flatnonzero((table.vpa >= 0) & (table.live == 0))
        unknown = (table.cpu.totals[rows] == 0.0) & (table.memory.totals[rows] == 0.0)
        gone = list[int]()
        try:
            for row in rows[unknown | table.expired(rows, now_ns)].tolist():
                tracked = self._members.by_line[int(table.vpa[row])]
                if not tracked.awaits_history:
                    self._expire(tracked, table.names[row])
                    gone.append(row)
        finally:  # a defect of ours must not leave rows that their VPA does not know
            self._members.drop_rows(gone)

    def _expire(self, tracked: TrackedVpa, container: str) -> None:
        self._release(tracked.key, container)
        del tracked.rows[container]
        self._members.vpa_table.is_dirty[tracked.line] = True

    def _release(self, vpa: VpaKey, container: str) -> None:
        namespace, name = vpa
        if (stored := self.names.release(namespace, (name, container))) is not None:
            self._gone.append((namespace, stored))

    def drop_displaced(self) -> None:
        """Forget the rows of deleted VPAs that had to make room."""
        self._drop_detached(self._members.detached.take_displaced())

    def _drop_detached(self, gone: Sequence[tuple[VpaKey, int]]) -> None:
        for (namespace, vpa), row in gone:
            if (namespace, vpa) not in self._members.vpas:  # else the name is that of another row
                self.names.release(namespace, (vpa, self._members.rows.names[row]))
        self._members.drop_rows(row for _, row in gone)


def _is_from_the_future(found: Checkpoint, now_ns: int) -> bool:
    samples_ns = max(found.first_ns, found.last_ns)
    reference_ns = max(found.cpu.reference_ns, found.memory.reference_ns)
    return samples_ns > now_ns + AHEAD or reference_ns > now_ns + _FARTHEST


def _reachable(reference_ns: int, newest_ns: int, half_life_ns: int) -> int:
    """Return a reference beside which samples weigh what they should, the newest of this time.

    One far beyond was chosen for a longer half-life or interval than there is now.
    """
    if reference_ns <= newest_ns + AHEAD + half_life_ns:
        return reference_ns
    return int(nearest_reference(np.array([newest_ns]), half_life_ns)[0])


def _encoded(bank: Bank, line: int) -> StoredHistogram:
    return encode(bank.weights[line], float(bank.totals[line]), int(bank.references[line]))
