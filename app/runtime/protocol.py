"""What is done to uvicorn's HTTP protocol: bounds, answers at once, and draining.

Strategy: uvicorn bounds the pause between two requests and nothing else. Here a request has to
be there as a whole within a time and a size, with all its headers, chunks and trailers, few may
wait behind another one, and an answer has to be read; a client that does not manage that is cut
off. While requests wait for their turn, or answers to be read, nothing more is read. Each
connection has one alarm that looks now and then, because setting one for each request would cost a
good part of the answer.

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
from collections.abc import Callable, Mapping, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.flow_control import (
    HIGH_WATER_LIMIT,
    FlowControl,
    service_unavailable,
)
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.runtime.bounds import Bounds, HeldBytes, LimitReport, PortLimit

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn._types import ASGI3Application
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

# Each connection may hold so much, received or unread, before it counts for all of them.
_FREE_BYTES: Final = 16 * 1024
_CONNECTION_BYTES: Final = 48 * 1024  # with TLS, as measured
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n"
_CLOSE: Final = b"connection: close\r\n"

Write = Callable[[bytes], None]
# Gets scope, body, when the request began, and what writes the JSON that answers it; to leave the
# request to the application it writes nothing.
AtOnce = Callable[[Mapping[str, Any], bytes, float, Write], None]


@dataclass(slots=True)
class Handling:
    """How all connections of a server are handled, and what they hold."""

    limits: LimitReport
    bounds: Bounds
    at_once: AtOnce | None = None
    is_draining: bool = False  # may be set from any thread
    freed_bytes: int = 0  # about, by connections that ended
    received: HeldBytes = field(init=False)
    unread: HeldBytes = field(init=False)

    def __post_init__(self) -> None:
        """Hold nothing yet."""
        self.received = HeldBytes(PortLimit.RECEIVED_BYTES, self.bounds.received_bytes)
        self.unread = HeldBytes(PortLimit.UNREAD_BYTES, self.bounds.unread_bytes)

    def hit(self, bound: PortLimit) -> None:
        """Count a connection that is closed, or a request that is refused, at a bound."""
        self.limits.reached(bound, most=getattr(self.bounds, bound.value))


class _TooManyRequests(Exception):
    """A client sends request after request without waiting for answers."""


class _Flow(FlowControl):
    """Reads no more while there are requests or answers that have to go first."""

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting  # requests

    def resume_reading(self) -> None:
        if self.read_paused and not (self.write_paused or self._waiting):
            super().resume_reading()


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
        self._bytes = 0  # of the request on its way, and of those that wait for their turn
        self._is_partial = True  # a request is on its way, or the first one awaited
        self._has_answered = False
        self._idle_until = inf
        self._held: RequestResponseCycle | None = None  # its request is not whole yet
        self._task: asyncio.Task[None] | None = None  # the last one of the application
        self.began = 0.0  # the request that was begun last, by the monotonic clock

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for the first request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(_FREE_BYTES)
        self.flow = _Flow(transport, self.pipeline)
        seconds = self._handling.bounds.request_seconds
        self._whole_by = self.loop.time() + seconds
        self._alarm = self.loop.call_later(seconds, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more, and hold nothing: garbage is collected seldom."""
        self._alarm.cancel()
        self._handling.freed_bytes += _CONNECTION_BYTES + self._bytes
        self._handling.received.drop(self)
        self._handling.unread.drop(self)
        self.pipeline.clear()
        super().connection_lost(exc)
        self.cycle, self.scope, self.headers = None, {}, []  # type: ignore[assignment,typeddict-item]  # as at first
        self._held = self._task = None

    # --- bounds

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request, or an empty line that belongs to none."""
        if not self.flow.write_paused:
            self._idle_until = inf
        if len(data) <= _FREE_BYTES:
            self._take(data)
            return
        # In pieces, because what is made of many small headers takes far more than they do.
        rest = memoryview(data)
        while rest and not self.transport.is_closing():
            self._take(rest[:_FREE_BYTES])
            rest = rest[_FREE_BYTES:]

    def _take(self, data: bytes | memoryview) -> None:
        self._bytes += len(data)
        self._is_partial = True
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade:
            pass  # answered like any other request
        except HttpParserError as error:
            if isinstance(error.__context__, _TooManyRequests):
                self.cut_off(PortLimit.WAITING_REQUESTS)
            else:
                self.send_400_response("Invalid HTTP request received.")
            return
        if self._is_partial or self.pipeline:
            self._hold()

    def _hold(self) -> None:
        """Count what has come of requests that are not whole, or wait for their turn."""
        bounds = self._handling.bounds
        if self._is_partial and self._whole_by == inf:
            self._whole_by = self.loop.time() + bounds.request_seconds
        if self.headers and len(self.headers) > bounds.headers:  # or trailers
            self.cut_off(PortLimit.HEADERS)
        elif self._bytes > bounds.request_bytes:
            self.cut_off(PortLimit.REQUEST_BYTES)
        elif self._bytes > bounds.head_bytes and self._is_in_head():
            self.cut_off(PortLimit.HEAD_BYTES)
        elif self._bytes <= _FREE_BYTES or self.transport.is_closing():
            return
        elif not self._handling.received.take(self, self._bytes):
            self.cut_off(PortLimit.RECEIVED_BYTES)

    def _is_in_head(self) -> bool:
        return bool(self.scope) and "path" not in cast("dict[str, object]", self.scope)

    def cut_off(self, bound: PortLimit) -> None:
        """End at once, because of a bound."""
        if not self.transport.is_closing():
            self._handling.hit(bound)
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Begin to take a request, which may have come together with the one before."""
        if len(self.pipeline) >= self._handling.bounds.waiting_requests:
            raise _TooManyRequests
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
        self._is_partial = False
        self._whole_by = inf
        if self._bytes > _FREE_BYTES:
            self._settle()
        if not self.pipeline:
            self._bytes = 0
        if self._held is not None:
            cycle, self._held = self._held, None
            self.loop.call_soon(self._answer, cycle, self.began)

    def _settle(self) -> None:
        """Count a request that came in pieces as long as the application is at it."""
        self._handling.received.drop(self)
        task = self._task
        if self._held is None and task is not None and not (self.pipeline or task.done()):
            self._keep(self._bytes, task)

    def _keep(self, size: int, task: asyncio.Task[None]) -> None:
        """Count bytes until a task is done: the end of the connection would not free them."""
        received = self._handling.received
        received.keep(size)
        task.add_done_callback(lambda _task: received.release(size))

    def on_response_complete(self) -> None:
        """Go on with the request that waits, or else read again."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            if not (self.pipeline or self._is_partial):
                self._bytes = 0
                self._handling.received.drop(self)
            self._start_asgi_task(cycle, app)
        else:
            self.flow.resume_reading()
            self._rest()

    def pause_writing(self) -> None:
        """Begin to wait for a client to read what was answered."""
        super().pause_writing()
        self.flow.pause_reading()
        self._handling.unread.take(self, self.transport.get_write_buffer_size())
        self._rest()

    def resume_writing(self) -> None:
        """Wait no more for a client to read."""
        super().resume_writing()
        self._handling.unread.drop(self)
        self.flow.resume_reading()
        self._idle_until = inf

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; one whose client does not read its answer is no idle one."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # closing would wait for the client
        else:
            super().timeout_keep_alive_handler()

    def _rest(self) -> None:
        """Begin to wait for the next request, or for the answers before it to be read."""
        self._has_answered = True
        # The loop's own time goes by milliseconds, in which several connections may come to rest.
        self._idle_until = monotonic() + self.timeout_keep_alive

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered, and the client reads answers."""
        cycle = self.cycle
        is_asked = cycle is not None and not (cycle.more_body or cycle.response_complete)
        return not self.flow.write_paused and (is_asked or bool(self.pipeline))

    @property
    def address(self) -> str:
        """Where the client is, as far as we see."""
        return self.client[0] if self.client else ""

    @property
    def worth(self) -> tuple[bool, float]:
        """How much it would be missed: whether it was of use, and since when it has not been."""
        began = self._whole_by - self._handling.bounds.request_seconds
        return self._has_answered, min(began, self._idle_until - self.timeout_keep_alive)

    def _look(self) -> None:
        now, seconds = self.loop.time(), self._handling.bounds.request_seconds
        if now >= self._whole_by:
            if self._bytes:
                self.cut_off(PortLimit.REQUEST_SECONDS)
            else:
                self.transport.abort()
        elif now >= self._idle_until:
            self.timeout_keep_alive_handler()
        else:
            left = min(self._whole_by - now, self._idle_until - now, seconds)
            self._alarm = self.loop.call_later(left, self._look)

    # --- answers at once, and the last ones

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self.began = monotonic()
        if len(cast("list[object]", cycle.scope["headers"])) > self._handling.bounds.headers:
            self.cut_off(PortLimit.HEADERS)
        elif self._at_once is None or not cycle.more_body or cycle.waiting_for_100_continue:
            self._hand_over(cycle, app)
        else:
            self._held = cycle
            self.flow.resume_reading()

    def _hand_over(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Let the application answer; a server that drains closes the connection after that."""
        if self._handling.is_draining:
            cycle.keep_alive = False  # uvicorn adds `connection: close` to the answer
        size = 0 if cycle.more_body else len(cycle.body)
        if size > _FREE_BYTES and not self._handling.received.has_room(size):
            self._handling.hit(PortLimit.RECEIVED_BYTES)
            size, app = 0, service_unavailable
        self._task = task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)
        if size > _FREE_BYTES:
            self._keep(size, task)

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
        if cycle.keep_alive and self.pipeline:
            self.on_response_complete()
            return
        self.server_state.total_requests += 1
        if cycle.keep_alive:
            self._rest()
        else:
            self.transport.close()

    def _write(self, cycle: RequestResponseCycle, body: bytes) -> None:
        closing = b"" if cycle.keep_alive else _CLOSE
        self.transport.write(_HEAD % (len(body), closing) + body)
        cycle.response_started = cycle.response_complete = True
