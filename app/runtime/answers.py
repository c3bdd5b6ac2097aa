"""How questions over HTTP are answered: in threads of their own, or with what is wrong as JSON.

Strategy: answers that take their time have their threads, so that probes never wait for one of
them. Every refusal is an exception on its way through the endpoint and becomes one JSON object of
the same form, which names the object and the field that are meant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, TypeVar

import orjson
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from app.model.text import nearest
from app.ports import LimitReached
from app.runtime.bounds import PortLimit

_MOST_WAITING: Final = 100
_LATER: Final = {"retry-after": "1"}

_Answer = TypeVar("_Answer")


class AnswerThreads:
    """Hands questions to a few threads of their own, in which they wait for one another."""

    def __init__(self, count: int, reached: LimitReached) -> None:
        self._reached = reached
        self._limiter = CapacityLimiter(count)
        self._most = count + _MOST_WAITING
        self._asked = 0  # being answered, or waiting

    async def answer(self, ask: Callable[[], _Answer]) -> _Answer:
        """Return the answer to a question.

        Raises:
            Refusal: too many wait already, or what the question raises.
        """
        if self._asked >= self._most:
            self._reached(PortLimit.WAITING_QUESTIONS, most=_MOST_WAITING)
            raise Refusal(503, "too many questions at once", headers=_LATER)
        self._asked += 1
        try:
            return await to_thread.run_sync(ask, limiter=self._limiter)
        finally:
            self._asked -= 1


class SharedPage:
    """A page that is the same for all, made once for those who ask while it is being made."""

    def __init__(self, page: Callable[[], bytes]) -> None:
        self._page = page
        self._limiter = CapacityLimiter(1)
        self._under_way: asyncio.Task[bytes] | None = None

    async def get(self) -> bytes:
        """Return it."""
        if self._under_way is None:
            self._under_way = asyncio.ensure_future(
                to_thread.run_sync(self._page, limiter=self._limiter)
            )
            self._under_way.add_done_callback(self._forget)
        return await asyncio.shield(self._under_way)

    def _forget(self, _done: asyncio.Task[bytes]) -> None:
        self._under_way = None


MEDIA_TYPE: Final = "application/problem+json"


class Problem(BaseModel):
    """Why there is no answer."""

    model_config = ConfigDict(extra="forbid")

    type: str = "about:blank"
    title: str = Field(description="the status in words")
    status: int = Field(description="the HTTP status")
    detail: str = Field(description="a sentence that says what is wrong")
    object: str = Field("", description="what is meant, as `Kind namespace/name`; may be empty")
    field: str = Field("", description="the part of the request that is wrong; may be empty")


class Refusal(Exception):
    """There is no answer."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        subject: str = "",
        field: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.subject = subject  # the object that is meant
        self.field = field
        self.headers = headers

    def response(self) -> Response:
        """Return what is sent."""
        found = Problem(
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=str(self),
            object=self.subject,
            field=self.field,
        )
        body = orjson.dumps(found.model_dump())
        headers = {"cache-control": "no-store", **(self.headers or {})}
        return Response(body, self.status, headers, MEDIA_TYPE)


_WANTED: Final = {
    "bool_parsing": "true or false",
    "int_parsing": "a whole number",
    "greater_than_equal": "a number of at least {ge}",
    "less_than_equal": "a number of at most {le}",
    "string_too_long": "a text of at most {max_length} characters",
    "string_pattern_mismatch": "a name of Kubernetes: small letters, digits, - and perhaps .",
}


def _sentence(name: str, error: Mapping[str, Any]) -> str:
    """Say which parameter is wrong, and what it takes."""
    wanted = _WANTED.get(error["type"])
    if wanted is None:
        return f"{name}: {error['msg']}"
    return f'{name} takes {wanted.format(**error.get("ctx", {}))}, not "{error["input"]}"'


def described(description: str) -> dict[str, Any]:
    """Return how a page documents a refusal."""
    content = {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}
    return {"description": description, "content": content}


async def known_parameters(request: Request) -> None:
    """Refuse a question with a parameter that its operation does not have: it is a typing error.

    Raises:
        Refusal: there is one.
    """
    route = request.scope["route"]
    if route.include_in_schema:  # what is not answers that there is no such path
        check_parameters(request, [field.alias for field in route.dependant.query_params])


def check_parameters(request: Request, known: Sequence[str]) -> None:
    """Refuse a question with other parameters than these.

    Raises:
        Refusal: the first one, with those that are known.
    """
    for name in request.query_params:
        if name not in known:
            there_are = f"there are {', '.join(known)}" if known else "there are none"
            told = f'there is no parameter "{name}", {there_are}{nearest(name, known)}'
            raise Refusal(422, told, field=f"query.{name}")


def one_of_these(name: str, text: str, known: Iterable[str]) -> None:
    """Refuse a parameter whose value is none of its words; empty is none given.

    Raises:
        Refusal: it is not.
    """
    words = list(known)
    if text and text not in words:
        told = f'{name} is one of {", ".join(words)}, not "{text}"{nearest(text, words)}'
        raise Refusal(422, told, field=f"query.{name}")


def tell_problems(app: FastAPI) -> None:
    """Let an application answer every refusal in the same form."""

    async def refused(_request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return error.response()

    async def invalid(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        return Refusal(422, _sentence(str(first["loc"][-1]), first), field=field).response()

    async def unknown(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return Refusal(error.status_code, str(error.detail), headers=error.headers).response()

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, unknown)
