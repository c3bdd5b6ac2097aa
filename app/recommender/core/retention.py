"""History of pods that no VPA wants yet, for the VPA that may come.

Strategy: on demand, containers of unmatched pods feed rows of their topmost controller. A VPA
that comes for that controller takes those rows over as they are, running intervals included.
They are nobody's until then: not published, not stored, and dropped when they expire.
"""

from __future__ import annotations

import numpy as np

from app.model.kinds import ObjectKey
from app.recommender.core.observations import NO_OWNER
from app.recommender.core.policy import Cap, ContainerRules, aggregation_of
from app.recommender.core.rows import NOWHERE, RowTable
from app.recommender.core.rules import AggregationRules
from app.recommender.core.streams import Streams
from app.recommender.core.tracked import TrackedPod

_Place = tuple[str, ObjectKey]  # namespace and controller


class Retention:
    """Rows by controller."""

    def __init__(
        self, rows: RowTable, streams: Streams, rules: AggregationRules, *, retains: bool
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

    def fetch(self, namespace: str, controller: ObjectKey, now_ns: int) -> dict[str, int] | None:
        """Hand the rows of a controller over, None if there are none."""
        rows = self._kept.pop((namespace, controller), None)
        if rows is not None:
            for pod, row in list(self._fed.values()):
                if row in rows.values():
                    self.leave(pod, now_ns)
        return rows

    def over(self, now_ns: int) -> list[int]:
        """Take out the rows that nobody feeds and whose history has expired."""
        gone: list[int] = []
        for place, rows in list(self._kept.items()):
            for container, row in list(rows.items()):
                expired = self._rows.expired(np.array([row]), now_ns)[0]
                if expired and not self._rows.live[row]:
                    gone.append(rows.pop(container))
            if not rows:
                del self._kept[place]
        return gone
