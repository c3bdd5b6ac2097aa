"""Rows that no VPA has now, kept for the VPA that may want them.

Strategy: rows whose VPA went away or points elsewhere are detached and wait for its return. On
demand, containers of pods that no VPA matches feed rows of their topmost controller; a VPA that
comes for that controller takes those rows over as they are, running intervals included. Until
then neither kind is published or stored; both are dropped when they expire.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.model.kinds import ObjectKey
from app.recommender.core.moments import LATEST, UNSET
from app.recommender.core.rules import AggregationRules, Cap, ContainerRules, aggregation_of
from app.recommender.core.samples import SampleRoutes
from app.recommender.core.tables import NOWHERE, RowTable
from app.recommender.core.targets import ObservedVpa, VpaKey
from app.recommender.core.tracked import NO_OWNER, TrackedPod

Target = tuple[str, str] | None  # kind and name

_Place = tuple[str, ObjectKey]  # namespace and controller


def target_of(observed: ObservedVpa) -> Target:
    """Return kind and name of the target; a new version of its API is no new target."""
    target = observed.vpa.target
    return (target.kind, target.name) if target is not None else None


@dataclass(frozen=True, slots=True)
class _Detached:
    rows: dict[str, int]
    until_ns: int
    is_former: bool  # of a VPA for all pods of its target, which was deleted


class DetachedRows:
    """Rows by VPA and target."""

    def __init__(self, rows: RowTable) -> None:
        self._rows = rows
        self._by_target: dict[tuple[VpaKey, Target], _Detached] = {}

    def detach(
        self,
        vpa: VpaKey,
        target: Target,
        rows: dict[str, int],
        *,
        until_ns: int = LATEST,
        is_former: bool = False,
    ) -> None:
        """Put the rows of a VPA aside; none of them is published any more."""
        for row in rows.values():
            self._rows.vpa[row] = NOWHERE
        self._by_target[vpa, target] = _Detached(rows, until_ns, is_former)

    def take_back(self, vpa: VpaKey, target: Target) -> dict[str, int] | None:
        """Return the rows a VPA once had for a target, None if there are none.

        Their checkpoints may have been deleted or overwritten since, so they shall be written.
        """
        found = self._by_target.pop((vpa, target), None)
        if found is None:
            return None
        for row in found.rows.values():
            self._rows.is_dirty[row], self._rows.written[row] = True, UNSET
        return found.rows

    def former(self, namespace: str, target: Target) -> dict[str, int]:
        """Return the rows of deleted VPAs for all pods of a target; they stay detached."""
        return {
            container: row
            for (vpa, its_target), one in self._by_target.items()
            if one.is_former and vpa[0] == namespace and its_target == target
            for container, row in one.rows.items()
        }

    def take_expired(self, now_ns: int) -> list[tuple[VpaKey, int]]:
        """Take out the rows that waited too long, and those whose history has expired."""
        gone: list[tuple[VpaKey, int]] = []
        for key, one in list(self._by_target.items()):
            for container, row in list(one.rows.items()):
                if now_ns >= one.until_ns or self._rows.expired(np.array([row]), now_ns)[0]:
                    gone.append((key[0], row))
                    del one.rows[container]
            if not one.rows:
                del self._by_target[key]
        return gone


class OrphanedRows:
    """Rows by controller."""

    def __init__(
        self, rows: RowTable, streams: SampleRoutes, rules: AggregationRules, *, retains: bool
    ) -> None:
        self._rows = rows
        self._streams = streams
        self._retains = retains
        self._rules = ContainerRules(
            False, (), Cap(), Cap(), whole_cores=False, aggregation=aggregation_of(None, rules)
        )
        self._kept: dict[_Place, dict[str, int]] = {}
        self._fed: dict[int, tuple[TrackedPod, int]] = {}  # by instance: its pod and row

    def join(self, pod: TrackedPod, now_ns: int) -> None:
        """Let the containers of an unmatched pod feed the rows of its controller."""
        if not self._retains or pod.vpas or pod.top is None or pod.top == NO_OWNER:
            return
        kept = self._kept.setdefault((pod.pod.namespace, pod.top), {})
        for container, instance in pod.instances.items():
            if instance in self._fed:
                continue
            if container not in kept:
                kept[container] = self._rows.start(container, now_ns)
                self._rows.follow(kept[container], NOWHERE, self._rules)
            row = kept[container]
            self._streams.join(instance, row, now_ns)
            self._rows.live[row] += 1
            self._fed[instance] = (pod, row)

    def leave(self, pod: TrackedPod, now_ns: int) -> None:
        """Let a pod feed them no longer."""
        for instance in pod.instances.values():
            if instance in self._fed:
                _, row = self._fed.pop(instance)
                self._streams.leave(instance, row)
                self._rows.live[row] -= 1
                self._rows.last_live[row] = now_ns

    def hand_over(
        self, namespace: str, controller: ObjectKey, now_ns: int
    ) -> dict[str, int] | None:
        """Hand the rows of a controller over, None if there are none."""
        rows = self._kept.pop((namespace, controller), None)
        if rows is not None:
            for pod, row in list(self._fed.values()):
                if row in rows.values():
                    self.leave(pod, now_ns)
        return rows

    def take_expired(self, now_ns: int) -> list[int]:
        """Take out the rows that no pod feeds and whose history has expired."""
        gone: list[int] = []
        for place, rows in list(self._kept.items()):
            for container, row in list(rows.items()):
                expired = self._rows.expired(np.array([row]), now_ns)[0]
                if expired and not self._rows.live[row]:
                    gone.append(rows.pop(container))
            if not rows:
                del self._kept[place]
        return gone
