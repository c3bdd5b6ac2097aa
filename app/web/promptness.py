"""HTTP for an application that can answer most requests without waiting for anything.

Strategy: such a request is answered when it is whole, with one write and without a task of its
own; all others take uvicorn's way through the application. What several connections bring at the
same time is first read and then answered, for the same work done again and again in a row takes
a fraction of the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from app.web.endpoints import Write
from app.web.patience import PatientProtocol

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send
    from uvicorn._types import ASGI3Application
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n"
_CLOSE: Final = b"connection: close\r\n"


@runtime_checkable
class PromptApplication(Protocol):
    """An ASGI application that is asked before it is called."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send, /) -> None:
        """Answer a request in the usual way."""
        ...

    def at_once(self, scope: Mapping[str, Any], body: bytes, began: float, write: Write, /) -> None:
        """Write the JSON that answers a request, or nothing if that takes longer."""
        ...


class PromptProtocol(PatientProtocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._prompt = self.app if isinstance(self.app, PromptApplication) else None
        self._held: RequestResponseCycle | None = None  # its request is not whole yet
        self._began = 0.0

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body; one that is large is read by the application."""
        super().on_body(body)
        if self._held is not None and len(self._held.body) > HIGH_WATER_LIMIT:
            cycle, self._held = self._held, None
            super()._start_asgi_task(cycle, self.app)

    def on_message_complete(self) -> None:
        """Let a request be answered that has been waited for as a whole."""
        super().on_message_complete()
        if self._held is not None:
            cycle, self._held = self._held, None
            self.loop.call_soon(self._answer, cycle, self._began)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if self._prompt is None or not cycle.more_body or cycle.waiting_for_100_continue:
            super()._start_asgi_task(cycle, app)
        else:
            self._held, self._began = cycle, monotonic()

    def _answer(self, cycle: RequestResponseCycle, began: float) -> None:
        """Answer a request now, or leave it to the application."""
        if self.transport.is_closing():
            return
        if self._prompt is not None and not self.flow.write_paused:
            with suppress(Exception):  # the application will run into it as well, and tell
                write = partial(self._write, cycle)
                self._prompt.at_once(cycle.scope, bytes(cycle.body), began, write)
        if not cycle.response_complete:
            super()._start_asgi_task(cycle, self.app)
            return
        self.server_state.total_requests += 1
        if not cycle.keep_alive:
            self.transport.close()
        elif self.pipeline:
            self.on_response_complete()
        else:
            self.rest()

    def _write(self, cycle: RequestResponseCycle, body: bytes) -> None:
        closing = b"" if cycle.keep_alive else _CLOSE
        self.transport.write(_HEAD % (len(body), closing) + body)
        cycle.response_started = cycle.response_complete = True
