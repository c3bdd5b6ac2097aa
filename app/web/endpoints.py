"""The webhook's HTTP contract.

Strategy: plain ASGI, for this is the hot path: read the body within its limit, hand it to the
reviewer, write the answer. Only a review that needs a look-up leaves the event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from fastapi.concurrency import run_in_threadpool

from app.core.admission.validate import Phase
from app.web.reviews import Pending, Reviewer

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

MOST_BYTES = 5 * 1024 * 1024
_JSON = b"application/json"
_DEFAULT_SECONDS = 10.0
_RESERVE = 0.8  # of the API server's patience; the rest is for the way


class ReviewEndpoint:
    """Answers POSTed AdmissionReviews."""

    def __init__(self, reviewer: Reviewer, phase: Phase = Phase.MUTATING) -> None:
        self._reviewer = reviewer
        self._phase = phase

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] != "POST":
            await _answer(send, 405, b"POST an AdmissionReview here\n", _TEXT)
            return
        headers = dict(scope["headers"])
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _JSON:
            await _answer(send, 415, b"the content type must be application/json\n", _TEXT)
            return
        body = await _body(receive, headers)
        if body is None:
            await _answer(send, 413, b"the payload is larger than 5 MiB\n", _TEXT)
            return
        found = self._reviewer.begin(body, self._phase)
        if isinstance(found, Pending):
            deadline = _seconds(scope["query_string"]) * _RESERVE
            found = await run_in_threadpool(self._reviewer.finish, found, deadline)
        await _answer(send, 200, found, _JSON)


_TEXT = b"text/plain; charset=utf-8"


async def _body(receive: Receive, headers: dict[bytes, bytes]) -> bytes | None:
    """Return the whole body, None if it is too large."""
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > MOST_BYTES:
        return None
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return body if len(body) <= MOST_BYTES else None
    parts, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BYTES:
            return None
    return b"".join(parts)


async def _answer(send: Send, status: int, body: bytes, content_type: bytes) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", content_type),
                (b"content-length", str(len(body)).encode()),
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})


def _seconds(query: bytes) -> float:
    """Return how long the API server waits, from its `timeout=5s`."""
    text = parse_qs(query.decode("latin-1")).get("timeout", [""])[0]
    try:
        return min(max(float(text.removesuffix("s")), 0.1), 30.0)
    except ValueError:
        return _DEFAULT_SECONDS
