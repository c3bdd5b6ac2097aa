"""The webhook's application: AdmissionReviews over HTTP.

Strategy: FastAPI is the frame. The three review paths are ASGI endpoints that never raise, so
they are called before its middleware, which would take a fifth of the time of a review. An
endpoint reads the body within its limit, hands it to the reviewer and writes the answer; a server
that has the whole request already may ask for the answer at once. Only a review that needs a
look-up, or is so large that others would have to wait for it, leaves the event loop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from app.admission.core.validate import Phase
from app.admission.metrics import Step
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
_TEXT: Final = b"text/plain; charset=utf-8"
_ALLOW: Final = (b"allow", b"POST")
_CLOSE: Final = (b"connection", b"close")
_NOT_JSON: Final = "the content type must be application/json"
_TOO_LARGE: Final = "the payload is larger than 5 MiB"


class Webhook(FastAPI):
    """A FastAPI application with endpoints that stand before everything else."""

    def __init__(self, endpoints: Mapping[str, ReviewEndpoint], title: str) -> None:
        super().__init__(title=title, openapi_url=None, redirect_slashes=False)
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, a review first."""
        endpoint = self._endpoints.get(scope["path"]) if scope["type"] == "http" else None
        await (endpoint or super().__call__)(scope, receive, send)

    def at_once(self, scope: Mapping[str, Any], body: bytes, began: float, write: Write) -> None:
        """Answer a review that is there as a whole, unless this takes longer."""
        endpoint = self._endpoints.get(scope["path"])
        if endpoint is not None:
            endpoint.at_once(scope, body, began, write)


def webhook(reviewer: Reviewer) -> Webhook:
    """Return the application behind the HTTPS port."""
    mutate = ReviewEndpoint(reviewer, Phase.MUTATING)
    endpoints = {
        "/mutate": mutate,
        "/validate": ReviewEndpoint(reviewer, Phase.VALIDATING),
        "/": mutate,  # upstream's configuration names no path
    }
    return Webhook(endpoints, "Plumbline admission webhook")


class ReviewEndpoint:
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] != "POST":
            await _answer(send, 405, b"POST an AdmissionReview here\n", _TEXT, _ALLOW)
            return
        headers = dict(scope["headers"])
        began = self._reviewer.now()
        if not _is_json(headers):
            self._reviewer.turned_away(_NOT_JSON, began)
            await _answer(send, 415, _NOT_JSON.encode() + b"\n", _TEXT)
            return
        try:
            body = await _body(receive, headers)
        except _TooLarge:
            self._reviewer.turned_away(_TOO_LARGE, began)
            await _answer(send, 413, _TOO_LARGE.encode() + b"\n", _TEXT, _CLOSE)
        except _Gone:
            pass  # the client waits for no answer
        else:
            read = self._reviewer.now()
            answer = await self._reviewed(body, scope["query_string"])
            answered = self._reviewer.now()
            await _answer(send, 200, answer, _JSON)
            self._time(began, read, answered)

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


async def _answer(
    send: Send, status: int, body: bytes, content_type: bytes, *more: tuple[bytes, bytes]
) -> None:
    length = str(len(body)).encode()
    headers = [(b"content-type", content_type), (b"content-length", length), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _timeout_seconds(query: bytes) -> float:
    """Return how long the API server waits, from its `timeout=5s`."""
    found = _TIMEOUT.search(query)
    return min(float(found[1]), _MOST_SECONDS) if found else _DEFAULT_SECONDS
