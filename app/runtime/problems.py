"""What is answered when there is no answer: what is wrong, as JSON for machines and people.

Strategy: every refusal is an exception on its way through the endpoint and becomes one JSON object
of the same form, which names the object and the field that are meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

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


def described(description: str) -> dict[str, Any]:
    """Return how a page documents a refusal."""
    content = {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}
    return {"description": description, "content": content}


def tell_problems(app: FastAPI) -> None:
    """Let an application answer every refusal in the same form."""

    async def refused(_request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return error.response()

    async def invalid(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        return Refusal(422, f"{field}: {first['msg']}", field=field).response()

    async def unknown(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return Refusal(error.status_code, str(error.detail), headers=error.headers).response()

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, unknown)
