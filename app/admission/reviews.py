"""Answers AdmissionReviews: gather, decide, answer.

Strategy: the bytes of a review come in, the bytes of an answer go out. An ordinary review is
answered from the snapshot alone; one that needs a look-up comes back as `Pending` and is finished
in a thread, within the time that the API server grants. Whatever goes wrong, the answer is a
review that lets the object pass unchanged, with a reason that is counted and logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import orjson

from app.admission.answers import (
    FAILED_OPEN,
    INTERNAL_ERROR,
    log_keys,
    pod_log_keys,
    pod_review_json,
    review_json,
)
from app.admission.core.mutate import PodRules, PodVerdict, admit_pod, pod_cache
from app.admission.core.overlap import SiblingsWanted, needs_siblings
from app.admission.core.validate import Phase, ValidationRules, VpaVerdict, review_vpa
from app.admission.metrics import Step
from app.admission.target_locks import TargetLocks
from app.model.errors import BadObject
from app.model.kinds import ObjectKey
from app.model.review import AdmissionRequest, AdmissionResponse, read_review
from app.model.snapshot import Snapshot
from app.model.vpa import VPA_GROUP, Vpa
from app.model.workloads import LookupResult
from app.sizing.matching import LookupNeeded, MatchReason

if TYPE_CHECKING:
    from app.ports import Clock, Owners, Siblings

log = logging.getLogger("admission.reviews")

_MOST_LOOKUPS: Final = 10
_LISTS: Final = 8  # of siblings that may be read at the same time
_LONGEST_LOGGED: Final = 300  # characters of what is wrong with a body


class Numbers(Protocol):
    """What is counted of reviews."""

    def review(self, status: str, resource: str, seconds: float) -> None:
        """Count a review by what became of it."""
        ...

    def pod(self, *, applied: bool) -> None:
        """Count a pod review."""
        ...

    def pod_skipped(self, reason: str) -> None:
        """Count a pod that was left alone for a reason."""
        ...

    def pod_failed_open(self, reason: str) -> None:
        """Count a pod that passed unchanged because nothing could be decided."""
        ...

    def vpa_refused(self, reason: str) -> None:
        """Count a refused VPA."""
        ...

    def timer(self, step: str, /) -> Callable[[float], object]:
        """Return what takes the seconds of one step of each review."""
        ...


@dataclass(frozen=True, slots=True)
class Pending:
    """A review that needs a look-up before it can be answered."""

    request: AdmissionRequest
    phase: Phase
    wants: LookupNeeded | SiblingsWanted
    began: float  # on the clock's monotonic scale


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a reviewer looks."""

    snapshot: Callable[[], Snapshot]
    owners: Owners
    siblings: Siblings
    clock: Clock
    is_live: bool = True  # what is let pass will be stored, and be seen in the sources


@dataclass(frozen=True, slots=True)
class ReviewRules:
    """What decides beside the cluster's objects."""

    pods: PodRules = field(default_factory=PodRules)
    vpas: ValidationRules = field(default_factory=ValidationRules)


Tell = Callable[[str, Mapping[str, object]], None]  # a message, and the keys of its line


def logged(message: str, keys: Mapping[str, object]) -> None:
    """Log a message with its keys."""
    log.info(message, extra=keys)


class Reviewer:
    """Turns reviews into answers; safe to use from several threads."""

    def __init__(
        self, sources: Sources, rules: ReviewRules, numbers: Numbers, tell: Tell = logged
    ) -> None:
        self._sources = sources
        self.now = sources.clock.monotonic
        self.timer = numbers.timer
        self._time_admit = numbers.timer(Step.ADMIT)
        self._time_build = numbers.timer(Step.BUILD_RESPONSE)
        self._rules = rules
        self._numbers = numbers
        self._tell = tell
        self._cache = pod_cache(rules.pods)
        self._locks = TargetLocks()
        self._lists = ThreadPoolExecutor(_LISTS, "siblings")

    def begin(self, body: bytes, phase: Phase = Phase.MUTATING) -> bytes | Pending:
        """Answer a review at once, or say what must be looked up first."""
        began = self.now()
        try:
            review = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            return self._unreadable(str(error), began)
        return self._taken(review, phase, began)

    def take(self, review: object, phase: Phase = Phase.MUTATING) -> bytes | Pending:
        """Do the same for a review that has been read as JSON already."""
        return self._taken(review, phase, self.now())

    def unreadable(self, message: str) -> bytes:
        """Answer what is no review."""
        return self._unreadable(message, self.now())

    def turned_away(self, message: str, began: float) -> None:
        """Count a call whose body is not even looked at."""
        self._unreadable(message, began)

    def finish(self, pending: Pending, deadline_seconds: float) -> bytes:
        """Answer a review that needs look-ups, so many seconds after it began at the latest."""
        request, until = pending.request, pending.began + deadline_seconds
        try:
            if isinstance(pending.wants, LookupNeeded):
                verdict = self.judge_pod(request, until - self.now())
                return self._pod_answer(request, verdict, pending.began)
            return self._vpa_beside_siblings(pending, pending.wants, until)
        except Exception:
            with suppress(Exception):
                log.exception("review failed", extra=log_keys(request))
            return self._broken(request, pending.began)

    def judge_pod(self, request: AdmissionRequest, deadline_seconds: float) -> PodVerdict:
        """Decide about a pod with all look-ups that this needs."""
        until = self.now() + deadline_seconds
        looked_up: dict[ObjectKey, LookupResult] = {}
        for _ in range(_MOST_LOOKUPS):
            verdict = self._pod_verdict(request, looked_up)
            if isinstance(verdict, PodVerdict):
                return verdict
            lookup = verdict.lookup
            left_seconds = max(until - self.now(), 0.0)
            looked_up[lookup.key] = self._sources.owners.find(lookup, left_seconds)
        return PodVerdict(MatchReason.OWNER_UNKNOWN, f"more than {_MOST_LOOKUPS} owners to look up")

    def _taken(self, review: object, phase: Phase, began: float) -> bytes | Pending:
        try:
            request = read_review(review)
        except BadObject as error:
            return self._unreadable(str(error), began)
        try:
            return self._begun(request, phase, began)
        except Exception:
            with suppress(Exception):  # whatever else is broken, there will be an answer
                log.exception("review failed", extra=log_keys(request))
            return self._broken(request, began)

    def _begun(self, request: AdmissionRequest, phase: Phase, began: float) -> bytes | Pending:
        group, _, word = request.resource
        if group == "" and word == "pods":
            return self._pod(request, phase, began)
        if group == VPA_GROUP and word == "verticalpodautoscalers":
            return self._vpa(request, phase, began)
        self._numbers.review("error", "unknown", self.now() - began)
        return review_json(request.uid, AdmissionResponse())

    def _pod(self, request: AdmissionRequest, phase: Phase, began: float) -> bytes | Pending:
        if phase is Phase.VALIDATING:  # pods are changed, never judged
            self._numbers.review("skipped", "Pod", self.now() - began)
            return review_json(request.uid, AdmissionResponse())
        verdict = self._pod_verdict(request, {})
        if isinstance(verdict, LookupNeeded):
            return Pending(request, phase, verdict, began)
        return self._pod_answer(request, verdict, began)

    def _pod_verdict(
        self, request: AdmissionRequest, looked_up: Mapping[ObjectKey, LookupResult]
    ) -> PodVerdict | LookupNeeded:
        view = self._sources.snapshot().of(request.namespace)
        return admit_pod(request, view, looked_up, self._rules.pods, self._cache)

    def _pod_answer(self, request: AdmissionRequest, verdict: PodVerdict, began: float) -> bytes:
        decided, is_applied = self.now(), verdict.sizes is not None
        self._numbers.pod(applied=is_applied)
        if is_applied:
            self._tell("pod sized", pod_log_keys(request, verdict))
        elif verdict.reason in FAILED_OPEN:
            self._numbers.pod_failed_open(verdict.reason)
            log.warning("pod let pass unchanged", extra=pod_log_keys(request, verdict))
        else:
            self._numbers.pod_skipped(verdict.reason)
        body = pod_review_json(request.uid, verdict)
        self._time("applied" if is_applied else "skipped", "Pod", began, decided)
        return body

    def _vpa(self, request: AdmissionRequest, phase: Phase, began: float) -> bytes | Pending:
        wants = needs_siblings(request, self._rules.vpas.disjointness)
        if wants is not None and wants.is_decisive:
            return Pending(request, phase, wants, began)
        siblings = () if wants is None else self._sources.snapshot().of(wants.namespace).vpas
        verdict = self._vpa_verdict(request, phase, tuple(siblings.values()) if siblings else ())
        return self._vpa_answer(request, verdict, began)

    def _vpa_beside_siblings(self, pending: Pending, wants: SiblingsWanted, until: float) -> bytes:
        """Judge a VPA by those that are stored, and by those that will be in a moment."""
        request, now = pending.request, self._sources.clock.now()
        with self._locks.held(wants, now, until - self.now()) as target:
            stored = None if target is None else self._listed(wants.namespace, until)
            now = self._sources.clock.now()
            siblings = None
            if target is not None and stored is not None:
                siblings = (*stored, *target.claims.pending(now))
            verdict = self._vpa_verdict(request, pending.phase, siblings)
            if target is not None and verdict.claim is not None and self._sources.is_live:
                target.claims = target.claims.adding(verdict.claim, now)
        return self._vpa_answer(request, verdict, pending.began)

    def _listed(self, namespace: str, until: float) -> tuple[Vpa, ...] | None:
        """Return the stored VPAs of a namespace, None if they cannot be had in time."""
        asked = self._lists.submit(self._sources.siblings.of, namespace)
        try:
            return asked.result(max(until - self.now(), 0.0))
        except Exception:
            asked.cancel()
            log.exception("siblings not read", extra={"namespace": namespace})
            return None

    def _vpa_verdict(
        self, request: AdmissionRequest, phase: Phase, siblings: tuple[Vpa, ...] | None
    ) -> VpaVerdict:
        rules = self._rules
        return review_vpa(request, rules.pods.gates, siblings, rules.vpas, phase=phase)

    def _vpa_answer(self, request: AdmissionRequest, verdict: VpaVerdict, began: float) -> bytes:
        decided, answer = self.now(), verdict.answer(request)
        if not answer.allowed:
            self._numbers.vpa_refused(verdict.reason)
            message = answer.status["message"] if answer.status else ""
            log.info("VPA refused", extra=log_keys(request) | {"problems": message})
        body = review_json(request.uid, answer)
        self._time("applied" if answer.patch else "skipped", "VPA", began, decided)
        return body

    def _time(self, status: str, resource: str, began: float, decided: float) -> None:
        now = self.now()
        self._time_admit(decided - began)
        self._time_build(now - decided)
        self._numbers.review(status, resource, now - began)

    def _unreadable(self, message: str, began: float) -> bytes:
        with suppress(Exception):
            log.warning("review not readable", extra={"error": message[:_LONGEST_LOGGED]})
            self._numbers.review("error", "unknown", self.now() - began)
        return review_json("", AdmissionResponse())

    def _broken(self, request: AdmissionRequest, began: float) -> bytes:
        """Let pass what could not be decided, though counting it may fail as well."""
        with suppress(Exception):
            if request.resource.word == "pods":
                self._numbers.pod_failed_open(INTERNAL_ERROR)
            self._numbers.review("error", "unknown", self.now() - began)
        return review_json(request.uid, AdmissionResponse(audit={"reason": INTERNAL_ERROR}))
