"""Writes statuses and checkpoints into the cluster, the urgent ones first.

Strategy: statuses and checkpoints of a round stand in one queue. One thread owns it and hands
each write to a thread that is free, so that a slow write delays only writes of the same object.
Before each of them the publisher asks what has become urgent, and that goes first, in place of
what it puts out of date. A write whose time was over before its turn came, or that was no longer
allowed by then, is put off, which is no failure; it is the first that is written in the next round.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from math import inf
from queue import SimpleQueue
from typing import Protocol

from app.model.errors import ClusterError, Conflict, Invalid, NotFound
from app.model.fields import object_at
from app.model.vpa import Vpa
from app.ports import CHECKPOINTS, VPAS, Clock, Cluster, Json, PatchKind, Ref
from app.recommender.checkpoint_reader import CheckpointName
from app.recommender.core.checkpoints import Checkpoint, own_annotations, patch_of, to_json
from app.recommender.core.model import RecommenderModel
from app.recommender.core.status import Publication, Why, status_patch
from app.recommender.core.targets import VpaKey
from app.recommender.metrics import RecommenderMetrics, Written

log = logging.getLogger("recommender.writes")

Target = tuple[str, str, str]  # kind, namespace and name


def put_checkpoint(cluster: Cluster, one: Checkpoint) -> None:
    """Bring a checkpoint up to date, or create it.

    Raises:
        ClusterError: it was not written.
    """
    item, ref = to_json(one), Ref(CHECKPOINTS, one.namespace, one.name)
    body = patch_of(item)
    try:
        cluster.patch(ref, body)
    except NotFound:
        cluster.create(Ref(CHECKPOINTS, one.namespace), item)
    except Invalid:
        if not _annotated(cluster, one, item):
            raise
        cluster.patch(ref, body)


def _annotated(cluster: Cluster, one: Checkpoint, item: Json) -> bool:
    """Annotate a checkpoint that has no annotations at all, and return whether it was one.

    Raises:
        Conflict: it belongs to another container.
    """
    field = f"metadata.name={one.name}"
    for stored in cluster.list(CHECKPOINTS, one.namespace, field_selector=field).items:
        metadata = object_at(stored, "metadata", "")
        if stored.get("spec") != item["spec"]:
            whose = f"container {one.container} of VPA {one.vpa}"
            name = f"checkpoint {one.namespace}/{one.name}"
            raise Conflict(f"{name} cannot be written for {whose}: it belongs to another one")
        if not metadata.get("annotations"):
            ours = {"uid": metadata.get("uid"), "annotations": own_annotations(item)}
            ref = Ref(CHECKPOINTS, one.namespace, one.name)
            cluster.patch(ref, {"metadata": ours}, kind=PatchKind.MERGE)
            return True
    return False


class Fate(StrEnum):
    """What became of a write."""

    WRITTEN = "written"
    FAILED = "failed"
    PUT_OFF = "put off"


@dataclass(frozen=True, slots=True, eq=False)
class QueuedWrite:
    """A write that shall be made."""

    target: Target
    make: Callable[[], object]  # in any thread
    ended: Callable[[Fate], object]  # in the thread that owns the queue
    until: float = inf  # by the monotonic clock; it is not begun later


class WriteQueue:
    """A queue of writes, and some threads that make them."""

    def __init__(self, clock: Clock, threads: int, may: Callable[[], bool]) -> None:
        self._clock = clock
        self._threads = threads
        self._may = may
        self._waiting: OrderedDict[Target, QueuedWrite] = OrderedDict()
        self._under_way: dict[Target, QueuedWrite] = {}
        self._ended: SimpleQueue[tuple[QueuedWrite, str]] = SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
        self._errors: list[str] = []

    @property
    def is_waiting(self) -> bool:
        """Whether there are writes that were neither begun nor put off."""
        return bool(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Whether there are writes that have not ended."""
        return bool(self._waiting or self._under_way)

    def add(self, writes: Iterable[QueuedWrite], *, urgent: bool = False) -> None:
        """Queue writes, in place of what they put out of date; urgent ones go first."""
        for write in writes:
            self._waiting[write.target] = write
            if urgent:
                self._waiting.move_to_end(write.target, last=False)

    def step(self) -> None:
        """Begin or put off one write; or wait until one has ended, if no thread is free."""
        target = next((one for one in self._waiting if one not in self._under_way), None)
        if target is None or len(self._under_way) >= self._threads:
            self._end_one()
            return
        write = self._waiting.pop(target)
        if self._clock.monotonic() >= write.until or not self._may():
            write.ended(Fate.PUT_OFF)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "pen")
        self._under_way[target] = write
        self._pool.submit(self._make, write)

    def rest(self) -> None:
        """Let the threads go, and say in one line what failed."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        errors, self._errors = self._errors, []
        if errors:
            extra = {"failed": len(errors), "error": errors[0]}
            log.warning("not everything was written", extra=extra)

    def _make(self, write: QueuedWrite) -> None:
        error = "it failed unexpectedly"
        try:
            write.make()
            error = ""
        except ClusterError as caught:
            error = str(caught) or type(caught).__name__
        except Exception:
            log.exception("a write failed unexpectedly", extra={"target": "/".join(write.target)})
        finally:
            self._ended.put((write, error))

    def _end_one(self) -> None:
        write, error = self._ended.get()
        del self._under_way[write.target]
        if error:
            self._errors.append(error)
        write.ended(Fate.FAILED if error else Fate.WRITTEN)


@dataclass(frozen=True, slots=True)
class PublishingRules:
    """For how long statuses and checkpoints are written, and how many in any case."""

    status_seconds: float
    checkpoint_seconds: float
    least_vpas: int  # whose checkpoints are written however long it takes
    threads: int = 10


@dataclass(frozen=True, slots=True)
class PublishingContext:
    """What writing needs."""

    model: RecommenderModel
    cluster: Cluster
    clock: Clock
    metrics: RecommenderMetrics
    may_write: Callable[[], bool]
    urgent: Callable[[], Sequence[Publication]]  # what must not wait
    created: Callable[[VpaKey], datetime | None]  # when a VPA was
    written: Callable[[Vpa], None]  # what to call with a status that no watch will tell of
    put: Callable[[Cluster, Checkpoint], None] = put_checkpoint


class RoundWriter(Protocol):
    """Where a recommender's statuses and checkpoints go."""

    def publish(self, publications: Sequence[Publication]) -> None:
        """Write statuses."""
        ...

    def store(self, asked: Callable[[], Sequence[Checkpoint]]) -> None:
        """Write the checkpoints that are asked for, unless that can make no difference."""
        ...

    def drop(self, names: Iterable[CheckpointName]) -> list[CheckpointName]:
        """Delete checkpoints; return those that were not deleted."""
        ...

    def finish(self) -> None:
        """Write what is urgent, and return when all writes have ended."""
        ...

    def flush(
        self, checkpoints: Sequence[Checkpoint], seconds: float, may: Callable[[], bool]
    ) -> tuple[int, int]:
        """Write checkpoints and nothing else; return how many were written, and how many of."""
        ...

    def told(self) -> dict[str, int]:
        """Return, once, how many statuses and checkpoints were written, and how many were not."""
        ...


class Publisher:
    """Writes for one model, which is told what was not written."""

    def __init__(self, desk: PublishingContext, rules: PublishingRules) -> None:
        self._desk = desk
        self._rules = rules
        self._pen = WriteQueue(desk.clock, rules.threads, desk.may_write)
        self._late: dict[VpaKey, None] = {}  # whose status was put off, the longest wait first
        self._fates = Counter[tuple[Written, Fate]]()

    def publish(self, publications: Sequence[Publication]) -> None:
        """Begin to write statuses, first those that were put off, in their order."""
        new = {_key(one): one for one in publications}
        late = [new.pop(key) for key in self._late if key in new]
        self._late = {}
        self._pen.add(self._statuses([*late, *new.values()]))
        self._go_on()

    def store(self, asked: Callable[[], Sequence[Checkpoint]]) -> None:
        """Begin to write the checkpoints that are asked for."""
        checkpoints = asked()
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
            QueuedWrite(
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
        last = Publisher(replace(self._desk, may_write=may, urgent=lambda: ()), rules)
        last.store(lambda: checkpoints)
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

    def _statuses(self, publications: Iterable[Publication]) -> Iterable[QueuedWrite]:
        until = self._desk.clock.monotonic() + self._rules.status_seconds
        for one in publications:
            target = (VPAS.kind, one.namespace, one.name)
            yield QueuedWrite(
                target, partial(self._patch, one), partial(self._published, one), until
            )

    def _checkpoint(self, one: Checkpoint, until: float) -> QueuedWrite:
        target = (CHECKPOINTS.kind, one.namespace, one.name)
        put = partial(self._desk.put, self._desk.cluster, one)
        return QueuedWrite(target, put, partial(self._stored, one), until)

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
