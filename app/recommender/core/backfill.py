"""Takes usage of the past into the rows, before live usage has begun or long after it.

Strategy: the past goes to the rows that its pods feed; pods that are gone feed those that their
labels ask for. Column by column it is learned like live usage, in memory intervals of its own.
In the end the streams go on with these, as if everything had been seen live: what a stream saw
meanwhile is moved into the interval in which it would have been. Only what it saw in several
such intervals cannot be told apart any more and stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from math import floor
from typing import Final

import numpy as np

from app.recommender.core.histograms import MEMORY_GRID, Indexes
from app.recommender.core.intake import SampleTally
from app.recommender.core.membership import Membership
from app.recommender.core.moments import UNSET
from app.recommender.core.oom import OomKills
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.samples import Windows
from app.recommender.core.tables import PEAK_WEIGHT
from app.recommender.core.targets import VpaKey
from app.recommender.core.tracked import TrackedPod
from app.recommender.core.usage import PastUsage

_GONE: Final = -1  # no instance, no stream


_Feed = tuple[int, int, int, int]  # line of the past, row that it feeds, instance, stream


@dataclass(frozen=True, slots=True, eq=False)
class _Feeds:
    """Lines of the past and the rows that they feed, in columns."""

    lines: Indexes
    rows: Indexes
    instances: Indexes
    streams: Indexes


class Backfill:
    """Learns of the past."""

    def __init__(
        self, members: Membership, oom_kills: OomKills, tally: SampleTally, rules: RecommenderRules
    ) -> None:
        self._members = members
        self._oom_kills = oom_kills
        self._tally = tally
        self._drops_boosted = rules.cpu_startup_boost

    def learn(self, past: PastUsage, now_ns: int, only: Collection[VpaKey] | None = None) -> None:
        """Take the past in, for all VPAs or for some only; nothing may be told twice to a VPA."""
        self._tally.past_series_refused += past.refused_series
        self._tally.past_points_refused += past.refused_points
        found = np.array(list(self._feeds(past, now_ns, only)), dtype=np.intp)
        feeds = _Feeds(*found.reshape(-1, 4).T)
        if not len(feeds.lines):
            return
        windows = Windows()
        windows.grow(len(feeds.lines))
        for column in range(len(past.times)):
            self._learn_cpu(feeds, past, column)
            self._learn_memory(feeds, past, column, windows)
        self._note_newest(feeds, past)
        self._go_on(feeds, windows, int(past.times[-1]))

    # --- who is fed

    def _feeds(
        self, past: PastUsage, now_ns: int, only: Collection[VpaKey] | None
    ) -> Iterator[_Feed]:
        if not len(past.times):
            return
        wanted = set(self._members.by_line)
        if only is not None:
            known = (self._members.vpas.get(key) for key in only)
            wanted = {tracked.line for tracked in known if tracked is not None}
        is_initial = cache(self._is_initial)
        for line, (namespace, name, container) in enumerate(past.containers):
            pod = self._members.pods.get((namespace, name))
            if pod is not None:
                yield from self._of_living(line, pod, container, int(past.times[-1]), wanted)
                continue
            labels = past.labels.get((namespace, name), {})
            for vpa in sorted(self._members.claiming(namespace, labels) & wanted):
                if is_initial(vpa, container):
                    continue
                tracked = self._members.by_line[vpa]
                row = self._members.row_of(tracked, container, now_ns, may_displace=False)
                if row is not None:  # rows that were yielded must stay
                    yield line, row, _GONE, _GONE

    def _of_living(
        self, line: int, pod: TrackedPod, container: str, end_ns: int, wanted: set[int]
    ) -> Iterator[_Feed]:
        instance = pod.instances.get(container)
        if instance is None:
            self._tally.unknown += 1
            return
        routes = self._members.routes
        if routes.instances.moved[instance] > end_ns:
            found = self._members.streams_at(pod, instance, end_ns)
        else:
            found = list(routes.active_of(instance).values())
        for stream in found:
            row = int(routes.streams.row[stream])
            if int(self._members.rows.vpa[row]) in wanted:
                yield line, row, instance, stream

    def _is_initial(self, vpa: int, container: str) -> bool:
        """Whether pods of a VPA have an init container of this name; those are not followed."""
        pods = (self._members.pods[key] for key in self._members.by_line[vpa].pods)
        return any(
            one.name == container and container not in pod.instances
            for pod in pods
            for one in pod.pod.init_containers
        )

    # --- what is learned

    def _learn_cpu(self, feeds: _Feeds, past: PastUsage, column: int) -> None:
        used, time_ns = past.cpu_millicores[feeds.lines, column], past.times[column]
        told = used >= 0
        if self._drops_boosted:
            free = feeds.instances == _GONE
            until = self._members.routes.instances.boosted_until[feeds.instances[~free]]
            free[~free] = time_ns - past.window_ns >= until
            self._tally.cpu_boosted += int((told & ~free).sum())
            told &= free
        rows = feeds.rows[told]
        self._tally.cpu += len(rows)
        samples = past.stands_for
        # Whole numbers that add up, also where an amount stands for less than a sample.
        count = floor((column + 1) * samples) - floor(column * samples)
        times = np.full(len(rows), time_ns)
        self._members.rows.learn_cpu(rows, used[told], times, samples, count)

    def _learn_memory(self, feeds: _Feeds, past: PastUsage, column: int, windows: Windows) -> None:
        used = past.memory_bytes[feeds.lines, column]
        told = np.flatnonzero(used >= 0)
        rows, amounts = feeds.rows[told], used[told]
        times = np.full(len(told), past.times[column])
        self._tally.memory += len(told)
        peaks = windows.observe(
            told,
            times,
            amounts,
            self._members.rows.interval_ns[rows],
            is_oom=False,
        )
        self._members.rows.learn_peaks(rows, peaks, amounts, times)

    def _note_newest(self, feeds: _Feeds, past: PastUsage) -> None:
        """Make sure that live usage from before the end of the past does not count again."""
        lives = feeds.instances != _GONE
        table, lines = self._members.routes.instances, feeds.lines[lives]
        for amounts, newest in (
            (past.cpu_millicores, table.last_cpu),
            (past.memory_bytes, table.last_memory),
        ):
            told = np.where(amounts[lines] >= 0, past.times, UNSET).max(axis=1)
            np.maximum.at(newest, feeds.instances[lives], told)

    # --- how it goes on

    def _go_on(self, feeds: _Feeds, windows: Windows, end_ns: int) -> None:
        """Let the streams go on with the intervals in which the past ended."""
        live, rows = self._members.routes.streams, self._members.rows
        told = np.flatnonzero((feeds.streams != _GONE) & (windows.ends != UNSET))
        new = told[live.ends[feeds.streams[told]] == UNSET]
        live.ends[feeds.streams[new]] = windows.ends[new]
        live.usage[feeds.streams[new]] = windows.usage[new]
        # The others have seen something since; this is when.
        others = np.setdiff1d(told, new)
        intervals = rows.interval_ns[feeds.rows[others]]
        starts = live.ends[feeds.streams[others]] - intervals
        ends = windows.ends[others]
        ends = np.where(starts < ends, ends, ends + ((starts - ends) // intervals + 1) * intervals)
        newest = self._members.routes.instances.last_memory[feeds.instances[others]]
        is_first = (starts > end_ns) & (starts < end_ns + intervals)
        one = is_first & (newest < ends)
        self._join(feeds, windows, others[one], ends[one])

    def _join(self, feeds: _Feeds, windows: Windows, at: Indexes, ends: Indexes) -> None:
        """Move what streams saw live into intervals that began in the past."""
        live, memory = self._members.routes.streams, self._members.rows.memory
        rows, streams = feeds.rows[at], feeds.streams[at]
        peaks, before = live.peak(streams), windows.usage[at]
        memory.subtract(rows, MEMORY_GRID.bucket(peaks), live.ends[streams], PEAK_WEIGHT)
        same = ends == windows.ends[at]
        raised = same & (peaks > before)
        memory.subtract(rows[raised], MEMORY_GRID.bucket(before[raised]), ends[raised], PEAK_WEIGHT)
        added = raised | ~same
        memory.add(rows[added], MEMORY_GRID.bucket(peaks[added]), ends[added], PEAK_WEIGHT)
        live.ends[streams] = ends
        live.usage[streams] = np.maximum(live.usage[streams], np.where(same, before, 0))
        instances = feeds.instances[at]
        killed = self._members.routes.instances.killed[instances] != UNSET
        self._oom_kills.amend(instances[killed].tolist())
