"""A server on a port of its own, and a client that sends whatever it likes."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
from prometheus_client import CollectorRegistry

from app.runtime.bounds import Bounds, LimitReport, PortLimit
from app.runtime.http_server import Server, bound

if TYPE_CHECKING:
    from starlette.types import ASGIApp

HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
JSON = {"content-type": "application/json"}
WAIT_SECONDS = 30.0


@dataclass
class Served:
    """A server on a port of its own."""

    server: Server
    thread: threading.Thread
    port: int
    registry: CollectorRegistry

    def hits(self, bound: PortLimit) -> float:
        """Return how often a bound was hit."""
        labels = {"limit": bound.value}
        return self.registry.get_sample_value("plumbline_limits_reached_total", labels) or 0.0

    def client(self) -> httpx.Client:
        """Return a client of it."""
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=JSON, timeout=30)

    def connected(self, source: str = "") -> closing[socket.socket]:
        """Return a connection, maybe from another address, that is closed with the block."""
        at = ("127.0.0.1", self.port)
        return closing(socket.create_connection(at, WAIT_SECONDS, (source, 0)))

    def exchange(self, *parts: bytes) -> bytes:
        """Send bytes as they are and return all that comes back until the connection ends."""
        with self.connected() as plain:
            try:
                for part in parts:
                    plain.sendall(part)
            except OSError:
                pass  # cut off meanwhile
            return read_all(plain)


def read_all(connection: socket.socket) -> bytes:
    """Return what comes until the other end is done, or cuts off."""
    found = b""
    try:
        while piece := connection.recv(65_536):
            found += piece
    except ConnectionResetError:
        pass
    return found


def asked(app: ASGIApp, path: str, method: str = "GET") -> httpx.Response:
    """Ask an application without a port."""

    async def exchange() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://vpa") as client:
            return await client.request(method, path)

    return asyncio.run(exchange())


@contextmanager
def serving(
    app: ASGIApp,
    *,
    keep_alive_seconds: int = 120,
    bounds: Bounds | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Served]:
    """Serve an application until the block ends; ask it for answers at once if it has any."""
    listener = bound("127.0.0.1", 0, "--port")
    registry = CollectorRegistry()
    server = Server(
        app,
        listener,
        tls,
        limits=LimitReport(registry),
        bounds=bounds,
        at_once=getattr(app, "at_once", None),
        keep_alive_seconds=keep_alive_seconds,
    )
    served = Served(server, server.start("test"), listener.getsockname()[1], registry)
    try:
        yield served
    finally:
        server.stop()
        served.thread.join(WAIT_SECONDS)
        assert not served.thread.is_alive()
