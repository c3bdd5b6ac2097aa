"""The webhook's application: AdmissionReviews over HTTP.

Strategy: each review path is a FastAPI operation, which reads the body within its limit, hands it
to the reviewer and answers. FastAPI's way to an operation takes several times as long as a review,
so a server that has the whole request already asks the operation for its answer at once; anything
not answered there goes through FastAPI. Only a review that needs a look-up, or is so much work
that others would have to wait for it, leaves the event loop, and waits for its turn in a lane.

A lane has some places in threads. Of these a namespace may take only a share, so that whatever
comes from one namespace, the next review of another one waits for few before it. A review leaves
its line when its client has gone or its time is over.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import orjson
from anyio import CancelScope, CapacityLimiter, create_task_group, move_on_after, to_thread
from fastapi import FastAPI, Request, Response
from starlette.types import Receive

from app.admission.api import ExplainOperation, declare_explain
from app.admission.core.incoming import effort
from app.admission.core.validate import Phase
from app.admission.metrics import Drop, Step
from app.admission.responses import Arrival
from app.admission.review_models import REVIEW_REQUEST, AdmissionReview
from app.admission.reviews import BegunReview, Reviewer
from app.model.fields import Json
from app.model.review import AdmissionRequest, read_review
from app.runtime.access import Guard
from app.runtime.http_requests import (
    MOST_BYTES,
    NOT_JSON,
    TOO_LARGE,
    ClientGone,
    TooLarge,
    is_json,
    read_body,
    seconds_to_answer,
    text_answer,
    traceparent,
)
from app.runtime.protocol import Write
from app.sizing.matching import LookupNeeded

T = TypeVar("T")

_AT_ONCE: Final = 64  # units of effort, some milliseconds
_LARGE_BYTES: Final = 128 * 1024  # which are not read on the event loop
_LOOKUPS: Final = 64  # reviews of pods that may wait for look-ups in threads
_VPAS: Final = 16  # reviews of VPAs that may wait for others of their namespace
_HEAD_BYTES: Final = 4096
_BEFORE_THE_OBJECT: Final = {
    "uid": re.compile(rb'"uid":("[\w-]{1,64}")', re.ASCII),
    "resource": re.compile(rb'"resource":({"group":"[\w.-]*","version":"\w*","resource":"\w*"})'),
    "namespace": re.compile(rb'"namespace":("[\w.-]{1,64}")', re.ASCII),
}
_DECLINED: Final = "declined"  # in the state of a scope

_TITLE: Final = "Plumbline admission webhook"
_ABOUT: Final = """\
API servers post AdmissionReviews to the HTTPS port (`--port`), and people post them to its
`/explain`; these pages, health and metrics are served on the second port (`--address`).
"""
_SUMMARIES: Final = {
    "/mutate": "Size a new pod, or write out the default update policy of a VPA",
    "/validate": "Check a VPA",
}
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "An AdmissionReview with its `response`",
        "model": AdmissionReview,
        "content": {"application/json": {}},
    },
    413: {"description": TOO_LARGE, "content": {"text/plain": {}}},
    415: {"description": NOT_JSON, "content": {"text/plain": {}}},
}


class Webhook(FastAPI):
    """The application behind the HTTPS port; its pages are served on the second port."""

    def __init__(self, reviewer: Reviewer, guard: Guard) -> None:
        super().__init__(title=_TITLE, openapi_url=None, redirect_slashes=False)
        mutate = ReviewOperation(reviewer, Phase.MUTATING)
        self._operations = {
            "/mutate": mutate,
            "/validate": ReviewOperation(reviewer, Phase.VALIDATING),
            "/": mutate,  # upstream's configuration names no path
        }
        for path, operation in self._operations.items():
            _declare(self, path, operation.answer)
        declare_explain(self, ExplainOperation(reviewer, guard).answer)
        self.exception_handler(405)(_other_method)

    def at_once(self, scope: Mapping[str, Any], body: bytes, began: float, write: Write) -> None:
        """Answer a review that is there as a whole, unless this takes longer."""
        operation = self._operations.get(scope["path"])
        if operation is not None:
            operation.at_once(scope, body, began, write)


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
    declare_explain(app, elsewhere)
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
        openapi_extra=REVIEW_REQUEST,
    )(answer)


async def _other_method(_request: Request, _error: Exception) -> Response:
    return text_answer(405, "POST an AdmissionReview here", {"allow": "POST"})


class Lane:
    """Places for one sort of reviews; belongs to one event loop."""

    def __init__(self, places: int, share: int) -> None:
        self._places = CapacityLimiter(places)
        self._share = share
        self._shares: dict[str, CapacityLimiter] = {}  # of namespaces that have any work

    async def run(self, namespace: str, work: Callable[[], T]) -> T:
        """Do some work in a thread, when it is its turn."""
        share = self._shares.get(namespace)
        if share is None:
            share = self._shares[namespace] = CapacityLimiter(self._share)
        me = object()
        try:
            await share.acquire_on_behalf_of(me)
            try:
                return await to_thread.run_sync(work, limiter=self._places)
            finally:
                share.release_on_behalf_of(me)
        finally:
            found = share.statistics()
            if not found.borrowed_tokens and not found.tasks_waiting:
                self._shares.pop(namespace, None)


async def while_wanted(
    receive: Receive, seconds: float, work: Callable[[], Awaitable[T]]
) -> T | Drop:
    """Return what comes of some work, or why nothing did; a thread at work is waited for."""
    found: list[T] = []
    drop = Drop.TIME_OVER

    async def watch(scope: CancelScope) -> None:
        nonlocal drop
        while (await receive())["type"] != "http.disconnect":
            pass
        drop = Drop.CLIENT_GONE
        scope.cancel()

    with move_on_after(max(seconds, 0.0)):
        async with create_task_group() as group:
            group.start_soon(watch, group.cancel_scope)
            found.append(await work())
            group.cancel_scope.cancel()
    return found[0] if found else drop


@dataclass(frozen=True, slots=True)
class Costly:
    """A review that is much work and was not begun; it is read again when it is its turn."""

    request: AdmissionRequest  # without its objects, which may take many times their bytes


class ReviewOperation:
    """Answers POSTed AdmissionReviews."""

    def __init__(self, reviewer: Reviewer, phase: Phase) -> None:
        self._reviewer = reviewer
        self._phase = phase
        self._time_read = reviewer.timer(Step.READ_REQUEST)
        self._time_write = reviewer.timer(Step.WRITE_RESPONSE)
        self._time_total = reviewer.timer(Step.TOTAL)
        self._lookups = Lane(_LOOKUPS, share=_LOOKUPS // 4)
        self._vpas = Lane(_VPAS, share=_VPAS // 4)
        # One after the other: threads share one core, and the event loop needs its turn as well.
        self._costly = Lane(1, share=1)
        # What a few MB of JSON grow to is bearable once, and kept until the answer is there.
        self._large = Lane(1, share=1)

    async def answer(self, request: Request) -> Response:
        """Answer an AdmissionReview; one that cannot be read or decided lets the object pass."""
        began = self._reviewer.now()
        headers = dict(request.scope["headers"])
        arrival = Arrival(began, self._phase, traceparent(headers))
        if not is_json(headers):
            self._reviewer.answer_unreadable(NOT_JSON, arrival)
            return text_answer(415, NOT_JSON)
        try:
            body = await read_body(request.receive, headers)
        except TooLarge:
            self._reviewer.refuse_large(MOST_BYTES, arrival)
            return text_answer(413, TOO_LARGE, {"connection": "close"})
        except ClientGone:
            return Response(status_code=499)  # goes nowhere
        read = self._reviewer.now()
        until = began + seconds_to_answer(request.scope["query_string"])
        found = await self._reviewed(request, body, arrival._replace(began=read), until)
        if isinstance(found, Drop):
            return Response(status_code=499)  # goes nowhere
        answered = self._reviewer.now()
        # Headers in the order in which the answer at once has them.
        response = Response(
            found, headers={"content-type": "application/json", "content-length": str(len(found))}
        )
        self._time(began, read, answered)
        return response

    def at_once(self, scope: Mapping[str, Any], body: bytes, began: float, write: Write) -> None:
        """Answer a request that is there as a whole, by `write`; nothing written means declined.

        What is much work or needs a look-up is declined: `answer` goes on where it can wait.
        """
        headers = dict(scope["headers"])
        if scope["method"] != "POST" or not is_json(headers):
            return
        read = self._reviewer.now()
        found = self._begun(body, Arrival(read, self._phase, traceparent(headers)))
        if isinstance(found, bytes):
            answered = self._reviewer.now()
            write(found)
            self._time(began, read, answered)
        else:
            scope["state"][_DECLINED] = found

    def _time(self, began: float, read: float, answered: float) -> None:
        now = self._reviewer.now()
        with suppress(Exception):  # what was answered stays answered
            self._time_read(read - began)
            self._time_write(now - answered)
            self._time_total(now - began)

    def _begun(self, body: bytes, arrival: Arrival) -> bytes | BegunReview | Costly:
        """Answer a review on the event loop, unless that would take long."""
        if len(body) > _LARGE_BYTES:
            return Costly(_head(body))
        request = self._reviewer.read(body, arrival)
        if isinstance(request, bytes):
            return request
        if effort(request, len(body)) > _AT_ONCE:
            return Costly(request._replace(new=None, old=None))
        return self._reviewer.begin(request, arrival)

    async def _reviewed(
        self, request: Request, body: bytes, arrival: Arrival, until: float
    ) -> bytes | Drop:
        declined: BegunReview | Costly | None = request.scope.get("state", {}).pop(_DECLINED, None)
        found = declined or self._begun(body, arrival)
        if isinstance(found, bytes):
            return found
        work = partial(self._in_turn, found, body, arrival, until)
        answer = await while_wanted(request.receive, until - self._reviewer.now(), work)
        if answer is Drop.TIME_OVER:
            return self._reviewer.answer_late(found.request, arrival)
        if isinstance(answer, Drop):
            self._reviewer.dropped(answer, found.request, arrival)
        return answer

    async def _in_turn(
        self, found: BegunReview | Costly, body: bytes, arrival: Arrival, until: float
    ) -> bytes:
        """Answer when it is the turn of a review."""
        begun: bytes | BegunReview | Costly = found
        if isinstance(begun, Costly):
            namespace = begun.request.namespace
            if len(body) > _LARGE_BYTES:
                return await self._large.run(
                    namespace, partial(self._finished, body, arrival, until)
                )
            begun = await self._costly.run(namespace, partial(self._begun_late, body, arrival))
        if isinstance(begun, bytes):
            return begun
        lane = self._lookups if isinstance(begun.wants, LookupNeeded) else self._vpas
        return await lane.run(begun.request.namespace, partial(self._reviewer.finish, begun, until))

    def _begun_late(self, body: bytes, arrival: Arrival) -> bytes | BegunReview:
        arrival = arrival._replace(began=self._reviewer.now())
        request = self._reviewer.read(body, arrival)
        return request if isinstance(request, bytes) else self._reviewer.begin(request, arrival)

    def _finished(self, body: bytes, arrival: Arrival, until: float) -> bytes:
        found = self._begun_late(body, arrival)
        return found if isinstance(found, bytes) else self._reviewer.finish(found, until)


def _head(body: bytes) -> AdmissionRequest:
    """Return what API servers write before the object of a review."""
    head = body[:_HEAD_BYTES]
    request: Json = {}
    for key, pattern in _BEFORE_THE_OBJECT.items():
        if found := pattern.search(head):
            request[key] = orjson.loads(found[1])
    return read_review({"request": request})
