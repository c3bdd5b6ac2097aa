"""HTTP from clients that may never finish what they began.

Strategy: uvicorn bounds the pause between two requests and nothing else. Here a request has to
be there as a whole within a time and a size, with all its headers, chunks and trailers, and an
answer has to be read; who does not manage that is cut off. Each connection has one alarm that
looks now and then, for setting one anew with each request would cost a good part of the answer.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

SECONDS: Final = 30.0  # API servers wait no longer for an answer
_MOST_BYTES: Final = 6 * 1024 * 1024  # more than the largest body with everything around it


class PatientProtocol(HttpToolsProtocol):
    """One connection."""

    seconds = SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._bytes = 0
        self._is_partial = True  # a request is on its way, or the first one awaited
        self._whole_by = self.loop.time() + self.seconds
        self._idle_until = inf
        self._alarm = self.loop.call_later(self.seconds, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._alarm.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request, or an empty line that belongs to none."""
        self._bytes += len(data)
        self._is_partial = True
        if not self.flow.write_paused:
            self._idle_until = inf
        super().data_received(data)
        if self._is_partial and self._whole_by == inf:
            self._whole_by = self.loop.time() + self.seconds
        if self._bytes > _MOST_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Begin to take a request, which may have come together with the one before."""
        super().on_message_begin()
        self._is_partial = True

    def on_message_complete(self) -> None:
        """Wait no more for this request."""
        super().on_message_complete()
        self._bytes = 0
        self._is_partial = False
        self._whole_by = inf

    def pause_writing(self) -> None:
        """Begin to wait for a client to read what was answered."""
        super().pause_writing()
        self.rest()

    def resume_writing(self) -> None:
        """Wait no more for a client to read."""
        super().resume_writing()
        self._idle_until = inf

    def rest(self) -> None:
        """Begin to wait for the next request, or for the answers before it to be read."""
        self._idle_until = self.loop.time() + self.timeout_keep_alive

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; one whose client does not read its answer is no idle one."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # closing would wait for the client
        else:
            super().timeout_keep_alive_handler()

    def _look(self) -> None:
        now = self.loop.time()
        if now >= self._whole_by:
            self.transport.abort()
        elif now >= self._idle_until:
            self.timeout_keep_alive_handler()
        else:
            left = min(self._whole_by - now, self._idle_until - now, self.seconds)
            self._alarm = self.loop.call_later(left, self._look)
