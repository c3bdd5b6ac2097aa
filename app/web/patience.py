"""HTTP from clients that may never finish what they began.

Strategy: uvicorn bounds the pause between two requests and nothing else. Here a request has to
be there as a whole within a time and a size, with all its headers, chunks and trailers; who does
not manage that is cut off.
"""

from __future__ import annotations

import asyncio
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
        self._limit: asyncio.TimerHandle | None = None
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request, or an empty line that belongs to none."""
        self._bytes += len(data)
        if self._limit is None:
            self._wait()
        super().data_received(data)
        if self._bytes > _MOST_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Begin to wait for the rest of a request that came together with the one before."""
        super().on_message_begin()
        if self._limit is None:
            self._wait()

    def on_message_complete(self) -> None:
        """Wait no more."""
        super().on_message_complete()
        self._bytes = 0
        self._wait_no_more()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; one whose client does not read its answer is no idle one."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # closing would wait for the client
        else:
            super().timeout_keep_alive_handler()

    def _wait(self) -> None:
        self._limit = self.loop.call_later(self.seconds, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
