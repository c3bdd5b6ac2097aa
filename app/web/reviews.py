"""Answers AdmissionReviews: gather, decide, answer.

Strategy: the bytes of a review come in, the bytes of an answer go out. An ordinary review is
answered from the snapshot alone; one that needs a look-up comes back as `Pending` and is finished
in a thread, within the time that the API server grants. Whatever goes wrong, the answer is a
review that lets a pod pass unchanged, with a reason that is counted and logged.
"""

from __future__ import annotations

import logging
import threading
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from app.core.admission.claims import Claims
from app.core.admission.mutate import PodRules, PodVerdict, admit_pod
from app.core.admission.overlap import SiblingsWanted, needs_siblings
from app.core.admission.validate import Phase, ValidationRules, VpaVerdict, review_vpa
from app.core.matching import MatchReason, Unknown
from app.model.errors import BadObject
from app.model.kinds import ObjectKey
from app.model.lookups import Found
from app.model.review import Answer, Request, read_review
from app.model.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.ports import Clock, Owners, Siblings

log = logging.getLogger(__name__)

_VPA_GROUP = "autoscaling.k8s.io"
_MOST_LOOKUPS = 10
# A pod that ends here was not decided about; every other reason is a decision.
FAILED_OPEN = frozenset(
    {
        MatchReason.OWNER_UNKNOWN.value,
        MatchReason.OWNERSHIP_CYCLE.value,
        "UnreadablePod",
        "UnknownVersion",
        "InternalError",
    }
)


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


@dataclass(frozen=True, slots=True)
class Pending:
    """A review that needs a look-up before it can be answered."""

    request: Request
    phase: Phase
    wants: Unknown | SiblingsWanted
    began: float


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a reviewer looks."""

    snapshot: Callable[[], Snapshot]
    owners: Owners
    siblings: Siblings
    clock: Clock


@dataclass(frozen=True, slots=True)
class ReviewRules:
    """What decides beside the cluster's objects."""

    pods: PodRules = field(default_factory=PodRules)
    vpas: ValidationRules = field(default_factory=ValidationRules)


class Reviewer:
    """Turns reviews into answers; safe to use from several threads."""

    def __init__(self, sources: Sources, rules: ReviewRules, numbers: Numbers) -> None:
        self._sources = sources
        self._rules = rules
        self._numbers = numbers
        self._turns = _Turns()

    def begin(self, body: bytes, phase: Phase = Phase.MUTATING) -> bytes | Pending:
        """Answer a review at once, or say what must be looked up first."""
        began = perf_counter()
        try:
            request = read_review(orjson.loads(body))
        except (orjson.JSONDecodeError, BadObject) as error:
            log.warning("review not readable", extra={"error": str(error)[:300]})
            self._numbers.review("error", "unknown", perf_counter() - began)
            return written("", Answer())
        try:
            return self._begin(request, phase, began)
        except Exception:
            log.exception("review failed", extra=_named(request))
            return self._broken(request, began)

    def finish(self, pending: Pending, deadline_seconds: float) -> bytes:
        """Answer a review that needs look-ups; may take as long as the deadline says."""
        try:
            if isinstance(pending.wants, Unknown):
                verdict = self.judge_pod(pending.request, deadline_seconds)
                return self._pod_answer(pending.request, verdict, pending.began)
            return self._vpa_beside_siblings(pending, pending.wants)
        except Exception:
            log.exception("review failed", extra=_named(pending.request))
            return self._broken(pending.request, pending.began)

    def _begin(self, request: Request, phase: Phase, began: float) -> bytes | Pending:
        group, _, word = request.resource
        if group == "" and word == "pods":
            if phase is Phase.VALIDATING:
                return written(request.uid, Answer())
            verdict = self._pod_verdict(request, {})
            if isinstance(verdict, Unknown):
                return Pending(request, phase, verdict, began)
            return self._pod_answer(request, verdict, began)
        if group == _VPA_GROUP and word == "verticalpodautoscalers":
            wants = needs_siblings(request, self._rules.vpas.disjointness)
            if wants is not None:
                return Pending(request, phase, wants, began)
            return self._vpa_answer(request, self._vpa_verdict(request, phase, ()), began)
        self._numbers.review("error", "unknown", perf_counter() - began)
        return written(request.uid, Answer())

    def _pod_verdict(
        self, request: Request, looked_up: Mapping[ObjectKey, Found]
    ) -> PodVerdict | Unknown:
        view = self._sources.snapshot().of(request.namespace)
        return admit_pod(request, view, looked_up, self._rules.pods)

    def judge_pod(self, request: Request, deadline_seconds: float) -> PodVerdict:
        """Decide about a pod with all look-ups that this needs."""
        until = perf_counter() + deadline_seconds
        looked_up: dict[ObjectKey, Found] = {}
        for _ in range(_MOST_LOOKUPS):
            verdict = self._pod_verdict(request, looked_up)
            if isinstance(verdict, PodVerdict):
                return verdict
            lookup = verdict.lookup
            looked_up[lookup.key] = self._sources.owners.find(lookup, until - perf_counter())
        return PodVerdict(MatchReason.OWNER_UNKNOWN, f"more than {_MOST_LOOKUPS} owners to look up")

    def _pod_answer(self, request: Request, verdict: PodVerdict, began: float) -> bytes:
        answer = Answer(patch=verdict.patch, audit=_pod_audit(verdict))
        is_applied = bool(verdict.patch)
        self._numbers.pod(applied=is_applied)
        if is_applied:
            log.info("pod sized", extra=_pod_log(request, verdict))
        elif verdict.reason in FAILED_OPEN:
            self._numbers.pod_failed_open(verdict.reason)
            log.warning("pod let pass unchanged", extra=_pod_log(request, verdict))
        else:
            self._numbers.pod_skipped(verdict.reason)
        body = written(request.uid, answer)
        self._numbers.review("applied" if is_applied else "skipped", "Pod", perf_counter() - began)
        return body

    def _vpa_beside_siblings(self, pending: Pending, wants: SiblingsWanted) -> bytes:
        request, phase, began = pending.request, pending.phase, pending.began
        turn = self._turns.of(wants) if wants.is_decisive else nullcontext(_Turn())
        with turn as current:
            if wants.is_decisive:
                stored = self._sources.siblings.of(wants.namespace)
            else:
                stored = tuple(self._sources.snapshot().of(wants.namespace).vpas.values())
            now = self._sources.clock.now()
            siblings = None if stored is None else (*stored, *current.claims.held(now))
            verdict = self._vpa_verdict(request, phase, siblings)
            if verdict.claim is not None:
                current.claims = current.claims.adding(verdict.claim, now)
        return self._vpa_answer(request, verdict, began)

    def _vpa_verdict(
        self, request: Request, phase: Phase, siblings: tuple[Any, ...] | None
    ) -> VpaVerdict:
        rules = self._rules
        return review_vpa(request, rules.pods.gates, siblings, rules.vpas, phase=phase)

    def _vpa_answer(self, request: Request, verdict: VpaVerdict, began: float) -> bytes:
        answer = verdict.answer(request)
        if not answer.allowed:
            self._numbers.vpa_refused(verdict.reason)
            message = answer.status["message"] if answer.status else ""
            log.info("VPA refused", extra=_named(request) | {"problems": message})
        self._numbers.review(
            "applied" if answer.patch else "skipped", "VPA", perf_counter() - began
        )
        return written(request.uid, answer)

    def _broken(self, request: Request, began: float) -> bytes:
        self._numbers.pod_failed_open("InternalError")
        self._numbers.review("error", "unknown", perf_counter() - began)
        return written(request.uid, Answer(audit={"reason": "InternalError"}))


class _Turn:
    """What one target's reviews share: what was let pass lately."""

    def __init__(self) -> None:
        self.claims = Claims()
        self.waiting = 0
        self.lock = threading.Lock()


class _Turns:
    """Lets reviews of VPAs for the same target go one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[tuple[str, str, str], _Turn] = {}

    @contextmanager
    def of(self, wants: SiblingsWanted) -> Iterator[_Turn]:
        """Wait for the turn of a target."""
        key = (wants.namespace, wants.kind, wants.name)
        with self._lock:
            if len(self._turns) > _MOST_IDLE_TURNS:
                self._turns = {key: turn for key, turn in self._turns.items() if turn.waiting}
            turn = self._turns.setdefault(key, _Turn())
            turn.waiting += 1
        try:
            with turn.lock:
                yield turn
        finally:
            with self._lock:
                turn.waiting -= 1


_MOST_IDLE_TURNS = 1000


def written(uid: str, answer: Answer) -> bytes:
    """Return an answer as the JSON of an AdmissionReview."""
    response: dict[str, Any] = {"uid": uid, "allowed": answer.allowed}
    if answer.status is not None:
        response["status"] = answer.status
    if answer.patch:
        response["patch"] = b64encode(orjson.dumps(answer.patch)).decode()
        response["patchType"] = "JSONPatch"
    if answer.audit:
        response["auditAnnotations"] = answer.audit
    if answer.warnings:
        response["warnings"] = answer.warnings
    return orjson.dumps(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
    )


def _pod_audit(verdict: PodVerdict) -> dict[str, str]:
    vpa = verdict.match.vpa if verdict.match else None
    if vpa is not None:
        return {"reason": verdict.reason, "vpa": vpa.name}
    if verdict.reason in FAILED_OPEN:
        return {"reason": verdict.reason, "message": verdict.message[:200]}
    return {"reason": verdict.reason}


def _named(request: Request) -> dict[str, object]:
    return {
        "uid": request.uid,
        "resource": request.resource.word,
        "object": f"{request.namespace}/{request.name}",
    }


def _pod_log(request: Request, verdict: PodVerdict) -> dict[str, object]:
    pod = verdict.pod
    name = (pod.name or f"{pod.generate_name}%") if pod else request.name
    found: dict[str, object] = {
        "namespace": request.namespace,
        "pod": name,
        "reason": verdict.reason,
        "why": verdict.message,
    }
    if verdict.patch:
        found["changes"] = {
            operation["path"]: operation["value"]
            for operation in verdict.patch
            if operation["path"].startswith("/spec/")
        }
    return found
