"""A small Prometheus on loopback: answers real HTTP requests as it is told to, faults included."""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import parse_qsl, urlsplit

import orjson


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    path: str
    told: Mapping[str, str]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """What is answered."""

    body: bytes = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0  # bytes that are promised and never come
    waits: bool = False  # before the body, until the server is stopped

    @staticmethod
    def of(status: int, kind: str, error: str) -> Reply:
        """Return an error as Prometheus tells it."""
        told = {"status": "error", "errorType": kind, "error": error}
        return Reply(orjson.dumps(told), status)


def matrix(*series: tuple[Mapping[str, str], Sequence[tuple[float, object]]]) -> Reply:
    """Return an answer with some series."""
    result = [
        {"metric": labels, "values": [[time, f"{value}"] for time, value in points]}
        for labels, points in series
    ]
    data = {"resultType": "matrix", "result": result}
    return Reply(orjson.dumps({"status": "success", "data": data}))


class PrometheusServer:
    """Answers what lies ready, then what `otherwise` says."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self.ready: deque[Reply] = deque()
        self.otherwise: Callable[[Asked], Reply] = lambda _: Reply()
        self.stopping = Event()

        class Connection(_Handler):
            prometheus = self

        self._http = _Http(("127.0.0.1", 0), Connection)
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self._thread = Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self._scheme}://127.0.0.1:{self._http.server_address[1]}"

    def stop(self) -> None:
        """Listen no more."""
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Keep quiet of clients that go away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    prometheus: PrometheusServer

    def do_GET(self) -> None:
        self._answer(urlsplit(self.path).query)

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def _answer(self, told: str) -> None:
        path, server = urlsplit(self.path).path, self.prometheus
        asked = Asked(self.command, path, dict(parse_qsl(told)), dict(self.headers))
        server.asked.append(asked)
        reply = server.ready.popleft() if server.ready else server.otherwise(asked)
        with suppress(OSError):  # the client has gone
            self.send_response(reply.status)
            for name, text in reply.headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", f"{len(reply.body) + reply.missing}")
            self.end_headers()
            self.wfile.flush()
            if reply.waits:
                server.stopping.wait()
            self.wfile.write(reply.body)
        self.close_connection = bool(reply.missing)


@contextmanager
def prometheus(tls: ssl.SSLContext | None = None) -> Iterator[PrometheusServer]:
    """Serve until the block ends."""
    server = PrometheusServer(tls)
    try:
        yield server
    finally:
        server.stop()
