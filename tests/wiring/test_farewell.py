"""Clients are sent elsewhere with their answers, not by closing on them."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive, Scope, Send

from app.wiring.farewell import Farewell


async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
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
    farewell = Farewell(answer)
    plain = asked(farewell)
    farewell.begin()
    last = asked(farewell)

    assert plain[0]["headers"] == [(b"a", b"b")]
    assert last[0]["headers"] == [(b"a", b"b"), (b"connection", b"close")]
    assert plain[1] == last[1]
