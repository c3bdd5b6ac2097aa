"""What an HTTP request from an API server says besides the object that it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from fastapi import Response
from fastapi.responses import PlainTextResponse
from starlette.types import Receive

MOST_BYTES: Final = 5 * 1024 * 1024
NOT_JSON: Final = "the content type must be application/json"
TOO_LARGE: Final = "the payload is larger than 5 MiB"

_JSON: Final = b"application/json"
_DEFAULT_SECONDS: Final = 10.0
_MOST_SECONDS: Final = 30.0
_RESERVE: Final = 0.8  # of the API server's time-out; the rest is for the way
_TIMEOUT: Final = re.compile(rb"(?:^|&)timeout=([0-9]{1,4}(?:\.[0-9]{1,9})?)s(?:&|$)")

# W3C Trace Context: later versions may say more after what the first one says.
_IDS: Final = rb"(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_TRACEPARENT: Final = re.compile(rb"00-%b|(?!00|ff)[0-9a-f]{2}-%b(?:-.*)?" % (_IDS, _IDS))
_TRACEPARENT_BYTES: Final = 55


class TooLarge(Exception):
    """There is more than a review can hold."""


class ClientGone(Exception):
    """The client left before it had sent everything."""


def is_json(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a body says that it is JSON."""
    found = headers.get(b"content-type", b"")
    return found == _JSON or found.partition(b";")[0].strip().lower() == _JSON


async def read_body(receive: Receive, headers: Mapping[bytes, bytes]) -> bytes:
    """Return the whole body.

    Raises:
        TooLarge: there is more than a review can hold.
        ClientGone: the client left before it had sent everything.
    """
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared[:20]) > MOST_BYTES:
        raise TooLarge
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > MOST_BYTES:
            raise TooLarge
        if not message.get("more_body"):
            return b"".join((*parts, part)) if parts else part
        parts.append(part)


def seconds_to_answer(query: bytes) -> float:
    """Return the part of the caller's `timeout=5s` in which an answer has to be there."""
    found = _TIMEOUT.search(query)
    seconds = min(float(found[1]), _MOST_SECONDS) if found else _DEFAULT_SECONDS
    return seconds * _RESERVE


def traceparent(headers: Mapping[bytes, bytes]) -> str:
    """Return the trace that a request belongs to; empty if it names none that is valid."""
    found = headers.get(b"traceparent", b"")
    is_valid = found and _TRACEPARENT.fullmatch(found)
    return found[:_TRACEPARENT_BYTES].decode() if is_valid else ""


def text_answer(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer to what is no request with a review."""
    return PlainTextResponse(f"{sentence}\n", status, headers)
