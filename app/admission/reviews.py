"""Answers AdmissionReviews: gather, decide, answer.

Strategy: the bytes of a review come in, the bytes of an answer go out. An ordinary review is
answered from the snapshot alone; one that needs a look-up comes back as a `BegunReview`, finished
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

from app.admission.core.mutate import (
    FAILED_OPEN,
    PodAdmission,
    PodReason,
    PodRules,
    PodVerdict,
    admit_with_lookups,
)
from app.admission.core.overlap import Disjointness, SiblingsWanted, needs_siblings
from app.admission.core.pod_explanation import explain
from app.admission.core.validate import Phase, VpaVerdict, review_vpa
from app.admission.metrics import AdmissionMetrics, Drop, ReviewLimit, Step
from app.admission.responses import (
    NOT_A_POD,
    Arrival,
    allowed_response,
    answer_of,
    log_keys,
    pod_log_keys,
    pod_response,
    traced,
    unreadable_response,
)
from app.admission.siblings import AcceptedVpas, KnownSiblings, TargetLocks
from app.model.errors import BadObject
from app.model.fields import Json
from app.model.gates import ServerVersion
from app.model.review import AdmissionRequest, read_review, uid_of
from app.model.snapshot import Snapshot
from app.model.vpa import VPA_GROUP, Vpa
from app.model.workloads import NOTHING_LOOKED_UP, LookedUp, Lookup, LookupResult
from app.runtime.bounds import LimitReport
from app.runtime.logs import OncePerMinute
from app.sizing.matching import LookupNeeded

if TYPE_CHECKING:
    from app.ports import Clock, LimitReached, Owners, Siblings

log = logging.getLogger("admission.reviews")

_LONGEST_LOGGED: Final = 300  # characters of what is wrong with a body
# Many pods may have one of these at the same time, so they are logged now and then only.
_NOT_READ: Final = PodVerdict(PodReason.NOT_READ, "the cluster's objects are not read yet")
_TIME_OVER: Final = PodVerdict(PodReason.TIME_OVER, "the review had no turn in time")


@dataclass(frozen=True, slots=True)
class BegunReview:
    """A review that needs a look-up before it can be answered."""

    request: AdmissionRequest
    arrival: Arrival
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

    def read(self, body: bytes, arrival: Arrival) -> AdmissionRequest | bytes:
        """Return what is asked, or the answer to what is no review."""
        review: object = None
        try:
            review = orjson.loads(body)
            return read_review(review)
        except (orjson.JSONDecodeError, BadObject) as error:
            return self.answer_unreadable(str(error), arrival, uid_of(review))

    def begin(self, request: AdmissionRequest, arrival: Arrival) -> bytes | BegunReview:
        """Answer a review at once, or return what must be looked up first."""
        try:
            return self._dispatch(request, arrival)
        except Exception:
            with suppress(Exception):  # whatever else is broken, there will be an answer
                log.exception("review failed", extra=log_keys(request, arrival))
            return self._answer_failed(request, arrival)

    def answer(
        self, request: AdmissionRequest, seconds: float, phase: Phase = Phase.MUTATING
    ) -> bytes:
        """Answer a review with all look-ups, for which there are so many seconds."""
        arrival = Arrival(self.now(), phase)
        found = self.begin(request, arrival)
        return found if isinstance(found, bytes) else self.finish(found, arrival.began + seconds)

    def answer_unreadable(self, message: str, arrival: Arrival, uid: str = "") -> bytes:
        """Answer, or at least count, a call that is no review."""
        with suppress(Exception):
            extra = {"error": message[:_LONGEST_LOGGED]}
            log.warning("review not readable", extra=traced(extra, arrival))
            self._metrics.review("error", "unknown", self.now() - arrival.began)
        return _answer(unreadable_response(uid, message), arrival)

    def refuse_large(self, most_bytes: int, arrival: Arrival) -> None:
        """Count a call that is larger than any review may be."""
        self.reached(ReviewLimit.REVIEW_BYTES, most=most_bytes)
        self._metrics.review("error", "unknown", self.now() - arrival.began)

    def answer_late(self, request: AdmissionRequest, arrival: Arrival) -> bytes:
        """Answer a review for which there was no turn in time; it has none of its objects."""
        self.dropped(Drop.TIME_OVER, request, arrival)
        if _is_mutated(request, arrival):
            return self._answer_pod(request, _TIME_OVER, arrival)
        return _answer(allowed_response(request.uid, PodReason.TIME_OVER), arrival)

    def dropped(self, why: Drop, request: AdmissionRequest, arrival: Arrival) -> None:
        """Count a review that nothing was done about."""
        self._metrics.review_dropped(why)
        if times := self._lines.due(why):
            extra = {"reason": why, "times": times, **log_keys(request, arrival)}
            log.warning("review dropped", extra=extra)

    def finish(self, begun: BegunReview, until: float) -> bytes:
        """Answer a review that needs look-ups, which end at some time."""
        request, arrival, wants = begun.request, begun.arrival, begun.wants
        try:
            if isinstance(wants, LookupNeeded):
                return self._answer_pod(request, self._judge_pod(request, until, wants), arrival)
            verdict = self._judge_vpa(request, arrival.phase, wants, until)
            return self._answer_vpa(request, verdict, arrival)
        except Exception:
            with suppress(Exception):
                log.exception("review failed", extra=log_keys(request, arrival))
            return self._answer_failed(request, arrival)

    def explain(self, request: AdmissionRequest, arrival: Arrival, until: float) -> Json:
        """Return the answer to a review as it would be now, and why.

        Nothing is counted, and nothing is claimed by a VPA, because it is not about to be stored.
        """
        try:
            if _is_pod(request) and arrival.phase is Phase.MUTATING:
                pod = self._judge_pod(request, until)
                response, explanation = pod_response(request.uid, pod), explain(pod)
            elif _is_vpa(request):
                trial = request._replace(dry_run=True)
                wants = needs_siblings(trial, self._rules.disjointness)
                vpa = self._judge_vpa(trial, arrival.phase, wants, until)
                response, explanation = vpa.response(request), NOT_A_POD
            else:
                response, explanation = allowed_response(request.uid), NOT_A_POD
        except Exception:
            log.exception("review not explained", extra=log_keys(request, arrival))
            reason = PodReason.INTERNAL_ERROR
            response = allowed_response(request.uid, reason)
            explanation = {"reason": str(reason), "message": "the log tells what went wrong"}
        return {**answer_of(response, arrival), "explanation": explanation}

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

    def _dispatch(self, request: AdmissionRequest, arrival: Arrival) -> bytes | BegunReview:
        if _is_pod(request):
            if arrival.phase is Phase.MUTATING:
                return self._begin_pod(request, arrival)
            self._metrics.review("skipped", "Pod", self.now() - arrival.began)
        elif _is_vpa(request):
            return self._begin_vpa(request, arrival)
        else:
            self._metrics.review("error", "unknown", self.now() - arrival.began)
        return _answer(allowed_response(request.uid), arrival)

    def _begin_pod(self, request: AdmissionRequest, arrival: Arrival) -> bytes | BegunReview:
        if not self._sources.is_read():
            return self._answer_pod(request, _NOT_READ, arrival)
        view = self._sources.snapshot().of(request.namespace)
        verdict = self._pods.admit(request, view, NOTHING_LOOKED_UP)
        if isinstance(verdict, LookupNeeded):
            return BegunReview(request, arrival, verdict)
        return self._answer_pod(request, verdict, arrival)

    def _answer_pod(
        self, request: AdmissionRequest, verdict: PodVerdict, arrival: Arrival
    ) -> bytes:
        # A pod with a VPA always gets a patch, if only for `vpaObservedContainers`.
        decided, has_vpa = self.now(), verdict.sizes is not None
        self._metrics.pod(applied=has_vpa)
        if has_vpa:
            self._tell("pod sized", pod_log_keys(request, verdict, arrival))
        elif verdict.reason in FAILED_OPEN:
            self._metrics.pod_failed_open(verdict.reason)
            is_common = verdict in (_NOT_READ, _TIME_OVER)
            if not is_common or self._lines.due(verdict.reason):
                log.warning("pod admitted unchanged", extra=pod_log_keys(request, verdict, arrival))
        else:
            self._metrics.pod_skipped(verdict.reason)
        body = _answer(pod_response(request.uid, verdict), arrival)
        self._time("applied" if has_vpa else "skipped", "Pod", arrival, decided)
        return body

    def _begin_vpa(self, request: AdmissionRequest, arrival: Arrival) -> bytes | BegunReview:
        wants = needs_siblings(request, self._rules.disjointness)
        if wants is not None and wants.is_decisive:
            return BegunReview(request, arrival, wants)
        verdict = self._judge_vpa(request, arrival.phase, wants, arrival.began)
        return self._answer_vpa(request, verdict, arrival)

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

    def _answer_vpa(
        self, request: AdmissionRequest, verdict: VpaVerdict, arrival: Arrival
    ) -> bytes:
        decided, response = self.now(), verdict.response(request)
        if not verdict.allowed:
            self._metrics.vpa_refused(verdict.reason)
            problems = response["status"]["message"]
            log.info("VPA refused", extra={**log_keys(request, arrival), "problems": problems})
        body = _answer(response, arrival)
        self._time("applied" if verdict.patch else "skipped", "VPA", arrival, decided)
        return body

    def _time(self, status: str, resource: str, arrival: Arrival, decided: float) -> None:
        now = self.now()
        self._time_admit(decided - arrival.began)
        self._time_build(now - decided)
        self._metrics.review(status, resource, now - arrival.began)

    def _answer_failed(self, request: AdmissionRequest, arrival: Arrival) -> bytes:
        """Let pass what could not be decided, though counting it may fail as well."""
        with suppress(Exception):
            if _is_mutated(request, arrival):
                self._metrics.pod_failed_open(PodReason.INTERNAL_ERROR)
            self._metrics.review("error", "unknown", self.now() - arrival.began)
        return _answer(allowed_response(request.uid, PodReason.INTERNAL_ERROR), arrival)


def _is_pod(request: AdmissionRequest) -> bool:
    return request.resource.word == "pods" and not request.resource.group


def _is_mutated(request: AdmissionRequest, arrival: Arrival) -> bool:
    """Whether a review is about a pod that may be changed."""
    return arrival.phase is Phase.MUTATING and _is_pod(request)


def _is_vpa(request: AdmissionRequest) -> bool:
    return request.resource.word == "verticalpodautoscalers" and request.resource.group == VPA_GROUP


def _answer(response: Json, arrival: Arrival) -> bytes:
    return orjson.dumps(answer_of(response, arrival))
