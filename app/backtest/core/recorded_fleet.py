"""The containers of a recording, in order of workload, pod and container.

Strategy: as a VPA would have it, the containers of one name of a workload's pods share a history,
which is a line here. Rows lie so that those of a pod, and those of a workload, follow one another.
Pods whose owner is not known belong to no workload; they are counted and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from app.backtest.recording import RecordedContainer
from app.recommender.core.histograms import Indexes


class RecordedWorkload(NamedTuple):
    """The topmost controller of pods."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """Which rows of a recording belong together."""

    workloads: tuple[RecordedWorkload, ...]
    containers: tuple[str, ...]  # of each line
    line_workloads: Indexes
    line_bounds: Indexes  # the first line of each workload, and where the last one ends
    rows: Indexes  # of the recording; each array below has an entry for each, by position in here
    lines: Indexes
    pods: Indexes
    row_bounds: Indexes  # the first row of each workload, and where the last one ends
    pod_bounds: Indexes  # likewise of each pod
    pod_workloads: Indexes

    def workload_of(self, row: int) -> int:
        """Return the workload of a row."""
        return int(self.pod_workloads[self.pods[row]])

    def lines_of(self, workload: int) -> Indexes:
        """Return the lines of a workload."""
        return np.arange(*self.line_bounds[workload : workload + 2])

    def rows_of_pod(self, pod: int) -> Indexes:
        """Return the rows of a pod."""
        return np.arange(*self.pod_bounds[pod : pod + 2])


def fleet_of(containers: Sequence[RecordedContainer], rows: Iterable[int] | None = None) -> Fleet:
    """Return a fleet of all containers with a known owner, or of some rows."""
    chosen = range(len(containers)) if rows is None else rows
    order = sorted(
        (row for row in chosen if has_owner(containers[row])), key=containers.__getitem__
    )
    workloads: dict[RecordedWorkload, int] = {}
    lines: dict[tuple[int, str], int] = {}
    pods: dict[tuple[int, str], int] = {}
    for row in order:
        one = containers[row]
        workload = workloads.setdefault(_workload(one), len(workloads))
        pods.setdefault((workload, one.pod), len(pods))
    named = {(workloads[_workload(containers[row])], containers[row].container) for row in order}
    for key in sorted(named):
        lines[key] = len(lines)
    found = [containers[row] for row in order]
    row_workloads = _indexes(workloads[_workload(one)] for one in found)
    row_pods = _indexes(
        pods[workload, one.pod] for workload, one in zip(row_workloads.tolist(), found, strict=True)
    )
    row_lines = _indexes(
        lines[workload, one.container]
        for workload, one in zip(row_workloads.tolist(), found, strict=True)
    )
    line_workloads = _indexes(workload for workload, _ in lines)
    return Fleet(
        workloads=tuple(workloads),
        containers=tuple(name for _, name in lines),
        line_workloads=line_workloads,
        line_bounds=_bounds(line_workloads),
        rows=_indexes(order),
        lines=row_lines,
        pods=row_pods,
        row_bounds=_bounds(row_workloads),
        pod_bounds=_bounds(row_pods),
        pod_workloads=_indexes(workload for workload, _ in pods),
    )


def parts(containers: Sequence[RecordedContainer], most_rows: int) -> Iterator[Fleet]:
    """Yield fleets of whole workloads, none of which has many more rows than that."""
    rows = (row for row, one in enumerate(containers) if has_owner(one))
    order = sorted(rows, key=containers.__getitem__)
    part: list[int] = []
    for _, of_workload in groupby(order, key=lambda row: _workload(containers[row])):
        part += of_workload
        if len(part) >= most_rows:
            yield fleet_of(containers, part)
            part = []
    if part:
        yield fleet_of(containers, part)


def has_owner(container: RecordedContainer) -> bool:
    """Whether the workload of a container is known."""
    return bool(container.owner_kind and container.owner_name)


def _workload(one: RecordedContainer) -> RecordedWorkload:
    return RecordedWorkload(one.namespace, one.owner_kind, one.owner_name)


def _indexes(numbers: Iterable[int]) -> Indexes:
    return np.array(list(numbers), dtype=np.intp)


def _bounds(groups: Indexes) -> Indexes:
    """Return where groups that follow one another begin, and where the last one ends."""
    return np.append(np.flatnonzero(np.diff(groups, prepend=-1)), len(groups))
