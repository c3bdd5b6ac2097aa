"""Brings what a recommender's model says into the cluster; what is urgent does not wait in line.

Strategy: statuses and checkpoints of a round stand in one queue. Before each of them we ask what
has become urgent, and that goes first, in place of what it puts out of date. What there was no
time for is the first that is written in the next round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from math import inf

from app.model.errors import NotFound
from app.ports import CHECKPOINTS, VPAS, Clock, Cluster, Ref
from app.recommender.checkpoint_writes import put_checkpoint
from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.model import RecommenderModel
from app.recommender.core.status import Publication, Why, status_patch
from app.recommender.core.targets import VpaKey
from app.recommender.metrics import RecommenderMetrics, Written
from app.recommender.pen import Fate, Pen, Write

CheckpointName = tuple[str, str, str]  # namespace, name, and uid if it is known


@dataclass(frozen=True, slots=True)
class WritingRules:
    """For how long statuses and checkpoints are written, and how many in any case."""

    status_seconds: float
    checkpoint_seconds: float
    least_vpas: int  # whose checkpoints are written however long it takes
    threads: int = 10


@dataclass(frozen=True, slots=True)
class Desk:
    """What writing needs."""

    model: RecommenderModel
    cluster: Cluster
    clock: Clock
    metrics: RecommenderMetrics
    may_write: Callable[[], bool]
    urgent: Callable[[], Sequence[Publication]]  # what must not wait
    created: Callable[[VpaKey], datetime | None]  # when a VPA was
    put: Callable[[Cluster, Checkpoint], None] = put_checkpoint


class Writing:
    """Writes for one model, which is told what was not written."""

    def __init__(self, desk: Desk, rules: WritingRules) -> None:
        self._desk = desk
        self._rules = rules
        self._pen = Pen(desk.clock, rules.threads, desk.may_write)
        self._late: dict[VpaKey, None] = {}  # whose status was put off, the longest wait first
        self._fates = Counter[tuple[Written, Fate]]()

    def publish(self, publications: Sequence[Publication]) -> None:
        """Begin to write statuses, first those that were put off, in their order."""
        new = {_key(one): one for one in publications}
        late = [new.pop(key) for key in self._late if key in new]
        self._late = {}
        self._pen.add(self._statuses([*late, *new.values()]))
        self._go_on()

    def store(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Begin to write checkpoints."""
        until = self._desk.clock.monotonic() + self._rules.checkpoint_seconds
        count = _length_of_vpas(checkpoints, self._rules.least_vpas)
        self._pen.add(self._checkpoint(one, inf) for one in checkpoints[:count])
        self._pen.add(self._checkpoint(one, until) for one in checkpoints[count:])
        self._go_on()

    def drop(self, names: Iterable[CheckpointName]) -> list[CheckpointName]:
        """Delete checkpoints, and finish; return those that were not deleted."""
        kept: list[CheckpointName] = []
        until = self._desk.clock.monotonic() + self._rules.checkpoint_seconds

        def ended(one: CheckpointName, fate: Fate) -> None:
            if fate is not Fate.WRITTEN:
                kept.append(one)

        self._pen.add(
            Write(
                (CHECKPOINTS.kind, *one[:2]), partial(self._delete, one), partial(ended, one), until
            )
            for one in names
        )
        self.finish()
        return kept

    def finish(self) -> None:
        """Write what is urgent, and return when all writes have ended."""
        self._overtake()
        while self._pen.is_busy:
            self._pen.step()
            self._overtake()
        self._pen.rest()

    def flush(
        self, checkpoints: Sequence[Checkpoint], seconds: float, may: Callable[[], bool]
    ) -> tuple[int, int]:
        """Write checkpoints and nothing else; return how many were written, and how many of."""
        rules = replace(self._rules, checkpoint_seconds=seconds, least_vpas=0)
        last = Writing(replace(self._desk, may_write=may, urgent=lambda: ()), rules)
        last.store(checkpoints)
        last.finish()
        return last.told()["checkpoints"], len(checkpoints)

    def told(self) -> dict[str, int]:
        """Return, once, how many statuses and checkpoints were written, and how many were not."""
        fates, self._fates = self._fates, Counter()
        return {
            "published": fates[Written.STATUS, Fate.WRITTEN],
            "not_published": fates[Written.STATUS, Fate.FAILED],
            "checkpoints": fates[Written.CHECKPOINT, Fate.WRITTEN],
            "not_stored": fates[Written.CHECKPOINT, Fate.FAILED],
            "put_off": sum(fates[kind, Fate.PUT_OFF] for kind in Written),
        }

    def _go_on(self) -> None:
        self._overtake()
        while self._pen.is_waiting:
            self._pen.step()
            self._overtake()

    def _overtake(self) -> None:
        if news := self._desk.urgent():
            self._pen.add(self._statuses(reversed(news)), urgent=True)

    # --- what is written

    def _statuses(self, publications: Iterable[Publication]) -> Iterable[Write]:
        until = self._desk.clock.monotonic() + self._rules.status_seconds
        for one in publications:
            target = (VPAS.kind, one.namespace, one.name)
            yield Write(target, partial(self._patch, one), partial(self._published, one), until)

    def _checkpoint(self, one: Checkpoint, until: float) -> Write:
        target = (CHECKPOINTS.kind, one.namespace, one.name)
        put = partial(self._desk.put, self._desk.cluster, one)
        return Write(target, put, partial(self._stored, one), until)

    def _patch(self, one: Publication) -> None:
        body = status_patch(one.status)
        self._desk.cluster.patch(Ref(VPAS, one.namespace, one.name, subresource="status"), body)

    def _delete(self, one: CheckpointName) -> None:
        namespace, name, uid = one
        with suppress(NotFound):  # it was gone already
            self._desk.cluster.delete(Ref(CHECKPOINTS, namespace, name), uid=uid)

    # --- what became of it

    def _published(self, one: Publication, fate: Fate) -> None:
        self._count(Written.STATUS, fate)
        if fate is Fate.PUT_OFF:
            self._late[_key(one)] = None
        if fate is not Fate.WRITTEN:
            self._desk.model.not_published(one.namespace, one.name)
        elif one.why is Why.FIRST:
            self._time_first(_key(one))

    def _stored(self, one: Checkpoint, fate: Fate) -> None:
        self._count(Written.CHECKPOINT, fate)
        if fate is not Fate.WRITTEN:
            self._desk.model.not_stored(one)

    def _count(self, kind: Written, fate: Fate) -> None:
        self._fates[kind, fate] += 1
        if fate is Fate.FAILED:
            self._desk.metrics.write_failed(kind)
        elif fate is Fate.PUT_OFF:
            self._desk.metrics.write_put_off(kind)

    def _time_first(self, key: VpaKey) -> None:
        if (created := self._desk.created(key)) is not None:
            seconds = (self._desk.clock.now() - created).total_seconds()
            self._desk.metrics.first_recommendation(max(seconds, 0.0))


def _key(one: Publication) -> VpaKey:
    return one.namespace, one.name


def _length_of_vpas(checkpoints: Sequence[Checkpoint], vpas: int) -> int:
    """Return how many checkpoints from the first on belong to so many VPAs."""
    seen = set[VpaKey]()
    for count, one in enumerate(checkpoints):
        seen.add((one.namespace, one.vpa))
        if len(seen) > vpas:
            return count
    return len(checkpoints)
