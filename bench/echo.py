"""A plain ASGI application that reads a body and answers with as many bytes as it is told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_BODY = b"x" * int(os.environ.get("PLUMBLINE_ECHO_BYTES", "1000"))
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(_BODY)).encode())]


async def app(_scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _BODY})
