"""Writes statuses and checkpoints into the cluster, the urgent ones first.

Strategy: statuses and checkpoints of a round stand in one queue. One thread owns it and hands
each write to a thread that is free, so that a slow write delays only writes of the same object.
Before each write the caller may queue urgent statuses, which go first, and replace queued statuses
of the same VPA.
A write whose time was over before its turn came, or that was no longer allowed by then, is put
off, which is no failure; it is the first that is written in the next round. So is one that would
have to wait for `--kube-api-qps` until another replica may lead.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import inf
from queue import SimpleQueue

from app.model.errors import ClusterError, NotFound, TooLate
from app.ports import CHECKPOINTS, VPAS, Clock, Cluster, Ref
from app.recommender.configuration import RecommenderContext, RoundRules
from app.recommender.core.checkpoints import Checkpoint, CheckpointName
from app.recommender.core.model import RecommenderModel
from app.recommender.core.status import Publication, Why, status_patch
from app.recommender.core.targets import ObservedVpa, VpaKey
from app.recommender.metrics import Written

log = logging.getLogger("recommender.writes")

Target = tuple[str, str, str]  # kind, namespace and name


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

    def __init__(self, clock: Clock, threads: int, may_continue: Callable[[], bool]) -> None:
        self._clock = clock
        self._threads = threads
        self._may_continue = may_continue
        self._waiting: OrderedDict[Target, QueuedWrite] = OrderedDict()
        self._under_way: dict[Target, QueuedWrite] = {}
        self._ended: SimpleQueue[tuple[QueuedWrite, Fate]] = SimpleQueue()
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
        if self._clock.monotonic() >= write.until or not self._may_continue():
            write.ended(Fate.PUT_OFF)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "writes")
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
        fate = Fate.FAILED
        try:
            write.make()
            fate = Fate.WRITTEN
        except TooLate:
            fate = Fate.PUT_OFF
        except ClusterError as caught:
            self._errors.append(str(caught) or type(caught).__name__)
        except Exception:
            self._errors.append("it failed unexpectedly")
            log.exception("a write failed unexpectedly", extra={"target": "/".join(write.target)})
        finally:
            self._ended.put((write, fate))

    def _end_one(self) -> None:
        write, fate = self._ended.get()
        del self._under_way[write.target]
        write.ended(fate)


class Publisher:
    """Writes for one model, which is told what was not written."""

    wants_checkpoints = True

    def __init__(
        self,
        cluster_for_writes: Callable[[], Cluster],  # asked for each call
        context: RecommenderContext,
        rules: RoundRules,
        model: RecommenderModel,
        vpas: Mapping[VpaKey, ObservedVpa],  # those that the model knows
        may_continue: Callable[[], bool],
    ) -> None:
        self._cluster_for_writes = cluster_for_writes
        self._context = context
        self._rules = rules
        self._model = model
        self._vpas = vpas
        self._queue = WriteQueue(context.clock, rules.threads, may_continue)
        self._late: dict[VpaKey, None] = {}  # whose status was put off, the longest wait first
        self._fates = Counter[tuple[Written, Fate]]()

    def publish(self, publications: Sequence[Publication]) -> None:
        """Queue statuses, first those that were put off, in their order."""
        new = {_key(one): one for one in publications}
        late = [new.pop(key) for key in self._late if key in new]
        self._late = {}
        self._queue.add(self._statuses([*late, *new.values()]))

    def publish_urgent(self, publications: Sequence[Publication]) -> None:
        """Queue statuses before all other writes."""
        self._queue.add(self._statuses(reversed(publications)), urgent=True)

    def store(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Queue checkpoints, those of the first VPAs however long it takes."""
        count = _length_of_vpas(checkpoints, self._rules.threads)
        until = self._after(self._rules.checkpoint_seconds)
        self._queue.add(self._checkpoint(one, inf) for one in checkpoints[:count])
        self._queue.add(self._checkpoint(one, until) for one in checkpoints[count:])

    def drop(
        self, names: Iterable[CheckpointName], kept: Callable[[CheckpointName], object]
    ) -> None:
        """Queue deletions of checkpoints; `kept` is called with those that were not deleted."""
        until = self._after(self._rules.checkpoint_seconds)

        def ended(one: CheckpointName, fate: Fate) -> None:
            if fate is not Fate.WRITTEN:
                kept(one)

        for one in names:
            target = (CHECKPOINTS.kind, one.namespace, one.name)
            delete = partial(self._delete, one)
            self._queue.add([QueuedWrite(target, delete, partial(ended, one), until)])

    def write(self, *, until_ended: bool) -> Iterator[None]:
        """Make writes until all have begun, or ended; yield before each of them and at the end."""
        yield
        while self._queue.is_busy if until_ended else self._queue.is_waiting:
            self._queue.step()
            yield
        if until_ended:
            self._queue.rest()

    def flush(
        self, checkpoints: Sequence[Checkpoint], seconds: float, may_finish: Callable[[], bool]
    ) -> int:
        """Write checkpoints and nothing else, in the time there is; return how many it were."""
        self._fates.clear()
        queue = WriteQueue(self._context.clock, self._rules.threads, may_finish)
        until = self._after(seconds)
        queue.add(self._checkpoint(one, until) for one in checkpoints)
        while queue.is_busy:
            queue.step()
        queue.rest()
        return self._fates[Written.CHECKPOINT, Fate.WRITTEN]

    def take_counts(self) -> dict[str, int]:
        """Return, once, how many statuses and checkpoints were written, and how many were not."""
        fates, self._fates = self._fates, Counter()
        return {
            "published": fates[Written.STATUS, Fate.WRITTEN],
            "not_published": fates[Written.STATUS, Fate.FAILED],
            "checkpoints": fates[Written.CHECKPOINT, Fate.WRITTEN],
            "not_stored": fates[Written.CHECKPOINT, Fate.FAILED],
            "put_off": sum(fates[kind, Fate.PUT_OFF] for kind in Written),
        }

    def _after(self, seconds: float) -> float:
        return self._context.clock.monotonic() + seconds

    # --- what is written

    def _statuses(self, publications: Iterable[Publication]) -> Iterable[QueuedWrite]:
        until = self._after(self._rules.interval_seconds)
        for one in publications:
            target = (VPAS.kind, one.namespace, one.name)
            yield QueuedWrite(
                target, partial(self._patch, one), partial(self._published, one), until
            )

    def _checkpoint(self, one: Checkpoint, until: float) -> QueuedWrite:
        target = (CHECKPOINTS.kind, one.namespace, one.name)
        return QueuedWrite(target, partial(self._put, one), partial(self._stored, one), until)

    def _put(self, one: Checkpoint) -> None:
        self._rules.variant.put_checkpoint(self._cluster_for_writes(), one)

    def _patch(self, one: Publication) -> None:
        ref = Ref(VPAS, one.namespace, one.name, subresource="status")
        self._cluster_for_writes().patch(ref, status_patch(one.status))

    def _delete(self, one: CheckpointName) -> None:
        with suppress(NotFound):  # it was gone already
            ref = Ref(CHECKPOINTS, one.namespace, one.name)
            self._cluster_for_writes().delete(ref, uid=one.uid)

    # --- what became of it

    def _published(self, one: Publication, fate: Fate) -> None:
        self._count(Written.STATUS, fate)
        if fate is Fate.PUT_OFF:
            self._late[_key(one)] = None
        if fate is not Fate.WRITTEN:
            self._model.not_published(one.namespace, one.name)
        elif one.why is Why.FIRST:
            self._time_first(one)

    def _time_first(self, one: Publication) -> None:
        known = self._vpas.get(_key(one))  # it may be gone, after a round that was aborted
        if known is not None and (created := known.vpa.created) is not None:
            seconds = (self._context.clock.now() - created).total_seconds()
            self._context.metrics.first_recommendation(max(seconds, 0.0))

    def _stored(self, one: Checkpoint, fate: Fate) -> None:
        self._count(Written.CHECKPOINT, fate)
        if fate is not Fate.WRITTEN:
            self._model.not_stored(one)

    def _count(self, kind: Written, fate: Fate) -> None:
        self._fates[kind, fate] += 1
        if fate is Fate.FAILED:
            self._context.metrics.write_failed(kind)
        elif fate is Fate.PUT_OFF:
            self._context.metrics.write_put_off(kind)


def _key(one: Publication) -> VpaKey:
    return one.namespace, one.name


def _length_of_vpas(checkpoints: Sequence[Checkpoint], vpas: int) -> int:
    """Return how many checkpoints from the first on belong to so many VPAs."""
    seen = set[VpaKey]()
    for count, one in enumerate(checkpoints):
        seen.add(one.vpa_key)
        if len(seen) > vpas:
            return count
    return len(checkpoints)
