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


@pytest.mark.parametrize(
    ("header", "details", "expected"),
    [
        pytest.param("7", {}, 7, id="header"),
        pytest.param("7", {"retryAfterSeconds": 1}, 7, id="header before body"),
        pytest.param("", {"retryAfterSeconds": 1}, 1, id="body"),
        pytest.param("", {}, None, id="neither"),
        pytest.param("0", {}, None, id="no time"),
        pytest.param("inf", {}, None, id="for ever"),
        pytest.param("Wed, 21 Oct 2026 07:28:00 GMT", {}, None, id="a date"),
        pytest.param("", {"retryAfterSeconds": []}, None, id="wrong type"),
    ],
)
def test_retry_after(header: str, details: dict[str, object], expected: float | None) -> None:
    """The time to wait is taken from where it is told, and only if it makes sense."""
    error = refusal("GET /x", 429, orjson.dumps({"details": details}), header)

    assert error.retry_after_seconds == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"no healthy upstream\n", "no healthy upstream", id="a proxy's text"),
        pytest.param(b"\xff\xfe", "\ufffd\ufffd", id="no text at all"),
        pytest.param(b"[1]", "[1]", id="no object"),
        pytest.param(b'{"message": 5, "details": []}', "HTTP status 503", id="wrong types"),
        pytest.param(b'{"reason": "Full"}', "Full", id="a reason alone"),
        pytest.param(b"x" * 5000, "x" * 300, id="a long page"),
    ],
)
def test_odd_bodies(body: bytes, message: str) -> None:
    """Whatever stands in the way of the server still gives a sentence."""
    assert refusal("GET /x", 503, body).message == f"GET /x: {message}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param({"code": 410, "reason": "Expired"}, Gone, id="expired"),
        pytest.param({"code": 500, "reason": "Expired"}, Gone, id="the reason counts"),
        pytest.param({"code": 500, "reason": "InternalError"}, Unavailable, id="trouble"),
        pytest.param({"code": "x"}, Unavailable, id="no code"),
    ],
)
def test_watch_errors(body: dict[str, object], expected: type[ClusterError]) -> None:
    """An error event carries its code inside."""
    assert type(translate("watch", 0, body)) is expected
