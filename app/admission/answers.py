"""A decision as JSON for the API server and its audit log, and as the keys of a log line."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

import orjson

from app.admission.core.mutate import UNKNOWN_VERSION, UNREADABLE, PodVerdict
from app.model.review import AdmissionRequest, AdmissionResponse
from app.sizing.matching import MatchReason

INTERNAL_ERROR: Final = "InternalError"
# A pod that ends here was not decided about; every other reason is a decision.
FAILED_OPEN: Final = frozenset(
    {
        MatchReason.OWNER_UNKNOWN.value,
        MatchReason.OWNERSHIP_CYCLE.value,
        UNREADABLE,
        UNKNOWN_VERSION,
        INTERNAL_ERROR,
    }
)
_LONGEST_AUDITED: Final = 200  # characters


def review_json(uid: str, answer: AdmissionResponse) -> bytes:
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
    return _enveloped(response)


def pod_review_json(uid: str, verdict: PodVerdict) -> bytes:
    """Return the answer about a pod; its patch was written when it was worked out."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if verdict.sizes is not None:
        response["patch"] = verdict.sizes.encoded
        response["patchType"] = "JSONPatch"
    response["auditAnnotations"] = pod_audit(verdict)
    return _enveloped(response)


def _enveloped(response: dict[str, Any]) -> bytes:
    return orjson.dumps(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
    )


def pod_audit(verdict: PodVerdict) -> dict[str, str]:
    """Return what the API server's audit log is to hold about a pod."""
    vpa = verdict.match.vpa if verdict.match else None
    if vpa is not None:
        return {"reason": verdict.reason, "vpa": vpa.name}
    if verdict.reason in FAILED_OPEN:
        return {"reason": verdict.reason, "message": verdict.message[:_LONGEST_AUDITED]}
    return {"reason": verdict.reason}


def log_keys(request: AdmissionRequest) -> dict[str, object]:
    """Return the keys of a log line about any review."""
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
        "pod": incoming.title if incoming else request.name,
        "reason": verdict.reason,
        "why": verdict.message,
    }
    if sizes is not None:
        found["changes"] = sizes.changes
    return found
