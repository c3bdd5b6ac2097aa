"""Routes of samples: containers of pods, the rows they feed, and the memory peak of each route.

Strategy: an instance is one container of one pod. It remembers which samples were counted, so
that none counts twice whatever it feeds. For each row it feeds, or fed, it has a stream with a
memory interval of its own: what one row received is never taken back from another. Streams of
the past stay until their interval ends, so that a pod that comes back goes on with it. Nearly
every instance has one stream in its life, and only the others cost a dictionary.

A peak is stamped with the end of its interval, so it has its final weight from the start and can
be taken back exactly. Peaks of usage and of OOM kills are kept apart, each also where the other is
higher, because the next kill is judged by the usage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np

from app.recommender.core.checkpoints import OpenWindow
from app.recommender.core.histograms import Amounts, Flags, Indexes, Rows, Spans, Times
from app.recommender.core.moments import UNSET
from app.recommender.core.tables import ColumnTable, Peaks, column

NO_STREAM: Final = -1
MANY: Final = -2  # streams


class InstanceTable(ColumnTable):
    """Containers of pods."""

    last_cpu: Times = column(np.int64, UNSET)  # the newest sample that was counted
    last_memory: Times = column(np.int64, UNSET)
    killed: Times = column(np.int64, UNSET)  # its newest kill that was counted
    synthetic: Amounts = column(np.int64)  # bytes, the last peak that was made of a kill
    moved: Times = column(np.int64, UNSET)  # when the pod last changed its VPAs
    boosted_until: Times = column(np.int64, UNSET)
    stream: Indexes = column(np.intp, NO_STREAM)  # the one it feeds, or MANY


class Windows(ColumnTable):
    """The running interval of each stream."""

    ends: Times = column(np.int64, UNSET)  # UNSET before the first observation
    usage: Amounts = column(np.int64)  # bytes
    oom: Amounts = column(np.int64)  # bytes

    def clear(self, stream: int) -> None:
        """Forget the interval of a stream."""
        self.resume(stream, UNSET, 0, 0)

    def resume(self, stream: int, end_ns: int, usage_bytes: int, oom_bytes: int) -> None:
        """Go on with an interval that began elsewhere."""
        self.ends[stream], self.usage[stream], self.oom[stream] = end_ns, usage_bytes, oom_bytes

    def as_open_window(self, stream: int, pod: str) -> OpenWindow:
        """Return the interval of a stream as a checkpoint tells it."""
        end_ns, usage, oom = self.ends[stream], self.usage[stream], self.oom[stream]
        return OpenWindow(pod, int(end_ns), int(usage), int(oom))

    def peak(self, streams: Indexes) -> Amounts:
        """Return the running peaks."""
        return np.maximum(self.usage[streams], self.oom[streams])

    def observe(
        self,
        streams: Indexes,
        times: Times,
        amounts: Amounts,
        intervals_ns: Spans,
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
        peaks = self.oom if is_oom else self.usage
        peaks[streams] = np.maximum(peaks[streams], amounts)
        return Peaks(replaced, old, new, ends)


class UnclaimedWindows:
    """Restored intervals whose pods have not been seen yet, by pod (namespace and name) and row."""

    def __init__(self) -> None:
        self._by_pod: dict[tuple[str, str], dict[int, OpenWindow]] = {}

    def __iter__(self) -> Iterator[tuple[int, OpenWindow]]:
        for of_pod in self._by_pod.values():
            yield from of_pod.items()

    def put(self, namespace: str, row: int, window: OpenWindow) -> None:
        """Let an interval wait for its pod."""
        self._by_pod.setdefault((namespace, window.pod), {})[row] = window

    def rows_of(self, pod: tuple[str, str]) -> list[int]:
        """Return the rows that wait for a pod."""
        return list(self._by_pod.get(pod, ()))

    def take(self, pod: tuple[str, str], row: int) -> OpenWindow | None:
        """Return, once, the interval of a row that waits for a pod."""
        of_pod = self._by_pod.get(pod)
        if of_pod is None:
            return None
        window = of_pod.pop(row, None)
        if not of_pod:
            del self._by_pod[pod]
        return window

    def drop(self, is_over: Callable[[int, OpenWindow], bool]) -> None:
        """Forget intervals."""
        for pod, of_pod in list(self._by_pod.items()):
            for row in [row for row, window in of_pod.items() if is_over(row, window)]:
                self.take(pod, row)


class StreamTable(Windows):
    """From instances to rows."""

    row: Rows = column(np.intp, NO_STREAM)
    instance: Indexes = column(np.intp, NO_STREAM)
    is_active: Flags = column(np.bool_)  # the instance feeds the row now


class SampleRoutes:
    """All instances and streams."""

    def __init__(self) -> None:
        self.instances = InstanceTable()
        self.streams = StreamTable()
        self._several: dict[int, dict[int, int]] = {}  # by instance and row

    def drop(self, instance: int) -> None:
        """Forget an instance with all its streams."""
        for stream in self.all_of(instance).values():
            self.streams.release(stream)
        self._several.pop(instance, None)
        self.instances.release(instance)

    def all_of(self, instance: int) -> dict[int, int]:
        """Return the streams of an instance by row, those of the past included."""
        if instance in self._several:
            return self._several[instance]
        stream = int(self.instances.stream[instance])
        return {int(self.streams.row[stream]): stream} if stream != NO_STREAM else {}

    def active_of(self, instance: int) -> dict[int, int]:
        """Return the streams by row that an instance feeds now."""
        streams = self.all_of(instance)
        return {row: stream for row, stream in streams.items() if self.streams.is_active[stream]}

    def between(self, instance: int, row: int) -> int:
        """Return the stream from an instance to a row, a new one of the past if there is none."""
        streams = self.all_of(instance)
        if row not in streams:
            stream = self.streams.take()
            self.streams.row[stream], self.streams.instance[stream] = row, instance
            self._several[instance] = streams | {row: stream}
            return stream
        return streams[row]

    def join(self, instance: int, row: int, now_ns: int) -> int:
        """Let an instance feed a row, going on with an old stream whose interval still runs."""
        stream = self.between(instance, row)
        if self.streams.ends[stream] <= now_ns:
            self.streams.clear(stream)
        self.streams.is_active[stream] = True
        self._point(instance, self.all_of(instance))
        return stream

    def leave(self, instance: int, row: int) -> None:
        """Let an instance feed a row no longer, if it ever did."""
        streams = self._several.setdefault(instance, self.all_of(instance))
        if row in streams:  # else the row began again after this container had ended
            stream = streams[row]
            self.streams.is_active[stream] = False
            if self.streams.ends[stream] == UNSET:  # there is no interval to go on with
                del streams[row]
                self.streams.release(stream)
        self._point(instance, streams)

    def of_rows(self, rows: Iterable[int], row_capacity: int) -> Indexes:
        """Return the streams of some rows."""
        wanted = np.zeros(row_capacity + 1, dtype=np.bool_)  # the last one is for unused streams
        wanted[list(rows)] = True
        return np.flatnonzero(wanted[self.streams.row])

    def tidy(self, now_ns: int) -> None:
        """Forget streams of the past whose interval has ended, or never began."""
        past = (self.streams.row != NO_STREAM) & ~self.streams.is_active
        for stream in np.flatnonzero(past & (self.streams.ends <= now_ns)).tolist():
            self._remove(stream)

    def cut(self, rows: Iterable[int], row_capacity: int) -> None:
        """Forget all streams to rows that are gone."""
        for stream in self.of_rows(rows, row_capacity).tolist():
            self._remove(stream)

    def _remove(self, stream: int) -> None:
        instance, row = int(self.streams.instance[stream]), int(self.streams.row[stream])
        streams = self._several.setdefault(instance, self.all_of(instance))
        del streams[row]
        self.streams.release(stream)
        self._point(instance, streams)

    def _point(self, instance: int, streams: dict[int, int]) -> None:
        """Note in the table which stream an instance feeds."""
        active = [stream for stream in streams.values() if self.streams.is_active[stream]]
        self.instances.stream[instance] = (NO_STREAM, active[0] if active else 0, MANY)[
            min(len(active), 2)
        ]
        if len(streams) == len(active) <= 1:
            self._several.pop(instance, None)
