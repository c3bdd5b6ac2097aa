"""What an API server's refusal means, in the errors of this house."""

from __future__ import annotations

from typing import Any

import orjson

from app.model.errors import (
    ClusterError,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    Refused,
    TooMany,
    Unavailable,
)

_LONGEST_TEXT = 300

_BY_STATUS: dict[int, type[ClusterError]] = {
    400: Invalid,
    401: Refused,
    403: Refused,
    404: NotFound,
    405: Invalid,
    406: Invalid,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: TooMany,
}
# A watch may report these with a status code of its own choice.
_BY_REASON: dict[str, type[ClusterError]] = {"Expired": Gone, "Gone": Gone}


def refusal(call: str, status: int, body: bytes, retry_after: str = "") -> ClusterError:
    """Return the error for an HTTP answer that is no success; `call` names what was asked."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        text = body.decode("utf-8", "replace").strip()[:_LONGEST_TEXT]
        found = {"message": text or f"HTTP status {status}"}
    return translate(call, status, found, retry_after)


def translate(call: str, status: int, body: dict[str, Any], retry_after: str = "") -> ClusterError:
    """Return the error that a Status object tells of; a status of 0 takes its own code."""
    code = status or _whole(body.get("code"))
    reason = _text(body.get("reason"))
    details = body.get("details")
    details = details if isinstance(details, dict) else {}
    kind = _BY_REASON.get(reason) or _BY_STATUS.get(code, Unavailable)
    message = _text(body.get("message")) or reason or f"HTTP status {code}"
    return kind(
        f"{call}: {message}",
        status=code,
        reason=reason,
        causes=_causes(details.get("causes")),
        retry_after_seconds=_seconds(retry_after) or _seconds(details.get("retryAfterSeconds")),
    )


def _causes(found: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(found, list):
        return ()
    return tuple(
        (_text(cause.get("reason")), _text(cause.get("message")))
        for cause in found
        if isinstance(cause, dict)
    )


def _seconds(found: object) -> float | None:
    """Read seconds; the date form of Retry-After is not used by API servers."""
    try:
        seconds = float(found) if isinstance(found, (str, int, float)) else 0.0
    except ValueError:
        return None
    return seconds if 0 < seconds < float("inf") else None


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""


def _whole(found: object) -> int:
    return found if isinstance(found, int) else 0
