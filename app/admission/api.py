"""Answers over HTTP what would become of a review at this moment, and why.

Strategy: the question goes to the reviewer that answers API servers, so the answer is theirs; but
nothing is counted or logged, and no VPA claims anything. It is asked for at the port of reviews:
with `--workers` only the processes behind that port know the cluster, and because it speaks TLS a
token may be sent to it from anywhere. Reviews lose nothing but processor time: one question after
the other is read and answered in a thread of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request, Response, Security
from fastapi.security import HTTPBearer

from app.admission.responses import Arrival, decoded, explained_unreadable
from app.admission.review_models import REVIEW_REQUEST, ExplainedReview
from app.admission.reviews import Reviewer
from app.model.errors import BadObject
from app.model.fields import Json
from app.model.review import read_review, uid_of
from app.ports import PODS
from app.runtime.access import Caller, Guard
from app.runtime.answers import AnswerThreads, Refusal, check_parameters, described
from app.runtime.http_requests import (
    NOT_JSON,
    TOO_LARGE,
    ClientGone,
    TooLarge,
    is_json,
    read_body,
    seconds_to_answer,
    traceparent,
)

_LATER: Final = {"retry-after": "1"}
_NAMESPACE: Final = "body.request.namespace"
_ABOUT: Final = """\
The answer that `/mutate` would give now, its patch decoded, with the reasons: which VPA and why,
and for each container and resource what was recommended, what capped it and what is written.
Nothing is counted, logged or stored. Behind any address but loopback a bearer token is needed that
the API server knows, for itself or for the audience `plumbline`, and the rights to `get` the
VerticalPodAutoscalers and to `list` the pods of the review's namespace.
"""
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "What would be answered, and why",
        "model": ExplainedReview,
        "content": {"application/json": {}},
    },
    401: described("No token, or none that the API server knows"),
    403: described(
        "The token's owner may not get the VPAs, or not list the pods, of this namespace"
    ),
    413: described(TOO_LARGE),
    415: described(NOT_JSON),
    422: described("A parameter that does not exist; `timeout` is the only one"),
    503: described("Not now: too many questions, no time left, or access cannot be checked"),
}
_BEARER: Final = HTTPBearer(auto_error=False, description="of a user or a service account")


def declare_explain(app: FastAPI, answer: Callable[[Request], Awaitable[Response]]) -> None:
    """Make the operation that explains a review."""
    app.post(
        "/explain",
        summary="Explain what would become of a pod or a VPA",
        description=_ABOUT,
        operation_id="explain",
        response_class=Response,
        responses=_RESPONSES,
        dependencies=[Security(_BEARER)],  # for the documentation; the guard reads it
        openapi_extra=REVIEW_REQUEST,
    )(answer)


class ExplainOperation:
    """Explains POSTed AdmissionReviews to those whom the guard admits."""

    def __init__(self, reviewer: Reviewer, guard: Guard) -> None:
        self._reviewer = reviewer
        self._guard = guard
        self._threads = AnswerThreads(1, reviewer.reached)

    async def answer(self, request: Request) -> Response:
        """Answer a question."""
        headers = dict(request.scope["headers"])
        began = self._reviewer.now()
        until = began + seconds_to_answer(request.scope["query_string"])
        if not is_json(headers):
            return Refusal(415, NOT_JSON, field="header.content-type").response()
        try:
            check_parameters(request, ("timeout",))
            body = await read_body(request.receive, headers)
            arrival = Arrival(began, traceparent=traceparent(headers))
            ask = partial(self._explained, Caller.of(request), body, arrival, until)
            found = await self._threads.answer(ask)
        except TooLarge:
            return Refusal(413, TOO_LARGE, headers={"connection": "close"}).response()
        except ClientGone:
            return Response(status_code=499)  # goes nowhere
        except Refusal as refusal:
            return refusal.response()
        return Response(
            orjson.dumps(found),
            headers={"cache-control": "no-store"},
            media_type="application/json",
        )

    def _explained(self, caller: Caller, body: bytes, arrival: Arrival, until: float) -> Json:
        self._guard.identify(caller)
        if self._reviewer.now() >= until:
            raise Refusal(503, "other questions took all the time", headers=_LATER)
        review: object = None
        try:
            review = orjson.loads(body)
            request = read_review(review)
        except (orjson.JSONDecodeError, BadObject) as error:
            return explained_unreadable(uid_of(review), str(error), arrival)
        verb = "get" if request.namespace else "list"
        self._guard.admit(caller, verb, request.namespace, field=_NAMESPACE)
        self._guard.admit(caller, "list", request.namespace, resource=PODS, field=_NAMESPACE)
        return decoded(self._reviewer.explain(request, arrival, until))
