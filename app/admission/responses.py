"""What is answered to a review, and what is logged of it."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Final, NamedTuple

import orjson

from app.admission.core.mutate import FAILED_OPEN, PodVerdict
from app.admission.core.validate import Phase
from app.model.fields import Json
from app.model.review import AdmissionRequest

UNREADABLE_REVIEW: Final = "UnreadableReview"
NOT_A_POD: Final = {"reason": "NotAPod", "message": "the answer tells all about this review"}

_LONGEST_AUDITED: Final = 200  # characters


class Arrival(NamedTuple):
    """How a review came."""

    began: float  # when it was begun to be read
    phase: Phase = Phase.MUTATING
    traceparent: str = ""  # the trace that it belongs to, by W3C's header


def answer_of(response: Json, arrival: Arrival) -> Json:
    """Return the review that answers a call."""
    if arrival.traceparent:
        response.setdefault("auditAnnotations", {})["traceparent"] = arrival.traceparent
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}


def allowed_response(uid: str, reason: str = "") -> Json:
    """Return the response that lets an object pass as it is."""
    response: Json = {"uid": uid, "allowed": True}
    if reason:
        response["auditAnnotations"] = {"reason": reason}
    return response


def unreadable_response(uid: str, message: str) -> Json:
    """Return the response to what is no review, which says why it was let pass."""
    message = message[:_LONGEST_AUDITED]
    response = allowed_response(uid, UNREADABLE_REVIEW)
    response["auditAnnotations"]["message"] = message
    response["warnings"] = [f"unreadable review, admitted unchanged: {message}"]
    return response


def explained_unreadable(uid: str, message: str, arrival: Arrival) -> Json:
    """Return the answer to what is no review, with its explanation."""
    answer = answer_of(unreadable_response(uid, message), arrival)
    return {**answer, "explanation": {"reason": UNREADABLE_REVIEW, "message": message}}


def decoded(answer: Json) -> Json:
    """Return an answer with the operations of its patch instead of their base64."""
    response = answer["response"]
    if "patch" not in response:
        return answer
    patch = orjson.loads(b64decode(response["patch"]))
    return {**answer, "response": {**response, "patch": patch}}


def pod_response(uid: str, verdict: PodVerdict) -> Json:
    """Return the response about a pod; its patch was encoded when it was worked out."""
    response = allowed_response(uid)
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


def log_keys(request: AdmissionRequest, arrival: Arrival) -> Mapping[str, object]:
    """Return the keys of a log line about a review."""
    found = {
        "uid": request.uid,
        "resource": request.resource.word,
        "object": f"{request.namespace}/{request.name}",
    }
    return traced(found, arrival)


def pod_log_keys(
    request: AdmissionRequest, verdict: PodVerdict, arrival: Arrival
) -> Mapping[str, object]:
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
    return traced(found, arrival)


def traced(keys: Mapping[str, object], arrival: Arrival) -> Mapping[str, object]:
    """Return the keys of a log line, with the trace that a call belongs to."""
    return {**keys, "traceparent": arrival.traceparent} if arrival.traceparent else keys


def _generated_name(item: object) -> str:
    """Return how the name of a pod that cannot be read will begin; empty if that is unknown."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    prefix = metadata.get("generateName") if isinstance(metadata, dict) else None
    return f"{prefix}%" if prefix else ""
