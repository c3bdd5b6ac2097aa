"""What a Service is to API servers: one address, behind it the replicas that are ready.

Strategy: connections are passed on byte by byte, so that TLS is between the ends. A replica that
is no longer ready gets no new connection after the next look, and keeps those it has.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

_LOOK_SECONDS = 0.5
_READ_BYTES = 1 << 16
_HOST = "127.0.0.1"
_Place = tuple[str, int]


class Balancer:
    """Passes connections on, in turn; runs from `start` to `stop`."""

    def __init__(self, host: str = _HOST, port: int = 0) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._replicas: dict[_Place, Callable[[], bool]] = {}
        self._ready: list[_Place] = []
        self._turn = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._host = host
        self.port = port

    def add(self, port: int, is_ready: Callable[[], bool], host: str = _HOST) -> None:
        """Know a replica by its place on loopback."""
        self._replicas = {**self._replicas, (host, port): is_ready}

    def remove(self, port: int, host: str = _HOST) -> None:
        """Forget a replica."""
        gone = (host, port)
        self._replicas = {key: look for key, look in self._replicas.items() if key != gone}

    def start(self) -> None:
        """Begin to listen; without a port that was named, on a free one."""
        self._thread.start()
        self._run(self._listen()).result()

    def stop(self) -> None:
        """End all connections."""
        self._run(self._end()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._pass_on, self._host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._keep(self._look())

    async def _end(self) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _look(self) -> None:
        while True:
            replicas = self._replicas.items()
            found = [(place, await asyncio.to_thread(is_ready)) for place, is_ready in replicas]
            self._ready = [place for place, ready in found if ready]
            await asyncio.sleep(_LOOK_SECONDS)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if not self._ready:
            writer.transport.abort()
            return
        self._turn += 1
        place = self._ready[self._turn % len(self._ready)]
        try:
            there = await asyncio.open_connection(*place)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until one side ends."""
    try:
        while piece := await reader.read(_READ_BYTES):
            writer.write(piece)
            await writer.drain()
    except OSError:
        writer.transport.abort()
    finally:
        writer.close()
