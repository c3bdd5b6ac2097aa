"""Serves an ASGI application on a listening socket, over TLS if it is given a context."""

from __future__ import annotations

import asyncio
import heapq
import resource
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn

from app.model.errors import BadSetting
from app.runtime.bounds import Bounds, LimitReport, PortLimit
from app.runtime.garbage import give_back_now
from app.runtime.protocol import AtOnce, Handling, HttpConnection

if TYPE_CHECKING:
    from starlette.types import ASGIApp

# API servers keep idle connections for 90 s, and should be the first to close them.
_KEEP_ALIVE_SECONDS = 120
_DRAIN_SECONDS = 10
_BACKLOG = 2048
_TICK_SECONDS: Final = 1
_MOST_ACCEPTED: Final = 16  # before the connections that are open get their turn
_PAUSE_SECONDS: Final = 0.1  # when none can be accepted
_GIVE_BACK_TICKS: Final = 100
_MOST_FREED_BYTES: Final = 8 * 1024 * 1024  # by connections, before memory is given back
_SHUTDOWN_SECONDS: Final = 5.0  # for a client to end TLS in good order
_PORTS: Final = 2  # of a process, at most
_OTHER_DESCRIPTORS: Final = 1000  # for connections to API servers, files, pipes


class Server:
    """One application on one socket; `run` blocks until `stop` or a signal."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        tls: ssl.SSLContext | None = None,
        *,
        limits: LimitReport | None = None,
        bounds: Bounds | None = None,
        at_once: AtOnce | None = None,
        keep_alive_seconds: int = _KEEP_ALIVE_SECONDS,
    ) -> None:
        self._handling = Handling(limits or LimitReport(), bounds or Bounds(), at_once)
        allow_descriptors(_PORTS * self._handling.bounds.connections + _OTHER_DESCRIPTORS)
        config = uvicorn.Config(
            app,
            http="httptools",
            loop="uvloop",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=keep_alive_seconds,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
            callback_notify=self._note_tick,
            timeout_notify=_TICK_SECONDS,
        )
        self._ticked_at = monotonic()
        self._server = _Uvicorn(config, self._handling, tls)
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
        if self._thread is None:
            self._listener.close()
        else:
            self._thread.join(seconds)


class _Uvicorn(uvicorn.Server):
    """uvicorn, with connections accepted by ourselves."""

    def __init__(
        self, config: uvicorn.Config, handling: Handling, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(config)
        self._handling = handling
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await self.lifespan.startup()
        make = partial(HttpConnection, self._handling, self.config, self.server_state, {})
        found = cast("Collection[HttpConnection]", self.server_state.connections)
        acceptors = [
            _Acceptor(one, make, self._tls, self._handling, found) for one in sockets or ()
        ]
        self.servers = cast("list[asyncio.base_events.Server]", acceptors)
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        """Do what is due every tenth of a second; tell whether it is time to end."""
        if counter % _GIVE_BACK_TICKS == 0 and self._handling.freed_bytes > _MOST_FREED_BYTES:
            self._handling.freed_bytes = 0
            asyncio.get_running_loop().run_in_executor(None, give_back_now)
        return await super().on_tick(counter)


class _Acceptor:
    """Accepts the connections of a listening socket, at most so many at a time.

    Where there is no room for another one, the address makes room that has the most connections,
    so that a crowd of one client costs no other client its own. Of these go the ones that are
    missed least: first those that have not asked anything, then those that have been idle for
    longest. Connections that are answered just now, and TLS handshakes, go only where an address
    has more than half of all places, or where there is nothing else.
    """

    def __init__(
        self,
        listener: socket.socket,
        make: Callable[[], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None,
        handling: Handling,
        connections: Collection[HttpConnection],
    ) -> None:
        self._listener = listener
        self._make = make
        self._handling = handling
        self._bounds = handling.bounds
        self._connections = connections
        # With their addresses, the oldest first; and what is just accepted.
        self._handshakes: dict[asyncio.Task[None], str] = {}
        self._loop = asyncio.get_running_loop()
        self._tls: dict[str, Any] = (
            {}
            if tls is None
            else {
                "ssl": tls,
                "ssl_handshake_timeout": self._bounds.handshake_seconds,
                "ssl_shutdown_timeout": _SHUTDOWN_SECONDS,
            }
        )
        listener.setblocking(False)
        listener.listen(_BACKLOG)  # also where it listens already, with a short queue
        self._is_open = True
        self._listen()

    def close(self) -> None:
        """Accept no more."""
        self._is_open = False
        self._loop.remove_reader(self._listener)
        for task in list(self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        """Return; `close` waits for nothing."""

    def _listen(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_MOST_ACCEPTED):
            try:
                plain, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptor is left, for example
                self._make_room()
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_PAUSE_SECONDS, self._listen)
                return
            if self._is_full() and not self._make_room():
                self._handling.hit(PortLimit.CONNECTIONS)
                plain.close()
            else:
                self._welcome(plain, address[0])

    def _is_full(self) -> bool:
        most = self._bounds.connections - len(self._handshakes)
        return len(self._connections) >= most and len(self._open_ones()) >= most

    def _open_ones(self) -> list[HttpConnection]:
        return [one for one in self._connections if not one.transport.is_closing()]

    def _make_room(self) -> bool:
        """Cut off a few connections, or one handshake; tell whether there were any."""
        open_ones = self._open_ones()
        held = Counter(one.address for one in open_ones)
        held.update(self._handshakes.values())
        for address, count in held.most_common():
            idle = [one for one in open_ones if one.address == address and not one.is_busy]
            few = max(min(self._bounds.connections // 50, count // 4), 1)
            for one in heapq.nsmallest(few, idle, key=lambda one: one.worth):
                one.cut_off(PortLimit.CONNECTIONS)
            if idle:
                return True
            if 2 * count > self._bounds.connections:
                break
        return self._cut_busy(open_ones, held)

    def _cut_busy(self, open_ones: list[HttpConnection], held: Counter[str]) -> bool:
        for address, _ in held.most_common(1):
            busy = [one for one in open_ones if one.address == address and one.is_busy]
            if busy:
                min(busy, key=lambda one: one.began).cut_off(PortLimit.CONNECTIONS)
            else:
                self._cut_handshake(address, PortLimit.CONNECTIONS)
        return bool(held)

    def _cut_handshake(self, address: str, bound: PortLimit) -> None:
        longest = next(task for task, found in self._handshakes.items() if found == address)
        del self._handshakes[longest]
        longest.cancel()
        self._handling.hit(bound)

    def _welcome(self, plain: socket.socket, address: str) -> None:
        if len(self._handshakes) >= self._bounds.handshakes:
            ((most, _),) = Counter(self._handshakes.values()).most_common(1)
            self._cut_handshake(most, PortLimit.HANDSHAKES)
        plain.setblocking(False)
        task = self._loop.create_task(self._connect(plain))
        self._handshakes[task] = address
        task.add_done_callback(partial(self._welcomed, plain))

    def _welcomed(self, plain: socket.socket, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():  # maybe before it began
            plain.close()

    async def _connect(self, plain: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, plain, **self._tls)
        except OSError as error:  # the client is gone, or speaks no TLS
            plain.close()
            if isinstance(error, ConnectionAbortedError):
                self._handling.hit(PortLimit.HANDSHAKE_SECONDS)


def allow_descriptors(count: int) -> None:
    """Let this process open so many descriptors, as far as it may raise its limit itself.

    The usual limit is 1024: full ports would leave none for the connections to an API server.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


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


def reserved(host: str, port: int, flag: str) -> socket.socket:
    """Return a socket that keeps a port for processes of ours that share it.

    Raises:
        BadSetting: the port is taken, also by sockets that others would share with us.
    """
    bound(host, port, flag).close()  # the kernel would let another installation share it
    return bound(host, port, flag, shared=True, listens=False)


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
