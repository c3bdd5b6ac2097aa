"""Tells clients to go elsewhere, answer by answer, before the server ends.

Strategy: a server that closes an idle connection may do so at the moment in which a client sends
the next review over it, and API servers do not send a review twice. A client that was told
`connection: close` with its last answer opens a new connection, which leads to another replica.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.web.endpoints import Write
from app.web.promptness import PromptApplication

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

_CLOSE = (b"connection", b"close")


class Farewell:
    """An ASGI application around another one; `begin` may be called from any thread."""

    def __init__(self, app: PromptApplication) -> None:
        self._app = app
        self._is_on = False

    def begin(self) -> None:
        """From now on every answer is the last one on its connection."""
        self._is_on = True

    def at_once(self, scope: Mapping[str, Any], body: bytes, began: float, write: Write) -> None:
        """Answer what can be answered at once; last answers take the longer way."""
        if not self._is_on:
            self._app.at_once(scope, body, began, write)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if not self._is_on:
            await self._app(scope, receive, send)
            return

        async def send_last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], _CLOSE]}
            await send(message)

        await self._app(scope, receive, send_last)
