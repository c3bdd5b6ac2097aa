"""The webhook's application: AdmissionReviews over HTTP.

Strategy: each review path is a FastAPI operation, which reads the body within its limit, hands it
to the reviewer and answers. FastAPI's way to an operation takes several times as long as a review,
so a server that has the whole request already asks the operation for its answer at once; anything
not answered there goes through FastAPI. Only a review that needs a look-up, or is so large that
others would have to wait for it, leaves the event loop.

The models describe an AdmissionReview for people who read the API. Reviews are not read with them:
what this service does not need may be anything, and a review that cannot be read is still answered
with one that lets the object pass.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel
from starlette.types import Receive

from app.admission.core.validate import Phase
from app.admission.metrics import Step
from app.admission.reviews import Pending, Reviewer
from app.runtime.protocol import Write

MOST_BYTES: Final = 5 * 1024 * 1024
_LONG_BYTES: Final = 32 * 1024  # a VPA of this size may hold thousands of flaws to find
_LARGE_BYTES: Final = 256 * 1024
_MOST_LONG_REVIEWS: Final = 4  # at the same time, so that the loop gets its turn among them
_MOST_WAITING_REVIEWS: Final = 64  # in threads, for look-ups; others wait before that
_DEFAULT_SECONDS: Final = 10.0
_MOST_SECONDS: Final = 30.0
_RESERVE: Final = 0.8  # of the API server's time-out; the rest is for the way
_TIMEOUT: Final = re.compile(rb"(?:^|&)timeout=([0-9]{1,4}(?:\.[0-9]{1,9})?)s(?:&|$)")

_JSON: Final = b"application/json"
_NOT_JSON: Final = "the content type must be application/json"
_TOO_LARGE: Final = "the payload is larger than 5 MiB"

API_VERSION: Final = "admission.k8s.io/v1"

_EXAMPLE: Final[JsonValue] = {
    "apiVersion": API_VERSION,
    "kind": "AdmissionReview",
    "request": {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "shop",
        "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}},
    },
}


class _Wire(BaseModel):
    model_config = ConfigDict(extra="allow", alias_generator=to_camel)


class GroupVersionKind(_Wire):
    """What kind of object is reviewed."""

    group: str = ""
    version: str
    kind: str


class GroupVersionResource(_Wire):
    """Which resource was called."""

    group: str = ""
    version: str
    resource: str = Field(description="`pods` or `verticalpodautoscalers`; others pass unchanged")


class ReviewRequest(_Wire):
    """What the API server asks."""

    uid: str = Field(description="comes back in the answer")
    kind: GroupVersionKind
    resource: GroupVersionResource
    request_kind: GroupVersionKind | None = None
    sub_resource: str = ""
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    namespace: str = ""
    name: str = ""
    dry_run: bool = False
    object: dict[str, Any] | None = Field(None, description="as it shall be")
    old_object: dict[str, Any] | None = Field(None, description="as it is")


class ReviewResponse(_Wire):
    """The answer."""

    uid: str
    allowed: bool = Field(description="false for a VPA that is refused; pods are always allowed")
    status: dict[str, Any] | None = Field(None, description="why it is refused: a metav1 Status")
    patch: str | None = Field(None, description="a JSON patch (RFC 6902), base64")
    patch_type: Literal["JSONPatch"] | None = None
    audit_annotations: dict[str, str] | None = Field(
        None, description="the reason, and the VPA; the API server's audit log has them"
    )
    warnings: list[str] | None = Field(None, description="shown by kubectl")


class AdmissionReview(_Wire):
    """A question with its `request`, an answer with its `response`."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    api_version: Literal["admission.k8s.io/v1"] = API_VERSION
    kind: Literal["AdmissionReview"] = "AdmissionReview"
    request: ReviewRequest | None = None
    response: ReviewResponse | None = None


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
    """The application behind the HTTPS port; its pages are served on the second port."""

    def __init__(self, reviewer: Reviewer) -> None:
        super().__init__(title=_TITLE, openapi_url=None, redirect_slashes=False)
        mutate = ReviewOperation(reviewer, Phase.MUTATING)
        self._operations = {
            "/mutate": mutate,
            "/validate": ReviewOperation(reviewer, Phase.VALIDATING),
            "/": mutate,  # upstream's configuration names no path
        }
        for path, operation in self._operations.items():
            _declare(self, path, operation.answer)
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

    def __init__(self, reviewer: Reviewer, phase: Phase) -> None:
        self._reviewer = reviewer
        self._phase = phase
        self._time_read = reviewer.timer(Step.READ_REQUEST)
        self._time_write = reviewer.timer(Step.WRITE_RESPONSE)
        self._time_total = reviewer.timer(Step.TOTAL)
        self._lookup_limiter = CapacityLimiter(_MOST_WAITING_REVIEWS)
        self._long_limiter = CapacityLimiter(_MOST_LONG_REVIEWS)
        # One after the other: what a few MB of JSON grow to is bearable once.
        self._large_limiter = CapacityLimiter(1)

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
        found = await self._reviewed(body, request.scope["query_string"], began)
        answered = self._reviewer.now()
        # Headers in the order in which the answer at once has them.
        response = Response(
            found, headers={"content-type": "application/json", "content-length": str(len(found))}
        )
        self._time(began, read, answered)
        return response

    def at_once(self, scope: Mapping[str, Any], body: bytes, began: float, write: Write) -> None:
        """Answer a request that is there as a whole, by `write`; nothing written means declined.

        What needs a look-up is declined: `answer` begins again where it can wait.
        """
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

    async def _reviewed(self, body: bytes, query: bytes, began: float) -> bytes:
        begin = partial(self._reviewer.begin, body, self._phase)
        if len(body) > _LONG_BYTES:
            found = await to_thread.run_sync(begin, limiter=self._limiter(len(body)))
        else:
            found = begin()
        if isinstance(found, Pending):
            waited = found.began - began  # for its turn, while the API server's time ran
            deadline = _timeout_seconds(query) * _RESERVE - waited
            finish = partial(self._reviewer.finish, found, deadline)
            found = await to_thread.run_sync(finish, limiter=self._limiter(len(body)))
        return found

    def _limiter(self, size_bytes: int) -> CapacityLimiter:
        """Pick the concurrency limiter for a review of this size."""
        if size_bytes > _LARGE_BYTES:
            return self._large_limiter
        return self._long_limiter if size_bytes > _LONG_BYTES else self._lookup_limiter


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
