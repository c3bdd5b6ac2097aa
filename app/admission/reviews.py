"""Answers AdmissionReviews: gather, decide, answer.

Strategy: the bytes of a review come in, the bytes of an answer go out. An ordinary review is
answered from the snapshot alone; one that needs a look-up comes back as `Pending` and is finished
in a thread, within the time that the API server grants. Whatever goes wrong, the answer is a
review that lets the object pass unchanged, with a reason that is counted and logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final

import orjson

from app.admission.core.effort import effort
from app.admission.core.mutate import FAILED_OPEN, PodAdmission, PodReason, PodRules, PodVerdict
from app.admission.core.overlap import Disjointness, SiblingsWanted, needs_siblings
from app.admission.core.validate import Phase, VpaVerdict, review_vpa
from app.admission.metrics import AdmissionMetrics, Drop, ReviewLimit, Step
from app.admission.siblings import KnownSiblings
from app.admission.target_locks import AcceptedVpas, TargetLocks
from app.model.errors import BadObject
from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.review import AdmissionRequest, read_review
from app.model.server_version import ServerVersion
from app.model.snapshot import Snapshot
from app.model.vpa import VPA_GROUP, Vpa
from app.model.workloads import NOTHING_LOOKED_UP, LookupResult
from app.runtime.limit_report import LimitReport
from app.runtime.logs import OncePerMinute
from app.sizing.matching import LookupNeeded, MatchReason

if TYPE_CHECKING:
    from app.kube.lookup_limits import LimitReached
    from app.ports import Clock, Owners, Siblings

log = logging.getLogger("admission.reviews")

_MOST_OWNERS: Final = 10
_LONGEST_LOGGED: Final = 300  # characters of what is wrong with a body
_LONGEST_AUDITED: Final = 200  # characters
_NOT_READ: Final = PodVerdict(PodReason.NOT_READ, "the cluster's objects are not read yet")


@dataclass(frozen=True, slots=True)
class Pending:
    """A review that needs a look-up before it can be answered."""

    request: AdmissionRequest
    phase: Phase
    wants: LookupNeeded | SiblingsWanted
    began: float  # on the clock's monotonic scale


@dataclass(frozen=True, slots=True)
class Costly:
    """A review that is more work than was asked for; it was not begun."""

    uid: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a reviewer looks."""

    snapshot: Callable[[], Snapshot]
    owners: Owners
    siblings: Siblings
    clock: Clock
    is_live: bool = True  # no for recorded files: what is let pass is never stored
    is_read: Callable[[], bool] = lambda: True  # whether the snapshot holds all that there is
    server_version: Callable[[], ServerVersion | None] = lambda: None  # None: it is not known


@dataclass(frozen=True, slots=True)
class ReviewRules:
    """What decides beside the cluster's objects."""

    pods: PodRules = field(default_factory=PodRules)
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
        tell: Tell = logged,
        reached: LimitReached | None = None,
    ) -> None:
        self._reached = reached or LimitReport(None, ReviewLimit).reached
        self._sources = sources
        self.now = sources.clock.monotonic
        self.timer = metrics.timer
        self._time_admit = metrics.timer(Step.ADMIT)
        self._time_build = metrics.timer(Step.BUILD_RESPONSE)
        self._rules = rules
        self._metrics = metrics
        self._tell = tell
        self._lines = OncePerMinute(self.now)  # about what may happen to all reviews
        self._pods = PodAdmission(rules.pods)
        self._locks = TargetLocks()
        self._accepted = AcceptedVpas(self._reached)
        self._siblings = KnownSiblings(sources.siblings, self.now)

    def begin(self, body: bytes, phase: Phase = Phase.MUTATING) -> bytes | Pending:
        """Answer a review at once, or say what must be looked up first."""
        found = self.begin_within(inf, body, phase)
        assert not isinstance(found, Costly)
        return found

    def begin_within(
        self, most_effort: float, body: bytes, phase: Phase = Phase.MUTATING
    ) -> bytes | Pending | Costly:
        """Do the same for a review that is not too much work; one that is was not begun."""
        began = self.now()
        try:
            review = orjson.loads(body)
            request = read_review(review)
        except (orjson.JSONDecodeError, BadObject) as error:
            return self.answer_unreadable(str(error), began)
        if most_effort < inf and effort(review, len(body)) > most_effort:
            return Costly(request.uid, request.namespace)
        return self._begin(request, phase, began)

    def begin_read(self, review: object, phase: Phase = Phase.MUTATING) -> bytes | Pending:
        """Do the same for a review that has been read as JSON already."""
        began = self.now()
        try:
            request = read_review(review)
        except BadObject as error:
            return self.answer_unreadable(str(error), began)
        return self._begin(request, phase, began)

    def _begin(self, request: AdmissionRequest, phase: Phase, began: float) -> bytes | Pending:
        try:
            return self._dispatch(request, phase, began)
        except Exception:
            with suppress(Exception):  # whatever else is broken, there will be an answer
                log.exception("review failed", extra=_log_keys(request))
            return self._answer_failed(request, began)

    def answer_unreadable(self, message: str, began: float | None = None) -> bytes:
        """Answer, or at least count, a call that is no review."""
        with suppress(Exception):
            log.warning("review not readable", extra={"error": message[:_LONGEST_LOGGED]})
            now = self.now()
            self._metrics.review("error", "unknown", now - (now if began is None else began))
        return _allowed("")

    def refuse_large(self, most_bytes: int, began: float) -> None:
        """Count a call that is larger than any review may be."""
        self._reached(ReviewLimit.REVIEW_BYTES, most=most_bytes)
        self._metrics.review("error", "unknown", self.now() - began)

    def answer_late(self, uid: str) -> bytes:
        """Answer a review for which there was no turn in time."""
        return _allowed(uid, auditAnnotations={"reason": Drop.TIME_OVER})

    def dropped(self, why: Drop) -> None:
        """Count a review that nothing was done about."""
        self._metrics.review_dropped(why)
        if times := self._lines.due(why):
            log.warning("review dropped", extra={"reason": why, "times": times})

    def finish(self, pending: Pending, deadline_seconds: float) -> bytes:
        """Answer a review that needs look-ups, so many seconds after it began at the latest."""
        request, until = pending.request, pending.began + deadline_seconds
        try:
            if isinstance(pending.wants, LookupNeeded):
                verdict = self.judge_pod(request, until - self.now())
                return self._answer_pod(request, verdict, pending.began)
            return self._answer_vpa_beside_siblings(pending, pending.wants, until)
        except Exception:
            with suppress(Exception):
                log.exception("review failed", extra=_log_keys(request))
            return self._answer_failed(request, pending.began)

    def judge_pod(self, request: AdmissionRequest, deadline_seconds: float) -> PodVerdict:
        """Decide about a pod with all look-ups that this needs."""
        until = self.now() + deadline_seconds
        looked_up: dict[ObjectKey, LookupResult] = {}
        for _ in range(_MOST_OWNERS):
            view = self._sources.snapshot().of(request.namespace)
            verdict = self._pods.admit(request, view, looked_up)
            if isinstance(verdict, PodVerdict):
                return verdict
            lookup = verdict.lookup
            left_seconds = max(until - self.now(), 0.0)
            looked_up[lookup.key] = self._sources.owners.find(lookup, left_seconds)
        return PodVerdict(MatchReason.OWNER_UNKNOWN, f"more than {_MOST_OWNERS} owners to look up")

    def _dispatch(self, request: AdmissionRequest, phase: Phase, began: float) -> bytes | Pending:
        group, _, resource = request.resource
        if group == "" and resource == "pods":
            if phase is Phase.MUTATING:
                return self._begin_pod(request, phase, began)
            self._metrics.review("skipped", "Pod", self.now() - began)  # pods are only mutated
        elif group == VPA_GROUP and resource == "verticalpodautoscalers":
            return self._begin_vpa(request, phase, began)
        else:
            self._metrics.review("error", "unknown", self.now() - began)
        return _allowed(request.uid)

    def _begin_pod(self, request: AdmissionRequest, phase: Phase, began: float) -> bytes | Pending:
        if not self._sources.is_read():
            return self._answer_pod(request, _NOT_READ, began)
        view = self._sources.snapshot().of(request.namespace)
        verdict = self._pods.admit(request, view, NOTHING_LOOKED_UP)
        if isinstance(verdict, LookupNeeded):
            return Pending(request, phase, verdict, began)
        return self._answer_pod(request, verdict, began)

    def _answer_pod(self, request: AdmissionRequest, verdict: PodVerdict, began: float) -> bytes:
        # Without a recommendation the containers that were observed are still written.
        decided, is_patched = self.now(), verdict.sizes is not None
        self._metrics.pod(applied=is_patched)
        if is_patched:
            self._tell("pod sized", pod_log_keys(request, verdict))
        elif verdict.reason in FAILED_OPEN:
            self._metrics.pod_failed_open(verdict.reason)
            if verdict is not _NOT_READ or self._lines.due(verdict.reason):
                log.warning("pod let pass unchanged", extra=pod_log_keys(request, verdict))
        else:
            self._metrics.pod_skipped(verdict.reason)
        body = _answer_json(pod_response(request.uid, verdict))
        self._time("applied" if is_patched else "skipped", "Pod", began, decided)
        return body

    def _begin_vpa(self, request: AdmissionRequest, phase: Phase, began: float) -> bytes | Pending:
        wants = needs_siblings(request, self._rules.disjointness)
        if wants is not None and wants.is_decisive:
            return Pending(request, phase, wants, began)
        siblings = () if wants is None else self._watched(wants.namespace)
        return self._answer_vpa(request, self._judge_vpa(request, phase, siblings), began)

    def _answer_vpa_beside_siblings(
        self, pending: Pending, wants: SiblingsWanted, until: float
    ) -> bytes:
        """Judge a VPA by those that are stored, and by those that will be in a moment."""
        phase, began = pending.phase, self.now()
        siblings = self._siblings.beside(wants.vpa, self._watched(wants.namespace), until)
        with self._locks.held(wants, until - self.now()) as target:
            if target is not None and siblings is not None:
                siblings = (*siblings, *self._accepted.of(target, phase, began))
            verdict = self._judge_vpa(pending.request, phase, siblings)
            if target is not None and verdict.claim is not None and self._sources.is_live:
                self._accepted.add(target, phase, verdict.claim, self.now())
        return self._answer_vpa(pending.request, verdict, pending.began)

    def _watched(self, namespace: str) -> tuple[Vpa, ...] | None:
        """Return the VPAs of the snapshot, None if it may lack some."""
        if not self._sources.is_read():
            return None
        return tuple(self._sources.snapshot().of(namespace).vpas.values())

    def _judge_vpa(
        self, request: AdmissionRequest, phase: Phase, siblings: tuple[Vpa, ...] | None
    ) -> VpaVerdict:
        rules, sources = self._rules, self._sources
        return review_vpa(
            request,
            rules.pods.gates,
            siblings,
            rules.disjointness,
            phase=phase,
            view=sources.snapshot().of(request.namespace),
            server=sources.server_version(),
        )

    def _answer_vpa(self, request: AdmissionRequest, verdict: VpaVerdict, began: float) -> bytes:
        decided, response = self.now(), verdict.response(request)
        if not verdict.allowed:
            self._metrics.vpa_refused(verdict.reason)
            problems = response["status"]["message"]
            log.info("VPA refused", extra=_log_keys(request) | {"problems": problems})
        body = _answer_json(response)
        self._time("applied" if verdict.patch else "skipped", "VPA", began, decided)
        return body

    def _time(self, status: str, resource: str, began: float, decided: float) -> None:
        now = self.now()
        self._time_admit(decided - began)
        self._time_build(now - decided)
        self._metrics.review(status, resource, now - began)

    def _answer_failed(self, request: AdmissionRequest, began: float) -> bytes:
        """Let pass what could not be decided, though counting it may fail as well."""
        with suppress(Exception):
            if request.resource.word == "pods":
                self._metrics.pod_failed_open(PodReason.INTERNAL_ERROR)
            self._metrics.review("error", "unknown", self.now() - began)
        return _allowed(request.uid, auditAnnotations={"reason": PodReason.INTERNAL_ERROR})


def _answer_json(response: Json) -> bytes:
    return orjson.dumps(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
    )


def _allowed(uid: str, **more: Json) -> bytes:
    return _answer_json({"uid": uid, "allowed": True, **more})


def pod_response(uid: str, verdict: PodVerdict) -> Json:
    """Return the response about a pod; its patch was encoded when it was worked out."""
    response: Json = {"uid": uid, "allowed": True}
    if encoded := verdict.encoded:
        response["patch"] = encoded
        response["patchType"] = "JSONPatch"
    audit: Json = {"reason": verdict.reason}
    vpa = verdict.match.vpa if verdict.match else None
    if vpa is not None:
        audit["vpa"] = vpa.name
    elif verdict.reason in FAILED_OPEN:
        audit["message"] = verdict.message[:_LONGEST_AUDITED]
    response["auditAnnotations"] = audit
    return response


def _log_keys(request: AdmissionRequest) -> dict[str, object]:
    return {
        "uid": request.uid,
        "resource": request.resource.word,
        "object": f"{request.namespace}/{request.name}",
    }


def pod_log_keys(request: AdmissionRequest, verdict: PodVerdict) -> dict[str, object]:
    """Return the keys of a log line about a pod."""
    incoming, sizes = verdict.incoming, verdict.sizes
    found: dict[str, object] = {
        "namespace": request.namespace,
        "pod": incoming.title if incoming else request.name or _generated_name(request.new),
        "reason": verdict.reason,
        "why": verdict.message,
    }
    if sizes is not None:
        found["changes"] = sizes.changes
    return found


def _generated_name(item: object) -> str:
    """Return how the name of a pod that cannot be read will begin; empty if that is unknown."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    prefix = metadata.get("generateName") if isinstance(metadata, dict) else None
    return f"{prefix}%" if prefix else ""
