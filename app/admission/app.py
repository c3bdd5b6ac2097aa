"""The webhook's application: AdmissionReviews over HTTP.

Strategy: each review path is a FastAPI operation, which reads the body within its limit, hands it
to the reviewer and answers. FastAPI's way to an operation takes several times as long as a review,
so a server that has the whole request already asks the operation for its answer at once; what that
leaves undone goes the way of FastAPI. Only a review that needs a look-up, or is so large that
others would have to wait for it, leaves the event loop.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.types import Receive

from app.admission.core.validate import Phase
from app.admission.metrics import Step
from app.admission.review_api import AdmissionReview
from app.admission.reviews import Pending, Reviewer
from app.runtime.protocol import Write

MOST_BYTES: Final = 5 * 1024 * 1024
_LONG_BYTES: Final = 32 * 1024  # a VPA of this size may hold thousands of flaws to find
_LARGE_BYTES: Final = 256 * 1024
_MOST_LONG: Final = 4  # at the same time, so that the loop gets its turn among them
_MOST_WAITING: Final = 64  # reviews that wait for look-ups in threads; others wait before that
_DEFAULT_SECONDS: Final = 10.0
_MOST_SECONDS: Final = 30.0
_RESERVE: Final = 0.8  # of the API server's time-out; the rest is for the way
_TIMEOUT: Final = re.compile(rb"(?:^|&)timeout=([0-9]{1,4}(?:\.[0-9]{1,9})?)s(?:&|$)")

_JSON: Final = b"application/json"
_NOT_JSON: Final = "the content type must be application/json"
_TOO_LARGE: Final = "the payload is larger than 5 MiB"

_TITLE: Final = "Plumbline admission webhook"
_ABOUT: Final = (
    "API servers post AdmissionReviews to the HTTPS port (`--port`); these pages, health and "
    "metrics are served on the second one (`--address`)."
)
_SUMMARIES: Final = {
    "/mutate": "Size a new pod, or write out the default update policy of a VPA",
    "/validate": "Check a VPA",
}
_REQUEST: Final = {
    "parameters": [
        {
            "name": "timeout",
            "in": "query",
            "description": "how long the caller waits: seconds with an s, at most 30s",
            "schema": {"type": "string", "default": "10s", "example": "5s"},
        }
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/AdmissionReview"}}
        },
    },
}
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "An AdmissionReview with its `response`",
        "model": AdmissionReview,
        "content": {"application/json": {}},
    },
    413: {"description": _TOO_LARGE, "content": {"text/plain": {}}},
    415: {"description": _NOT_JSON, "content": {"text/plain": {}}},
}


class Webhook(FastAPI):
    """The application; what it answers at once comes from the operations that it has anyway."""

    def __init__(self, operations: Mapping[str, ReviewOperation]) -> None:
        # Its pages are served on the second port.
        super().__init__(title=_TITLE, openapi_url=None, redirect_slashes=False)
        self._operations = operations
        for path, operation in operations.items():
            _declare(self, path, operation.answer)
        self.exception_handler(405)(_other_method)

    def at_once(self, scope: Mapping[str, Any], body: bytes, began: float, write: Write) -> None:
        """Answer a review that is there as a whole, unless this takes longer."""
        operation = self._operations.get(scope["path"])
        if operation is not None:
            operation.at_once(scope, body, began, write)


def webhook(reviewer: Reviewer) -> Webhook:
    """Return the application behind the HTTPS port."""
    mutate = ReviewOperation(reviewer, Phase.MUTATING)
    operations = {
        "/mutate": mutate,
        "/validate": ReviewOperation(reviewer, Phase.VALIDATING),
        "/": mutate,  # upstream's configuration names no path
    }
    return Webhook(operations)


def description() -> FastAPI:
    """Return an application that has the operations' description, and does not answer them."""

    async def elsewhere(_request: Request) -> Response:
        return Response(status_code=404)

    app = FastAPI(
        title=_TITLE,
        summary="Sizes new pods, and checks VerticalPodAutoscalers.",
        description=_ABOUT,
        version="1",
    )
    for path in _SUMMARIES:
        _declare(app, path, elsewhere)
    return app


def _declare(app: FastAPI, path: str, answer: Callable[[Request], Awaitable[Response]]) -> None:
    """Make an operation that takes and returns AdmissionReviews."""
    app.post(
        path,
        summary=_SUMMARIES.get(path, ""),
        operation_id=path.strip("/") or None,
        include_in_schema=path in _SUMMARIES,
        response_class=Response,
        responses=_RESPONSES,
        openapi_extra=_REQUEST,
    )(answer)


async def _other_method(_request: Request, _error: Exception) -> Response:
    return _text(405, "POST an AdmissionReview here", {"allow": "POST"})


class ReviewOperation:
    """Answers POSTed AdmissionReviews."""

    def __init__(self, reviewer: Reviewer, phase: Phase = Phase.MUTATING) -> None:
        self._reviewer = reviewer
        self._phase = phase
        self._time_read = reviewer.timer(Step.READ_REQUEST)
        self._time_write = reviewer.timer(Step.WRITE_RESPONSE)
        self._time_total = reviewer.timer(Step.TOTAL)
        self._waiting_ones = CapacityLimiter(_MOST_WAITING)
        self._long_ones = CapacityLimiter(_MOST_LONG)
        # One after the other: what a few MB of JSON grow to is bearable once.
        self._large_ones = CapacityLimiter(1)

    async def answer(self, request: Request) -> Response:
        """Answer an AdmissionReview; one that cannot be read or decided lets the object pass."""
        began = self._reviewer.now()
        headers = dict(request.scope["headers"])
        if not _is_json(headers):
            self._reviewer.answer_unreadable(_NOT_JSON, began)
            return _text(415, _NOT_JSON)
        try:
            body = await _body(request.receive, headers)
        except _TooLarge:
            self._reviewer.answer_unreadable(_TOO_LARGE, began)
            return _text(413, _TOO_LARGE, {"connection": "close"})
        except _Gone:
            return Response(status_code=499)  # goes nowhere
        read = self._reviewer.now()
        found = await self._reviewed(body, request.scope["query_string"])
        answered = self._reviewer.now()
        # Headers in the order in which the answer at once has them.
        response = Response(
            found, headers={"content-type": "application/json", "content-length": str(len(found))}
        )
        self._time(began, read, answered)
        return response

    def at_once(self, scope: Mapping[str, Any], body: bytes, began: float, write: Write) -> None:
        """Answer a request that is there as a whole, unless this takes longer."""
        if scope["method"] != "POST" or not _is_json(dict(scope["headers"])):
            return
        if len(body) > _LONG_BYTES:
            return
        read = self._reviewer.now()
        answer = self._reviewer.begin(body, self._phase)
        if not isinstance(answer, Pending):
            answered = self._reviewer.now()
            write(answer)
            self._time(began, read, answered)

    def _time(self, began: float, read: float, answered: float) -> None:
        now = self._reviewer.now()
        with suppress(Exception):  # what was answered stays answered
            self._time_read(read - began)
            self._time_write(now - answered)
            self._time_total(now - began)

    async def _reviewed(self, body: bytes, query: bytes) -> bytes:
        begin = partial(self._reviewer.begin, body, self._phase)
        if len(body) > _LONG_BYTES:
            found = await to_thread.run_sync(begin, limiter=self._limiter(len(body)))
        else:
            found = begin()
        if isinstance(found, Pending):
            deadline = _timeout_seconds(query) * _RESERVE
            finish = partial(self._reviewer.finish, found, deadline)
            found = await to_thread.run_sync(finish, limiter=self._limiter(len(body)))
        return found

    def _limiter(self, size_bytes: int) -> CapacityLimiter:
        """Pick the concurrency limiter for a review of this size."""
        if size_bytes > _LARGE_BYTES:
            return self._large_ones
        return self._long_ones if size_bytes > _LONG_BYTES else self._waiting_ones


def _is_json(headers: Mapping[bytes, bytes]) -> bool:
    found = headers.get(b"content-type", b"")
    return found == _JSON or found.partition(b";")[0].strip().lower() == _JSON


class _TooLarge(Exception):
    """There is more than a review can hold."""


class _Gone(Exception):
    """The client left before it had sent everything."""


async def _body(receive: Receive, headers: dict[bytes, bytes]) -> bytes:
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared[:20]) > MOST_BYTES:
        raise _TooLarge
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > MOST_BYTES:
            raise _TooLarge
        if not message.get("more_body"):
            return b"".join((*parts, part)) if parts else part
        parts.append(part)


def _text(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{sentence}\n", status, headers)


def _timeout_seconds(query: bytes) -> float:
    """Return how long the API server waits, from its `timeout=5s`."""
    found = _TIMEOUT.search(query)
    return min(float(found[1]), _MOST_SECONDS) if found else _DEFAULT_SECONDS
