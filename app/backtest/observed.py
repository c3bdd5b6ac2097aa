"""A recording of what was seen: samples of usage, and pods as they changed.

Strategy: everything is kept with its time, in any order, and laid out in steps in the end. A step
has the mean of the CPU samples in it and the highest of memory; requests hold until they change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.backtest.recording import Measured, RecordedContainer, Recording
from app.model.errors import BadObject
from app.model.kinds import ObjectKey
from app.model.pods import Container, ContainerStatus, Pod
from app.model.quantity import Quantities
from app.model.snapshot import NamespaceView
from app.model.workloads import Lookup, LookupResult, Workload
from app.recommender.core.moments import SECOND, nanoseconds
from app.sizing.matching import LookupNeeded, topmost

ContainerKey = tuple[str, str, str]  # namespace, pod, container
Owner = tuple[str, str]  # kind and name; empty if not known

_UNKNOWN: Final[Owner] = ("", "")
_OOM: Final = "OOMKilled"
_NANO: Final = 10**9
_AMOUNTS: Final = ("cpu_request", "cpu_limit", "memory_request", "memory_limit")
_Amounts = tuple[float, float, float, float]
_GONE: Final[_Amounts] = (np.nan, np.nan, np.nan, np.nan)


class _Usage(NamedTuple):
    """Samples; an entry for each in all of them."""

    rows: NDArray[np.intp]
    times: NDArray[np.int64]
    cores: NDArray[np.float64]
    memory: NDArray[np.float64]


def owner_of(pod: Pod, view: NamespaceView, find: Callable[[Lookup], LookupResult]) -> Owner:
    """Return the topmost controller of a pod, empty if it is not known."""
    owner, known = pod.controller, dict[ObjectKey, LookupResult]()
    if owner is None:
        return _UNKNOWN
    while isinstance(found := topmost(owner, pod.namespace, view, known), LookupNeeded):
        known[found.lookup.key] = find(found.lookup)
    if isinstance(found, Workload):
        return found.key.kind, found.key.name
    return _UNKNOWN


class ObservedFleet:
    """Containers, and what was seen of them; times are nanoseconds since 1970."""

    def __init__(self) -> None:
        self._rows: dict[ContainerKey, int] = {}
        self._keys: dict[tuple[str, str], dict[ContainerKey, None]] = {}  # by pod
        self._owners: dict[tuple[str, str], Owner] = {}
        self._usage: list[_Usage] = []
        self._amounts: dict[ContainerKey, list[tuple[int, _Amounts]]] = {}
        self._restarts: list[tuple[ContainerKey, int, int]] = []  # when, how many
        self._kills: dict[tuple[ContainerKey, int], None] = {}
        self._counts: dict[tuple[ContainerKey, str], int] = {}  # of restarts, by uid of the pod

    def use(
        self,
        keys: Sequence[ContainerKey],
        times: NDArray[np.int64],
        cores: NDArray[np.float64],
        memory: NDArray[np.float64],
    ) -> None:
        """Take samples of usage; NaN is what was not measured."""
        rows = [self._rows.setdefault(key, len(self._rows)) for key in keys]
        self._usage.append(_Usage(np.array(rows, dtype=np.intp), times, cores, memory))

    def see(self, pod: Pod, owner: Owner, time: int) -> None:
        """Take a pod as it is from now on, with its topmost controller."""
        if owner != _UNKNOWN or (pod.namespace, pod.name) not in self._owners:
            self._owners[pod.namespace, pod.name] = owner
        for container in pod.containers:
            key = (pod.namespace, pod.name, container.name)
            self._keys.setdefault(key[:2], {})[key] = None
            self._change(key, time, _amounts_of(container))
        for status in pod.statuses:
            self._see_status((pod.namespace, pod.name, status.name), pod.uid, status, time)

    def _see_status(self, key: ContainerKey, uid: str, status: ContainerStatus, time: int) -> None:
        before = self._counts.get((key, uid))
        self._counts[key, uid] = status.restart_count
        if before is not None and status.restart_count > before:
            self._restarts.append((key, time, status.restart_count - before))
        for ended in (status.terminated, status.last_terminated):
            if ended is not None and ended.reason == _OOM and ended.finished_at is not None:
                self.kill(key, nanoseconds(ended.finished_at))

    def lose(self, namespace: str, pod: str, time: int) -> None:
        """Take it that a pod is gone."""
        for key in self._keys.get((namespace, pod), ()):
            self._change(key, time, _GONE)

    def _change(self, key: ContainerKey, time: int, amounts: _Amounts) -> None:
        told = self._amounts.setdefault(key, [])
        if not told or told[-1][1] != amounts:
            told.append((time, amounts))

    def kill(self, key: ContainerKey, time: int) -> None:
        """Take an OOM kill; one of the same second is the same."""
        self._kills[key, time // SECOND] = None

    def copy(self) -> ObservedFleet:
        """Return the same, which stays as it is while more is taken here."""
        found = ObservedFleet()
        found._rows, found._owners = dict(self._rows), dict(self._owners)
        found._usage, found._restarts = self._usage[:], self._restarts[:]
        found._kills = dict(self._kills)
        found._amounts = {key: told[:] for key, told in self._amounts.items()}
        return found

    def forget(self, before: int) -> None:
        """Forget what was used before a time, and containers that were gone by then."""
        self._usage = [one for one in self._usage if len(one[1]) and one[1].max() >= before]
        self._restarts = [one for one in self._restarts if one[1] >= before]
        self._kills = {(key, at): None for key, at in self._kills if at * SECOND >= before}
        gone = {
            key for key, told in self._amounts.items() if told[-1][0] < before and _is_gone(told)
        }
        for key in gone:
            del self._amounts[key]
            self._keys.pop(key[:2], None)
            self._owners.pop(key[:2], None)
        self._counts = {one: count for one, count in self._counts.items() if one[0] not in gone}
        for key, told in self._amounts.items():
            last = max(sum(time < before for time, _ in told) - 1, 0)
            self._amounts[key] = told[last:]

    def recording(self, step: int) -> Recording:
        """Return all that was used and what was seen of its containers meanwhile.

        Raises:
            BadObject: that makes no sense.
        """
        if not any(len(times) for _, times, _, _ in self._usage):
            raise BadObject("", "there is no usage")
        usage = _Usage(*map(np.concatenate, zip(*self._usage, strict=True)))
        step_ns = step * SECOND
        start = (int(usage.times.min()) - 1) // step_ns
        until = (int(usage.times.max()) - 1) // step_ns
        used, rows = np.unique(usage.rows, return_inverse=True)
        every = list(self._rows)
        keys = [every[row] for row in used.tolist()]
        places = {key: place for place, key in enumerate(keys)}
        named = [
            RecordedContainer(key[0], *self._owners.get(key[:2], _UNKNOWN), key[1], key[2])
            for key in keys
        ]
        found = Recording.unknown(start * step, step, until - start + 1, named)
        _lay_usage(found, usage._replace(rows=rows))
        is_used = ~(np.isnan(found.cpu) & np.isnan(found.memory))
        for key, amounts in self._amounts.items():
            if key in places:
                _lay_amounts(found, places[key], amounts, is_used[places[key]])
        self._lay_counts(found, places)
        return replace(found)  # which checks it

    def _lay_counts(self, found: Recording, places: Mapping[ContainerKey, int]) -> None:
        seen = [places[key] for key in self._amounts if key in places]
        for counts in (found.restarts, found.oom_kills):
            counts[seen] = 0
        for key, time, number in self._restarts:
            _count(found, found.restarts, places.get(key), time, number)
        for key, second in self._kills:
            _count(found, found.oom_kills, places.get(key), second * SECOND, 1)


def _is_gone(told: Sequence[tuple[int, _Amounts]]) -> bool:
    return told[-1][1] is _GONE


def _lay_usage(found: Recording, usage: _Usage) -> None:
    sums, counts = np.zeros(found.cpu.shape), np.zeros(found.cpu.shape)
    highest = np.full(found.cpu.shape, -np.inf)
    columns = _columns(found, usage.times)
    is_known = ~np.isnan(usage.cores)
    where = usage.rows[is_known], columns[is_known]
    np.add.at(sums, where, usage.cores[is_known])
    np.add.at(counts, where, 1)
    is_known = ~np.isnan(usage.memory)
    np.maximum.at(highest, (usage.rows[is_known], columns[is_known]), usage.memory[is_known])
    np.divide(sums, counts, out=found.cpu, where=counts > 0, casting="same_kind")
    found.memory[:] = np.where(np.isfinite(highest), highest, np.nan)


def _columns(found: Recording, times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the steps of times; one that ends a step belongs to it."""
    columns: NDArray[np.int64] = (times - 1 - found.start * SECOND) // (found.step * SECOND)
    return columns


def _lay_amounts(
    found: Recording,
    row: int,
    amounts: Sequence[tuple[int, _Amounts]],
    is_used: NDArray[np.bool_],
) -> None:
    """Let amounts hold from the step in which they came until others came."""
    came = _columns(found, np.array([time for time, _ in amounts], dtype=np.int64))
    which = np.searchsorted(came, np.arange(found.count), side="right") - 1
    values = np.array([told for _, told in amounts])[which]
    for index, measure in enumerate(_AMOUNTS):
        laid = np.where((which >= 0) & is_used, values[:, index], np.nan)
        found.measured(measure)[row] = laid


def _count(found: Recording, counts: Measured, row: int | None, time: int, number: int) -> None:
    column = int(_columns(found, np.array([time]))[0])
    if row is not None and 0 <= column < found.count:
        counts[row, column] = np.nan_to_num(counts[row, column]) + number


def _amounts_of(container: Container) -> _Amounts:
    """Return requests and limits as a recording has them; none is 0."""
    resources = container.resources

    def amount(quantities: Quantities | None, resource: str) -> float:
        found = (quantities or {}).get(resource)
        return 0.0 if found is None else found.nano / _NANO

    requests, limits = resources.requests, resources.limits
    cpu, memory = (
        (amount(requests, resource), amount(limits, resource)) for resource in ("cpu", "memory")
    )
    return (*cpu, *memory)
