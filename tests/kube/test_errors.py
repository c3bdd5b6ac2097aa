"""Refusals become errors that say what to do."""

from __future__ import annotations

import orjson
import pytest

from app.kube.transport import refusal, translate
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
from tests.cases import cases

KINDS: dict[type[ClusterError], tuple[int, ...]] = {
    Unavailable: (301, 408, 500, 503, 504),
    Invalid: (400, 405, 406, 413, 415, 422),
    Refused: (401, 403),
    NotFound: (404,),
    Conflict: (409,),
    Gone: (410,),
    TooMany: (429,),
}


@pytest.mark.parametrize(
    ("status", "expected"), [(status, kind) for kind in KINDS for status in KINDS[kind]]
)
def test_status(status: int, expected: type[ClusterError]) -> None:
    """The status decides what kind of error it is."""
    error = refusal("GET /x", status, b"")

    assert (type(error), error.status) == (expected, status)
    assert error.message == f"GET /x: HTTP status {status}"


def test_everything_is_kept() -> None:
    """Reason, causes and the time to wait reach the code that decides."""
    body = {
        "message": 'pods "web-0" is forbidden: node didn\'t have enough allocatable resources',
        "reason": "Forbidden",
        "details": {
            "retryAfterSeconds": 10,
            "causes": [{"reason": "NodeCapacity", "message": "cpu, requested: 16050"}, "odd"],
        },
    }

    error = refusal("PATCH /pods/web-0/resize", 403, orjson.dumps(body))

    assert str(error).startswith('PATCH /pods/web-0/resize: pods "web-0" is forbidden')
    assert (error.reason, error.causes, error.retry_after_seconds) == (
        "Forbidden",
        (("NodeCapacity", "cpu, requested: 16050"),),
        10,
    )


@cases(
    "header details expected",
    {
        "header": ("7", {}, 7),
        "header before body": ("7", {"retryAfterSeconds": 1}, 7),
        "body": ("", {"retryAfterSeconds": 1}, 1),
        "neither": ("", {}, None),
        "no time": ("0", {}, None),
        "for ever": ("inf", {}, None),
        "a date": ("Wed, 21 Oct 2026 07:28:00 GMT", {}, None),
        "wrong type": ("", {"retryAfterSeconds": []}, None),
    },
)
def test_retry_after(header: str, details: dict[str, object], expected: float | None) -> None:
    """The time to wait is taken from where it is told, and only if it makes sense."""
    error = refusal("GET /x", 429, orjson.dumps({"details": details}), header)

    assert error.retry_after_seconds == expected


@cases(
    "body message",
    {
        "a proxy's text": (b"no healthy upstream\n", "no healthy upstream"),
        "no text at all": (b"\xff\xfe", "\ufffd\ufffd"),
        "no object": (b"[1]", "[1]"),
        "wrong types": (b'{"message": 5, "details": []}', "HTTP status 503"),
        "a reason alone": (b'{"reason": "Full"}', "Full"),
        "a long page": (b"x" * 5000, "x" * 300),
    },
)
def test_odd_bodies(body: bytes, message: str) -> None:
    """Whatever stands in the way of the server still gives a sentence."""
    assert refusal("GET /x", 503, body).message == f"GET /x: {message}"


@cases(
    "body expected",
    {
        "expired": ({"code": 410, "reason": "Expired"}, Gone),
        "the reason counts": ({"code": 500, "reason": "Expired"}, Gone),
        "trouble": ({"code": 500, "reason": "InternalError"}, Unavailable),
        "no code": ({"code": "x"}, Unavailable),
    },
)
def test_watch_errors(body: dict[str, object], expected: type[ClusterError]) -> None:
    """An error event carries its code inside."""
    assert type(translate("watch", 0, body)) is expected
