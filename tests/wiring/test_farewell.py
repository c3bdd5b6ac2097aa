"""Clients are sent elsewhere with their answers, not by closing on them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import Message, Receive, Scope, Send

from app.web.endpoints import Write
from app.wiring.farewell import Farewell


class Answering:
    """An application that always has an answer."""

    def at_once(self, scope: Mapping[str, Any], body: bytes, began: float, write: Write) -> None:
        """Answer without waiting."""
        write(orjson.dumps([scope["type"], body.decode(), began]))

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer as any application does."""
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"{}"})


def asked(farewell: Farewell) -> list[Message]:
    """Return what an application sends for a request."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    asyncio.run(farewell({"type": "http"}, receive, send))
    return sent


def test_farewell() -> None:
    """Answers are left alone until it begins, and then ask to close the connection."""
    farewell = Farewell(Answering())
    plain = asked(farewell)
    farewell.begin()
    last = asked(farewell)

    assert plain[0]["headers"] == [(b"a", b"b")]
    assert last[0]["headers"] == [(b"a", b"b"), (b"connection", b"close")]
    assert plain[1] == last[1]


def test_last_answers_are_not_given_at_once() -> None:
    """What is answered at once knows nothing of last answers, so it is not asked any more."""
    farewell, written = Farewell(Answering()), list[bytes]()
    farewell.at_once({"type": "http"}, b"x", 1.5, written.append)
    farewell.begin()
    farewell.at_once({"type": "http"}, b"y", 1.5, written.append)
    assert written == [b'["http","x",1.5]']
