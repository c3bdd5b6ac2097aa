"""A small API server on loopback that speaks list, watch and faults over real HTTP."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from threading import Thread

from app.ports import Resource
from tests.kube.api_handler import Handler
from tests.kube.api_state import ApiState


class ApiServer(ApiState):
    """The cluster and the port it is reached on."""

    def __init__(self, *resources: Resource, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(*resources)
        self._tls = tls
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        connections: set[socket] = set()

        class Connection(Handler):
            api = self
            open_ones = connections

        self._connections = connections
        self.stopping = False
        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), Connection)
        self._http.daemon_threads = False  # so that closing waits for all of them
        if self._tls:
            self._http.socket = self._tls.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._http.server_address[1]
        self._thread = Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        """Break all connections and listen no more; the objects stay."""
        with self.changed:
            self.stopping = True
            for fault in self.faults:
                if fault.gate:
                    fault.gate.set()
            self.changed.notify_all()
        self._http.shutdown()
        self._thread.join()
        for connection in list(self._connections):
            with suppress(OSError):  # the client was first
                connection.shutdown(SHUT_RDWR)
        self._http.server_close()


@contextmanager
def serving(*resources: Resource, tls: ssl.SSLContext | None = None) -> Iterator[ApiServer]:
    """Serve these resources until the block ends."""
    server = ApiServer(*resources, tls=tls)
    try:
        yield server
    finally:
        server.stop()
