"""The calls for a pod: evictions, resizes, annotations, pods on trial; and calls without a result.

Strategy: a call that was not answered may still have been carried out. So after one the pod is
read again; only what is seen to be undone counts as failed, and what cannot be seen is kept as
unconfirmed. Why a pod went meanwhile is not known. One that went counts as evicted, also if
a user deleted it: its place is empty either way, and its replacement proves as much.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from app.model.errors import BadObject, ClusterError, Invalid, NotFound, NotSent, Unavailable
from app.model.fields import Object, object_at
from app.model.kinds import ObjectKey
from app.model.pods import Pod, read_pod
from app.ports import PODS, WORKLOADS, Cluster, Json, PatchKind, Ref
from app.updater.core.decisions import Action, PodChange
from app.updater.core.outcomes import Outcome, RefusalKind, eviction_refusal, undone
from app.updater.core.patching import annotation_patch, resize_patch
from app.updater.core.resize_state import are_same
from app.updater.core.rules import UpdateRules
from app.updater.core.unboost import annotations_after_refusal
from app.updater.reporter import Reporter
from app.updater.state import UpdaterContext, UpdaterState

log = logging.getLogger("updater.calls")
trial_log = logging.getLogger("updater.trials")

_UNANSWERED: Final = (0, 504)  # status codes: the server may still carry it out
_PAUSE_SECONDS: Final = 1.0
_SETTLED_SECONDS: Final = 15.0  # then a call without a result is not carried out any more
_BUILT_IN: Final = {resource.kind: resource for resource in WORKLOADS}


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call."""

    error: ClusterError | None = None  # None: it was accepted
    generation: int = 0  # of the pod as it was returned, 0 if it did not say
    is_gone: bool = False  # the pod that was meant does not exist any more
    is_unconfirmed: bool = False  # it failed, but may have been carried out


_ACCEPTED: Final = CallResult()
_UNDONE: Final = CallResult(Unavailable("it was not carried out"))
_GONE: Final = CallResult(NotFound("the pod went meanwhile"), is_gone=True)


class PodCalls:
    """Makes the calls; safe to use from many threads.

    A call that was not sent, for its time was over, comes to nothing: it raises `NotSent`.
    """

    def __init__(self, cluster: Callable[[], Cluster]) -> None:
        self._cluster = cluster  # asked for every call, which may have less time than the last

    def evict(self, pod: Pod) -> CallResult:
        """Ask for an eviction."""
        try:
            self._cluster().evict(pod.namespace, pod.name, uid=pod.uid)
        except NotSent:
            raise
        except ClusterError as error:
            refusal = eviction_refusal(error)
            if refusal is RefusalKind.GONE:
                return CallResult(error, is_gone=True)
            if isinstance(error, Unavailable) and refusal is not RefusalKind.PDB:
                return self._after_silence(pod, None, error)
            return CallResult(error)
        return _ACCEPTED

    def resize(self, pod: Pod, change: PodChange, action: Action) -> CallResult:
        """Ask for a resize and write its annotations; without one they are what counts."""
        if not change.is_resize:
            return self._annotated(pod, change)
        result = self._resized(pod, change)
        if result.error is None:
            self.annotate(pod, change)
        elif action is Action.UNBOOST and not result.is_gone:
            self.annotate(pod, annotations_after_refusal(change))
        return result

    def _resized(self, pod: Pod, change: PodChange) -> CallResult:
        body = resize_patch(pod, change)
        if not body:
            return CallResult(Invalid("there is nothing to resize"))
        try:
            found = self._cluster().patch(
                Ref(PODS, pod.namespace, pod.name, subresource="resize"), body
            )
        except (NotFound, Invalid) as error:  # the latter also when our own tests of the pod fail
            return CallResult(error, is_gone=self._is_gone(pod))
        except NotSent:
            raise
        except Unavailable as error:
            return self._after_silence(pod, change, error)
        except ClusterError as error:
            return CallResult(error)
        generation = found.get("metadata", {}).get("generation")
        return CallResult(generation=generation if isinstance(generation, int) else 0)

    def _annotated(self, pod: Pod, change: PodChange) -> CallResult:
        body = annotation_patch(pod, change)
        try:
            self._cluster().patch(Ref(PODS, pod.namespace, pod.name), body, kind=PatchKind.MERGE)
        except (NotFound, Invalid) as error:  # the latter also when the uid is another one
            return CallResult(error, is_gone=self._is_gone(pod))
        except NotSent:
            raise
        except ClusterError as error:
            return CallResult(error)
        return _ACCEPTED

    def annotate(self, pod: Pod, change: PodChange) -> None:
        """Annotate a pod that was resized; it stays resized if that fails."""
        if not change.annotations:
            return
        try:
            error = self._annotated(pod, change).error
        except NotSent as too_late:
            error = too_late
        if error is not None:
            extra = {"pod": f"{pod.namespace}/{pod.name}", "error": str(error)}
            log.warning("pod not annotated", extra=extra)

    def _after_silence(self, pod: Pod, change: PodChange | None, error: ClusterError) -> CallResult:
        """Return what came of a call that may have been carried out all the same."""
        seen = self.result_of(pod, change)
        if seen is None:
            return CallResult(error, is_unconfirmed=True)
        if seen.error is not None:
            is_unconfirmed = not seen.is_gone and error.status in _UNANSWERED
            return CallResult(error, is_gone=seen.is_gone, is_unconfirmed=is_unconfirmed)
        return seen

    def result_of(self, pod: Pod, change: PodChange | None) -> CallResult | None:
        """Return what came of a resize or, without a change, an eviction; None if unreadable."""
        try:
            return _result_in(self._current(pod), change)
        except ClusterError:
            return None

    def _is_gone(self, pod: Pod) -> bool:
        try:
            return self._current(pod) is None
        except ClusterError:
            return False

    def _current(self, pod: Pod) -> Pod | None:
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


def _result_in(found: Pod | None, change: PodChange | None) -> CallResult:
    """Return what a pod tells, None if gone, of a resize or, without a change, an eviction."""
    if found is None:
        return _ACCEPTED if change is None else _GONE
    is_done = found.deleted is not None if change is None else _asks_for(found, change)
    return CallResult(generation=found.generation) if is_done else _UNDONE


def _asks_for(pod: Pod, change: PodChange) -> bool:
    """Whether a pod asks for what a change writes."""
    for wanted in change.containers:
        if wanted.index >= len(pod.containers):
            return False
        has = pod.containers[wanted.index].resources
        for amounts, asked in ((wanted.requests, has.request), (wanted.limits, has.limit)):
            if not all(are_same(name, asked(name), amounts[name]) for name in amounts):
                return False
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _Unconfirmed:
    """A call without a result, and since when."""

    outcome: Outcome
    boot_time: datetime  # as it was when the moment of the outcome was read
    since: float  # by the monotonic clock

    @property
    def pod(self) -> Pod:
        return self.outcome.step.pod

    @property
    def change(self) -> PodChange | None:
        return self.outcome.step.decision.change


class UnconfirmedCalls:
    """Remembers calls without a result; all but `tick` may be called from any thread.

    What the watch shows to be done is done. For some seconds a call may still be on its way; after
    that the pod is read, as soon as that is possible. If it never is, the watch is believed once
    it had time enough to show more. So a workload waits no longer than the API server is silent.
    """

    def __init__(
        self,
        calls: PodCalls,
        state: UpdaterState,
        reporter: Reporter,
        context: UpdaterContext,
        rules: UpdateRules,
    ) -> None:
        self._calls = calls
        self._state = state
        self._reporter = reporter
        self._context = context
        self._watch_lag_seconds = rules.watch_lag.total_seconds()
        self._lock = threading.Lock()
        self._unconfirmed: list[_Unconfirmed] = []  # what was asked about last is at the end

    def add(self, outcome: Outcome, boot_time: datetime) -> None:
        """Remember a call that failed, but may have been carried out."""
        since = self._context.clock.monotonic()
        with self._lock:
            self._unconfirmed.append(_Unconfirmed(outcome, boot_time, since))

    @contextmanager
    def replaced(self, pod: Pod) -> Iterator[None]:
        """Forget calls for a pod, because another one is made for it now; not if it is not sent."""
        with self._lock:
            before = [call for call in self._unconfirmed if call.pod.uid == pod.uid]
            self._unconfirmed = [call for call in self._unconfirmed if call.pod.uid != pod.uid]
        try:
            yield
        except NotSent:
            with self._lock:
                self._unconfirmed += before
            raise

    def clear(self) -> None:
        """Forget all calls."""
        with self._lock:
            self._unconfirmed = []

    def tick(self, _now: datetime) -> float:
        """Find out what came of the calls; return the seconds until the next look.

        When one pod cannot be read, the others are judged by the watch alone until next time.
        """
        may_ask = True
        with self._lock:
            unconfirmed = list(self._unconfirmed) if self._context.may_act() else []
        for call in unconfirmed:
            result = self._shown(call)
            if result is None and may_ask and self._age_seconds(call) >= _SETTLED_SECONDS:
                result = self._calls.result_of(call.pod, call.change)
                if result is None:
                    may_ask = False
                    self._remove(call, to_end=True)
            if result is not None:
                self._settle(call, result)
        return _PAUSE_SECONDS

    def _settle(self, call: _Unconfirmed, result: CallResult) -> None:
        """Remember and report what came of a call; then it is confirmed."""
        if result.error is not None:
            self._state.change(partial(undone, outcome=call.outcome), call.boot_time)
            self._remove(call)
            return
        done = replace(call.outcome, error=None, generation=result.generation)
        self._state.record(done, call.boot_time)
        self._reporter.report_call(done, self._context.snapshot())
        self._remove(call)
        if call.change is not None:
            self._calls.annotate(call.pod, call.change)

    def _remove(self, call: _Unconfirmed, *, to_end: bool = False) -> None:
        with self._lock:
            if call in self._unconfirmed:
                self._unconfirmed.remove(call)
                self._unconfirmed += [call] if to_end else []

    def _age_seconds(self, call: _Unconfirmed) -> float:
        return self._context.clock.monotonic() - call.since

    def _shown(self, call: _Unconfirmed) -> CallResult | None:
        """Return what the watch shows; what it shows undone may only be late, for a while."""
        found = self._context.snapshot().of(call.pod.namespace).pods.get(call.pod.name)
        result = _result_in(found if found and found.uid == call.pod.uid else None, call.change)
        is_final = result.error is None or result.is_gone
        return result if is_final or self._age_seconds(call) >= self._watch_lag_seconds else None


def dry_run_pod(cluster: Cluster, owner: ObjectKey, pod: Pod) -> Pod | None:
    """Create a pod like the next one of the owner of `pod`, with `dryRun`; return what it is like.

    None where that is not known: whatever goes wrong says nothing about the webhook.
    """
    resource = _BUILT_IN.get(owner.kind) if owner.is_built_in else None
    if resource is None:
        return None
    try:
        found = cluster.get(Ref(resource, pod.namespace, owner.name))
        body = _pod_of(found, resource.api_version, owner)
        return read_pod(cluster.create(Ref(PODS, pod.namespace), body, dry_run=True))
    except (ClusterError, BadObject) as error:
        extra = {"owner": str(owner), "namespace": pod.namespace, "error": str(error)}
        trial_log.warning("dry run of a pod failed", extra=extra)
        return None


def _pod_of(found: Object, api_version: str, owner: ObjectKey) -> Json:
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
