"""The calls that evict, resize and mark pods, and what is known after one of them failed.

Strategy: a call that was not answered may still have been carried out. So after one the pod is
read again; only what is seen to be undone counts as failed, and what cannot be seen is in doubt.
Nobody can tell who took a pod away in the silence. One that went counts as evicted, also if a
user deleted it: its place is empty either way, and its replacement proves as much.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from app.model.errors import BadObject, ClusterError, Invalid, NotFound, Unavailable
from app.model.fields import Object, object_at
from app.model.kinds import ObjectKey
from app.model.pods import Pod, read_pod
from app.model.snapshot import Snapshot
from app.ports import PODS, WORKLOADS, Clock, Cluster, Json, PatchKind, Ref
from app.updater.core.decisions import Action, PodChange
from app.updater.core.outcomes import Outcome, RefusalKind, eviction_refusal, undone
from app.updater.core.patching import annotation_patch, resize_patch
from app.updater.core.resize_state import are_same
from app.updater.core.rules import UpdateRules
from app.updater.core.unboost import after_refusal
from app.updater.state import Lesson

log = logging.getLogger("updater.calls")

_UNANSWERED: Final = (0, 504)  # status codes: whoever was asked may still be at it


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call."""

    error: ClusterError | None = None  # None: it was accepted
    generation: int = 0  # of the pod as it was returned, 0 if it did not say
    is_gone: bool = False  # the pod that was meant is not there any more
    is_doubtful: bool = False  # it failed, but may have been carried out


ACCEPTED: Final = Answer()
_UNDONE: Final = Answer(Unavailable("it was not carried out"))
_GONE: Final = Answer(NotFound("the pod went meanwhile"), is_gone=True)


class Calls:
    """Makes the calls; safe to use from many threads."""

    def __init__(self, cluster: Callable[[], Cluster]) -> None:
        self._cluster = cluster  # asked for every call, which may have less time than the last

    def evict(self, pod: Pod) -> Answer:
        """Ask for an eviction."""
        try:
            self._cluster().evict(pod.namespace, pod.name, uid=pod.uid)
        except ClusterError as error:
            aftermath = eviction_refusal(error)
            if aftermath is RefusalKind.GONE:
                return Answer(error, is_gone=True)
            if isinstance(error, Unavailable) and aftermath is not RefusalKind.BUDGET:
                return self._after_silence(pod, None, error)
            return Answer(error)
        return ACCEPTED

    def resize(self, pod: Pod, change: PodChange, action: Action) -> Answer:
        """Ask for a resize and leave its marks; without a resize the marks are what counts."""
        if not change.containers:
            return self._marked(pod, change)
        answer = self._resized(pod, change)
        if answer.error is None:
            self.leave_marks(pod, change)
        elif action is Action.UNBOOST and not answer.is_gone:
            self.leave_marks(pod, after_refusal(change))
        return answer

    def _resized(self, pod: Pod, change: PodChange) -> Answer:
        body = resize_patch(pod, change)
        if not body:
            return Answer(Invalid("there is nothing to resize"))
        try:
            found = self._cluster().patch(
                Ref(PODS, pod.namespace, pod.name, subresource="resize"), body
            )
        except (NotFound, Invalid) as error:  # the latter also when our own tests of the pod fail
            return Answer(error, is_gone=self._is_gone(pod))
        except Unavailable as error:
            return self._after_silence(pod, change, error)
        except ClusterError as error:
            return Answer(error)
        generation = found.get("metadata", {}).get("generation")
        return Answer(generation=generation if isinstance(generation, int) else 0)

    def _marked(self, pod: Pod, change: PodChange) -> Answer:
        body = annotation_patch(pod, change)
        try:
            self._cluster().patch(Ref(PODS, pod.namespace, pod.name), body, kind=PatchKind.MERGE)
        except (NotFound, Invalid) as error:  # the latter also when the uid is another one
            return Answer(error, is_gone=self._is_gone(pod))
        except ClusterError as error:
            return Answer(error)
        return ACCEPTED

    def leave_marks(self, pod: Pod, change: PodChange) -> None:
        """Mark a pod that was resized; it stays resized if that fails."""
        if change.annotations:
            answer = self._marked(pod, change)
            if answer.error is not None:
                extra = {"pod": f"{pod.namespace}/{pod.name}", "error": str(answer.error)}
                log.warning("pod not marked", extra=extra)

    def _after_silence(self, pod: Pod, change: PodChange | None, error: ClusterError) -> Answer:
        """Return what came of a call that may have been carried out all the same."""
        seen = self.seen(pod, change)
        if seen is None:
            return Answer(error, is_doubtful=True)
        if seen.error is not None:
            is_doubtful = not seen.is_gone and error.status in _UNANSWERED
            return Answer(error, is_gone=seen.is_gone, is_doubtful=is_doubtful)
        return seen

    def seen(self, pod: Pod, change: PodChange | None) -> Answer | None:
        """Return what came of a resize or, without a change, an eviction; None if nobody tells."""
        try:
            return seen_in(self._look(pod), change)
        except ClusterError:
            return None

    def _is_gone(self, pod: Pod) -> bool:
        try:
            return self._look(pod) is None
        except ClusterError:
            return False

    def _look(self, pod: Pod) -> Pod | None:
        """Return a pod as it is now, None if it is another one or gone.

        Raises:
            ClusterError: that cannot be seen.
        """
        try:
            found = read_pod(self._cluster().get(Ref(PODS, pod.namespace, pod.name)))
        except NotFound:
            return None
        except BadObject as error:
            raise Unavailable(f"pod {pod.namespace}/{pod.name}: {error}") from None
        return found if found.uid == pod.uid else None


def seen_in(found: Pod | None, change: PodChange | None) -> Answer:
    """Return what a pod tells, None if gone, of a resize or, without a change, an eviction."""
    if found is None:
        return ACCEPTED if change is None else _GONE
    is_done = found.deleted is not None if change is None else has_asked(found, change)
    return Answer(generation=found.generation) if is_done else _UNDONE


def has_asked(pod: Pod, change: PodChange) -> bool:
    """Whether a pod asks for what a change writes."""
    for wanted in change.containers:
        if wanted.index >= len(pod.containers):
            return False
        has = pod.containers[wanted.index].resources
        for amounts, asked in ((wanted.requests, has.request), (wanted.limits, has.limit)):
            if not all(are_same(name, asked(name), amounts[name]) for name in amounts):
                return False
    return True


_SETTLED_SECONDS: Final = 15.0  # then a call without an answer is not carried out any more


@dataclass(frozen=True, slots=True, eq=False)
class _Doubt:
    """A call in doubt, what it was planned upon, and since when."""

    outcome: Outcome
    snapshot: Snapshot
    origin: datetime  # of the clock by which the outcome tells its moment
    since: float  # by the monotonic clock

    @property
    def pod(self) -> Pod:
        return self.outcome.step.pod

    @property
    def change(self) -> PodChange | None:
        return self.outcome.step.decision.change


class Doubts:
    """Remembers calls in doubt; all but `settled` may be called from any thread."""

    def __init__(
        self, calls: Calls, rules: UpdateRules, clock: Clock, snapshot: Callable[[], Snapshot]
    ) -> None:
        self._calls = calls
        self._lag_seconds = rules.watch_lag.total_seconds()
        self._clock = clock
        self._snapshot = snapshot
        self._lock = threading.Lock()
        self._doubts: list[_Doubt] = []  # what was asked about last is at the end

    def note(self, outcome: Outcome, snapshot: Snapshot, origin: datetime) -> None:
        """Remember a call that failed, but may have been carried out."""
        with self._lock:
            self._doubts.append(_Doubt(outcome, snapshot, origin, self._clock.monotonic()))

    def forget(self, pod: Pod | None = None) -> None:
        """Forget doubts about a pod, for something else is done to it now, or all of them."""
        with self._lock:
            self._doubts = [
                doubt for doubt in self._doubts if pod is not None and doubt.pod.uid != pod.uid
            ]

    def settled(self) -> Iterator[Lesson]:
        """Yield what came of the calls that can be told by now; each is forgotten once learnt.

        When one pod cannot be read, the others are judged by the watch alone until next time.
        """
        may_ask = True
        for doubt in self._open():
            answer = self._shown(doubt)
            if answer is None and may_ask and self._age_seconds(doubt) >= _SETTLED_SECONDS:
                answer = self._calls.seen(doubt.pod, doubt.change)
                if answer is None:
                    may_ask = False
                    self._remove(doubt, to_end=True)
            if answer is not None:
                yield _lesson(doubt, answer)
                self._remove(doubt)
                if answer.error is None and doubt.change is not None:
                    self._calls.leave_marks(doubt.pod, doubt.change)

    def _open(self) -> list[_Doubt]:
        with self._lock:
            return list(self._doubts)

    def _remove(self, doubt: _Doubt, *, to_end: bool = False) -> None:
        with self._lock:
            if doubt in self._doubts:
                self._doubts.remove(doubt)
                self._doubts += [doubt] if to_end else []

    def _age_seconds(self, doubt: _Doubt) -> float:
        return self._clock.monotonic() - doubt.since

    def _shown(self, doubt: _Doubt) -> Answer | None:
        """Return what the watch tells; what it shows undone may be yet to be seen for a while."""
        found = self._snapshot().of(doubt.pod.namespace).pods.get(doubt.pod.name)
        answer = seen_in(found if found and found.uid == doubt.pod.uid else None, doubt.change)
        is_final = answer.error is None or answer.is_gone
        return answer if is_final or self._age_seconds(doubt) >= self._lag_seconds else None


def _lesson(doubt: _Doubt, answer: Answer) -> Lesson:
    if answer.error is None:
        done = replace(doubt.outcome, error=None, generation=answer.generation)
        return Lesson(done, doubt.snapshot, origin=doubt.origin)
    return Lesson(change=partial(undone, outcome=doubt.outcome), origin=doubt.origin)


trial_log = logging.getLogger("updater.trials")

_BUILT_IN: Final = {resource.kind: resource for resource in WORKLOADS}


class Trials:
    """Creates pods on trial; the right to create pods is needed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def created(self, owner: ObjectKey, pod: Pod) -> Pod | None:
        """Return what a new pod of the owner of `pod` looks like, None if that cannot be told."""
        resource = _BUILT_IN.get(owner.kind) if owner.is_built_in else None
        if resource is None:
            return None
        try:
            found = self._cluster.get(Ref(resource, pod.namespace, owner.name))
            body = new_pod(found, resource.api_version, owner)
            return read_pod(self._cluster.create(Ref(PODS, pod.namespace), body, dry_run=True))
        except (ClusterError, BadObject) as error:
            extra = {"owner": str(owner), "namespace": pod.namespace, "error": str(error)}
            trial_log.warning("no pod created on trial", extra=extra)
            return None


def new_pod(found: Object, api_version: str, owner: ObjectKey) -> Json:
    """Return a pod as a controller makes it from its template."""
    template = object_at(object_at(found, "spec", ""), "template", "spec")
    wanted = object_at(template, "metadata", "spec.template")
    reference = {
        "apiVersion": api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": object_at(found, "metadata", "").get("uid"),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {key: wanted[key] for key in ("labels", "annotations") if key in wanted}
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            **metadata,
            "generateName": f"{owner.name}-",
            "ownerReferences": [reference],
        },
        "spec": object_at(template, "spec", "spec.template"),
    }
