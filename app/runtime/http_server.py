"""Serves an ASGI application on a listening socket."""

from __future__ import annotations

import socket
import ssl
import threading
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, cast

import uvicorn

from app.model.errors import BadSetting
from app.runtime.protocol import REQUEST_SECONDS, AtOnce, Handling, HttpConnection

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp

# API servers keep idle connections for 90 s, and should be the first to close them.
_KEEP_ALIVE_SECONDS = 120
_DRAIN_SECONDS = 10
_BACKLOG = 2048
_TICK_SECONDS = 1


class Server:
    """One application on one socket; `run` blocks until `stop` or a signal."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        tls: ssl.SSLContext | None = None,
        *,
        at_once: AtOnce | None = None,
        request_seconds: float = REQUEST_SECONDS,
        keep_alive_seconds: int = _KEEP_ALIVE_SECONDS,
    ) -> None:
        self._handling = Handling(at_once, request_seconds)
        config = uvicorn.Config(
            app,
            # uvicorn calls it as it would call the class.
            http=cast("type[asyncio.Protocol]", partial(HttpConnection, self._handling)),
            loop="uvloop",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=keep_alive_seconds,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
            callback_notify=self._note_tick,
            timeout_notify=_TICK_SECONDS,
        )
        self._ticked_at = monotonic()
        self._server = uvicorn.Server(config)
        self._listener = listener
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve; in the main thread SIGTERM and SIGINT end it after open requests are answered."""
        self._server.run(sockets=[self._listener])

    def start(self, name: str) -> threading.Thread:
        """Serve in a thread of its own."""
        self._ticked_at = monotonic()
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)
        self._thread.start()
        return self._thread

    def silent_seconds(self) -> float:
        """Return for how long the event loop has come to nothing; it ticks every second or two."""
        return monotonic() - self._ticked_at

    async def _note_tick(self) -> None:
        self._ticked_at = monotonic()

    def drain(self) -> None:
        """From now on let every answer be the last one on its connection."""
        self._handling.is_draining = True

    def stop(self) -> None:
        """Accept no more connections, answer what is open, and end."""
        self._server.should_exit = True

    def end(self, seconds: float = 2.0) -> None:
        """Stop, and wait for it: an interpreter that ends under a running event loop may crash."""
        self.stop()
        if self._thread is not None:
            self._thread.join(seconds)


def bound(
    host: str, port: int, flag: str, *, shared: bool = False, listens: bool = True
) -> socket.socket:
    """Return a socket bound to a port, which several may share.

    One that does not listen yet keeps the port; connections are refused until it does.

    Raises:
        BadSetting: the port is taken or the address is not ours.
    """
    is_v6 = ":" in host or (not host and socket.has_dualstack_ipv6())
    listener = _unbound(socket.AF_INET6 if is_v6 else socket.AF_INET, shared=shared)
    if is_v6 and not host:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        listener.bind((host, port))
        if listens:
            listener.listen(_BACKLOG)
    except (OSError, UnicodeError) as error:  # the latter from names that cannot be any host's
        listener.close()
        shown = f"{host or '*'}:{port}"
        reason = error.strerror if isinstance(error, OSError) else "no such host"
        raise BadSetting(f"{flag}: cannot listen on {shown}: {reason}") from None
    return listener


def bound_beside(other: socket.socket) -> socket.socket:
    """Return another socket bound to a port that is shared; it does not listen yet."""
    listener = _unbound(other.family, shared=True)
    if other.family == socket.AF_INET6:
        is_only = other.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, is_only)
    listener.bind(other.getsockname())
    return listener


def _unbound(family: int, *, shared: bool) -> socket.socket:
    found = socket.socket(family)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return found
