"""Answers AdmissionReviews: gather, decide, answer.

Strategy: the bytes of a review come in, the bytes of an answer go out. An ordinary review is
answered from the snapshot alone; one that needs a look-up comes back as `Pending` and is finished
in a thread, within the time that the API server grants. Whatever goes wrong, the answer is a
review that lets the object pass unchanged, with a reason that is counted and logged. Times are
those of the reviewer's clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from app.admission.core.lookups import admit_with_lookups
from app.admission.core.mutate import FAILED_OPEN, PodAdmission, PodReason, PodRules, PodVerdict
from app.admission.core.overlap import Disjointness, SiblingsWanted, needs_siblings
from app.admission.core.pod_explanation import explain
from app.admission.core.validate import Phase, VpaVerdict, review_vpa
from app.admission.metrics import AdmissionMetrics, Drop, ReviewLimit, Step
from app.admission.responses import (
    NOT_A_POD,
    Call,
    allowed_response,
    answer_of,
    log_keys,
    pod_log_keys,
    pod_response,
    traced,
    unreadable_response,
)
from app.admission.siblings import KnownSiblings
from app.admission.target_locks import AcceptedVpas, TargetLocks
from app.model.errors import BadObject
from app.model.fields import Json
from app.model.review import AdmissionRequest, read_review, uid_of
from app.model.server_version import ServerVersion
from app.model.snapshot import Snapshot
from app.model.vpa import VPA_GROUP, Vpa
from app.model.workloads import NOTHING_LOOKED_UP, LookedUp, Lookup, LookupResult
from app.runtime.limit_report import LimitReport
from app.runtime.logs import OncePerMinute
from app.sizing.matching import LookupNeeded

if TYPE_CHECKING:
    from app.kube.lookup_limits import LimitReached
    from app.ports import Clock, Owners, Siblings

log = logging.getLogger("admission.reviews")

_LONGEST_LOGGED: Final = 300  # characters of what is wrong with a body
# Many pods may have one of these at the same time, so they are logged now and then only.
_NOT_READ: Final = PodVerdict(PodReason.NOT_READ, "the cluster's objects are not read yet")
_TIME_OVER: Final = PodVerdict(PodReason.TIME_OVER, "the review had no turn in time")


@dataclass(frozen=True, slots=True)
class Pending:
    """A review that needs a look-up before it can be answered."""

    request: AdmissionRequest
    call: Call
    wants: LookupNeeded | SiblingsWanted


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a reviewer looks."""

    snapshot: Callable[[], Snapshot]
    owners: Owners
    siblings: Siblings
    is_live: bool = True  # no for recorded files: what is let pass is never stored
    is_read: Callable[[], bool] = lambda: True  # whether the snapshot holds all that there is
    server_version: Callable[[], ServerVersion | None] = lambda: None  # None: it is not known


@dataclass(frozen=True, slots=True)
class ReviewRules(PodRules):
    """What decides beside the cluster's objects."""

    disjointness: Disjointness = Disjointness.ENFORCE


Tell = Callable[[str, Mapping[str, object]], None]  # a message, and the keys of its line


def logged(message: str, keys: Mapping[str, object]) -> None:
    """Log a message with its keys."""
    log.info(message, extra=keys)


class Reviewer:
    """Turns reviews into answers; safe to use from several threads."""

    def __init__(
        self,
        sources: Sources,
        rules: ReviewRules,
        metrics: AdmissionMetrics,
        clock: Clock,
        tell: Tell = logged,
        reached: LimitReached | None = None,
    ) -> None:
        self.reached = reached or LimitReport(None, ReviewLimit).reached
        self._sources = sources
        self.now = clock.monotonic
        self.timer = metrics.timer
        self._time_admit = metrics.timer(Step.ADMIT)
        self._time_build = metrics.timer(Step.BUILD_RESPONSE)
        self._rules = rules
        self._metrics = metrics
        self._tell = tell
        self._lines = OncePerMinute(self.now)  # about what may happen to all reviews
        self._pods = PodAdmission(rules)
        self._locks = TargetLocks()
        self._accepted = AcceptedVpas(self.reached)
        self._siblings = KnownSiblings(sources.siblings, self.now)

    def read(self, body: bytes, call: Call) -> AdmissionRequest | bytes:
        """Return what is asked, or the answer to what is no review."""
        review: object = None
        try:
            review = orjson.loads(body)
            return read_review(review)
        except (orjson.JSONDecodeError, BadObject) as error:
            return self.answer_unreadable(str(error), call, uid_of(review))

    def begin(self, request: AdmissionRequest, call: Call) -> bytes | Pending:
        """Answer a review at once, or return what must be looked up first."""
        try:
            return self._dispatch(request, call)
        except Exception:
            with suppress(Exception):  # whatever else is broken, there will be an answer
                log.exception("review failed", extra=log_keys(request, call))
            return self._answer_failed(request, call)

    def answer(
        self, request: AdmissionRequest, seconds: float, phase: Phase = Phase.MUTATING
    ) -> bytes:
        """Answer a review with all look-ups, for which there are so many seconds."""
        call = Call(self.now(), phase)
        found = self.begin(request, call)
        return found if isinstance(found, bytes) else self.finish(found, call.began + seconds)

    def answer_unreadable(self, message: str, call: Call, uid: str = "") -> bytes:
        """Answer, or at least count, a call that is no review."""
        with suppress(Exception):
            extra = {"error": message[:_LONGEST_LOGGED]}
            log.warning("review not readable", extra=traced(extra, call))
            self._metrics.review("error", "unknown", self.now() - call.began)
        return _answer(unreadable_response(uid, message), call)

    def refuse_large(self, most_bytes: int, call: Call) -> None:
        """Count a call that is larger than any review may be."""
        self.reached(ReviewLimit.REVIEW_BYTES, most=most_bytes)
        self._metrics.review("error", "unknown", self.now() - call.began)

    def answer_late(self, request: AdmissionRequest, call: Call) -> bytes:
        """Answer a review for which there was no turn in time; it has none of its objects."""
        self.dropped(Drop.TIME_OVER, request, call)
        if _is_mutated(request, call):
            return self._answer_pod(request, _TIME_OVER, call)
        return _answer(allowed_response(request.uid, PodReason.TIME_OVER), call)

    def dropped(self, why: Drop, request: AdmissionRequest, call: Call) -> None:
        """Count a review that nothing was done about."""
        self._metrics.review_dropped(why)
        if times := self._lines.due(why):
            extra = {"reason": why, "times": times, **log_keys(request, call)}
            log.warning("review dropped", extra=extra)

    def finish(self, pending: Pending, until: float) -> bytes:
        """Answer a review that needs look-ups, which end at some time."""
        request, call, wants = pending.request, pending.call, pending.wants
        try:
            if isinstance(wants, LookupNeeded):
                return self._answer_pod(request, self._judge_pod(request, until, wants), call)
            verdict = self._judge_vpa(request, call.phase, wants, until)
            return self._answer_vpa(request, verdict, call)
        except Exception:
            with suppress(Exception):
                log.exception("review failed", extra=log_keys(request, call))
            return self._answer_failed(request, call)

    def explain(self, request: AdmissionRequest, call: Call, until: float) -> Json:
        """Return the answer to a review as it would be now, and why.

        Nothing is counted, and nothing is claimed by a VPA, because it is not about to be stored.
        """
        try:
            if _is_pod(request) and call.phase is Phase.MUTATING:
                pod = self._judge_pod(request, until)
                response, explanation = pod_response(request.uid, pod), explain(pod)
            elif _is_vpa(request):
                trial = request._replace(dry_run=True)
                wants = needs_siblings(trial, self._rules.disjointness)
                vpa = self._judge_vpa(trial, call.phase, wants, until)
                response, explanation = vpa.response(request), NOT_A_POD
            else:
                response, explanation = allowed_response(request.uid), NOT_A_POD
        except Exception:
            log.exception("review not explained", extra=log_keys(request, call))
            reason = PodReason.INTERNAL_ERROR
            response = allowed_response(request.uid, reason)
            explanation = {"reason": str(reason), "message": "the log tells what went wrong"}
        return {**answer_of(response, call), "explanation": explanation}

    def _judge_pod(
        self, request: AdmissionRequest, until: float, needed: LookupNeeded | None = None
    ) -> PodVerdict:
        """Decide about a pod with all look-ups that this needs."""
        if not self._sources.is_read():
            return _NOT_READ

        def admit(looked_up: LookedUp) -> PodVerdict | LookupNeeded:
            view = self._sources.snapshot().of(request.namespace)
            return self._pods.admit(request, view, looked_up)

        def find(lookup: Lookup) -> LookupResult:
            return self._sources.owners.find(lookup, max(until - self.now(), 0.0))

        return admit_with_lookups(admit, find, needed)

    def _dispatch(self, request: AdmissionRequest, call: Call) -> bytes | Pending:
        if _is_pod(request):
            if call.phase is Phase.MUTATING:
                return self._begin_pod(request, call)
            self._metrics.review("skipped", "Pod", self.now() - call.began)
        elif _is_vpa(request):
            return self._begin_vpa(request, call)
        else:
            self._metrics.review("error", "unknown", self.now() - call.began)
        return _answer(allowed_response(request.uid), call)

    def _begin_pod(self, request: AdmissionRequest, call: Call) -> bytes | Pending:
        if not self._sources.is_read():
            return self._answer_pod(request, _NOT_READ, call)
        view = self._sources.snapshot().of(request.namespace)
        verdict = self._pods.admit(request, view, NOTHING_LOOKED_UP)
        if isinstance(verdict, LookupNeeded):
            return Pending(request, call, verdict)
        return self._answer_pod(request, verdict, call)

    def _answer_pod(self, request: AdmissionRequest, verdict: PodVerdict, call: Call) -> bytes:
        # A pod with a VPA always gets a patch, if only for `vpaObservedContainers`.
        decided, has_vpa = self.now(), verdict.sizes is not None
        self._metrics.pod(applied=has_vpa)
        if has_vpa:
            self._tell("pod sized", pod_log_keys(request, verdict, call))
        elif verdict.reason in FAILED_OPEN:
            self._metrics.pod_failed_open(verdict.reason)
            is_common = verdict in (_NOT_READ, _TIME_OVER)
            if not is_common or self._lines.due(verdict.reason):
                log.warning("pod let pass unchanged", extra=pod_log_keys(request, verdict, call))
        else:
            self._metrics.pod_skipped(verdict.reason)
        body = _answer(pod_response(request.uid, verdict), call)
        self._time("applied" if has_vpa else "skipped", "Pod", call, decided)
        return body

    def _begin_vpa(self, request: AdmissionRequest, call: Call) -> bytes | Pending:
        wants = needs_siblings(request, self._rules.disjointness)
        if wants is not None and wants.is_decisive:
            return Pending(request, call, wants)
        verdict = self._judge_vpa(request, call.phase, wants, call.began)
        return self._answer_vpa(request, verdict, call)

    def _judge_vpa(
        self, request: AdmissionRequest, phase: Phase, wants: SiblingsWanted | None, until: float
    ) -> VpaVerdict:
        if wants is None:
            return self._vpa_verdict(request, phase, ())
        watched = self._watched(wants.namespace)
        if not wants.is_decisive:
            return self._vpa_verdict(request, phase, watched)
        return self._judge_beside_stored(request, phase, wants, watched, until)

    def _judge_beside_stored(
        self,
        request: AdmissionRequest,
        phase: Phase,
        wants: SiblingsWanted,
        watched: tuple[Vpa, ...] | None,
        until: float,
    ) -> VpaVerdict:
        """Judge a VPA by those that are stored, and by those that will be in a moment."""
        began = self.now()
        siblings = self._siblings.beside(wants.vpa, watched, until)
        with self._locks.held(wants, until - self.now()) as target:
            if target is not None and siblings is not None:
                siblings = (*siblings, *self._accepted.of(target, phase, began))
            verdict = self._vpa_verdict(request, phase, siblings)
            if target is not None and verdict.claim is not None and self._sources.is_live:
                self._accepted.add(target, phase, verdict.claim, self.now())
        return verdict

    def _watched(self, namespace: str) -> tuple[Vpa, ...] | None:
        """Return the VPAs of the snapshot, None if it may lack some."""
        if not self._sources.is_read():
            return None
        return tuple(self._sources.snapshot().of(namespace).vpas.values())

    def _vpa_verdict(
        self, request: AdmissionRequest, phase: Phase, siblings: tuple[Vpa, ...] | None
    ) -> VpaVerdict:
        rules, sources = self._rules, self._sources
        return review_vpa(
            request,
            rules.gates,
            siblings,
            rules.disjointness,
            phase=phase,
            view=sources.snapshot().of(request.namespace),
            server=sources.server_version(),
        )

    def _answer_vpa(self, request: AdmissionRequest, verdict: VpaVerdict, call: Call) -> bytes:
        decided, response = self.now(), verdict.response(request)
        if not verdict.allowed:
            self._metrics.vpa_refused(verdict.reason)
            problems = response["status"]["message"]
            log.info("VPA refused", extra={**log_keys(request, call), "problems": problems})
        body = _answer(response, call)
        self._time("applied" if verdict.patch else "skipped", "VPA", call, decided)
        return body

    def _time(self, status: str, resource: str, call: Call, decided: float) -> None:
        now = self.now()
        self._time_admit(decided - call.began)
        self._time_build(now - decided)
        self._metrics.review(status, resource, now - call.began)

    def _answer_failed(self, request: AdmissionRequest, call: Call) -> bytes:
        """Let pass what could not be decided, though counting it may fail as well."""
        with suppress(Exception):
            if _is_mutated(request, call):
                self._metrics.pod_failed_open(PodReason.INTERNAL_ERROR)
            self._metrics.review("error", "unknown", self.now() - call.began)
        return _answer(allowed_response(request.uid, PodReason.INTERNAL_ERROR), call)


def _is_pod(request: AdmissionRequest) -> bool:
    return request.resource.word == "pods" and not request.resource.group


def _is_mutated(request: AdmissionRequest, call: Call) -> bool:
    """Whether a review is about a pod that may be changed."""
    return call.phase is Phase.MUTATING and _is_pod(request)


def _is_vpa(request: AdmissionRequest) -> bool:
    return request.resource.word == "verticalpodautoscalers" and request.resource.group == VPA_GROUP


def _answer(response: Json, call: Call) -> bytes:
    return orjson.dumps(answer_of(response, call))
