"""What is done to uvicorn's HTTP protocol: limits, time-outs, answers at once, and draining.

Strategy: uvicorn bounds the pause between two requests and nothing else. Here a request has to
be there as a whole within a time and a size, with all its headers, chunks and trailers, and an
answer has to be read; a client that does not manage that is cut off. Each connection has one
alarm that looks now and then, because setting one for each request would cost a good part of the
answer.

An application that can answer most requests without waiting for anything is asked as soon as a
request is whole, and its answer goes out with one write and without a task; all other requests
take uvicorn's way. What several connections bring at the same time is first read and then
answered, because the same work done again and again in a row takes a fraction of the time.

A server that closes an idle connection may do so at the moment in which a client sends the next
request over it, and API servers do not send a review twice. So a server that is about to end
first drains: every answer says `connection: close`, and the client opens a new connection, which
leads to another replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn._types import ASGI3Application
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

REQUEST_SECONDS: Final = 30.0  # API servers wait no longer for an answer
_MOST_BYTES: Final = 6 * 1024 * 1024  # more than the largest body with everything around it
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n"
_CLOSE: Final = b"connection: close\r\n"

Write = Callable[[bytes], None]
# Gets scope, body, when the request began, and what writes the JSON that answers it; to leave the
# request to the application it writes nothing.
AtOnce = Callable[[Mapping[str, Any], bytes, float, Write], None]


@dataclass(slots=True)
class Handling:
    """How all connections of a server are handled."""

    at_once: AtOnce | None = None
    request_seconds: float = REQUEST_SECONDS
    is_draining: bool = False  # may be set from any thread


class HttpConnection(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        handling: Handling,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._handling = handling
        self._at_once = handling.at_once
        self._bytes = 0
        self._is_partial = True  # a request is on its way, or the first one awaited
        self._idle_until = inf
        self._held: RequestResponseCycle | None = None  # its request is not whole yet
        self._began = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for the first request."""
        super().connection_made(transport)
        seconds = self._handling.request_seconds
        self._whole_by = self.loop.time() + seconds
        self._alarm = self.loop.call_later(seconds, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._alarm.cancel()
        super().connection_lost(exc)

    # --- limits and time-outs

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request, or an empty line that belongs to none."""
        self._bytes += len(data)
        self._is_partial = True
        if not self.flow.write_paused:
            self._idle_until = inf
        super().data_received(data)
        if self._is_partial and self._whole_by == inf:
            self._whole_by = self.loop.time() + self._handling.request_seconds
        if self._bytes > _MOST_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Begin to take a request, which may have come together with the one before."""
        super().on_message_begin()
        self._is_partial = True

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body; one that is large is read by the application."""
        super().on_body(body)
        if self._held is not None and len(self._held.body) > HIGH_WATER_LIMIT:
            cycle, self._held = self._held, None
            self._hand_over(cycle, self.app)

    def on_message_complete(self) -> None:
        """Wait no more for this request, and let it be answered if that waited for all of it."""
        super().on_message_complete()
        self._bytes = 0
        self._is_partial = False
        self._whole_by = inf
        if self._held is not None:
            cycle, self._held = self._held, None
            self.loop.call_soon(self._answer, cycle, self._began)

    def pause_writing(self) -> None:
        """Begin to wait for a client to read what was answered."""
        super().pause_writing()
        self._rest()

    def resume_writing(self) -> None:
        """Wait no more for a client to read."""
        super().resume_writing()
        self._idle_until = inf

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; one whose client does not read its answer is no idle one."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # closing would wait for the client
        else:
            super().timeout_keep_alive_handler()

    def _rest(self) -> None:
        """Begin to wait for the next request, or for the answers before it to be read."""
        self._idle_until = self.loop.time() + self.timeout_keep_alive

    def _look(self) -> None:
        now = self.loop.time()
        if now >= self._whole_by:
            self.transport.abort()
        elif now >= self._idle_until:
            self.timeout_keep_alive_handler()
        else:
            seconds = self._handling.request_seconds
            left = min(self._whole_by - now, self._idle_until - now, seconds)
            self._alarm = self.loop.call_later(left, self._look)

    # --- answers at once, and the last ones

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if self._at_once is None or not cycle.more_body or cycle.waiting_for_100_continue:
            self._hand_over(cycle, app)
        else:
            self._held, self._began = cycle, monotonic()

    def _hand_over(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Let the application answer; a server that drains closes the connection after that."""
        if self._handling.is_draining:
            cycle.keep_alive = False  # uvicorn adds `connection: close` to the answer
        super()._start_asgi_task(cycle, app)

    def _answer(self, cycle: RequestResponseCycle, began: float) -> None:
        """Answer a request now, or leave it to the application."""
        if self.transport.is_closing():
            return
        if self._at_once is not None and not (self.flow.write_paused or self._handling.is_draining):
            with suppress(Exception):  # the application will run into it as well, and tell
                write = partial(self._write, cycle)
                self._at_once(cycle.scope, bytes(cycle.body), began, write)
        if not cycle.response_complete:
            self._hand_over(cycle, self.app)
            return
        self.server_state.total_requests += 1
        if not cycle.keep_alive:
            self.transport.close()
        elif self.pipeline:
            self.on_response_complete()
        else:
            self._rest()

    def _write(self, cycle: RequestResponseCycle, body: bytes) -> None:
        closing = b"" if cycle.keep_alive else _CLOSE
        self.transport.write(_HEAD % (len(body), closing) + body)
        cycle.response_started = cycle.response_complete = True
