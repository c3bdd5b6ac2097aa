"""A webhook of the tests: a real HTTPS server that answers as a case wants it to."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

import orjson

from app.ports import Json
from tests.kube.issuing import issued

Answer = Callable[[Json], Json | bytes | int]

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
CA = issued("contract CA", LONG_AGO)
OTHER_CA = issued("another CA", LONG_AGO)
SERVING = issued("localhost", LONG_AGO, by=CA, names=("localhost", "reviewer.contract.svc"))
GIVE_UP_SECONDS = 20.0


class Reviewer:
    """What was asked, path by path, and how to answer."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.requests: dict[str, list[Json]] = {}
        self.queries: list[str] = []
        self.released = Event()
        self.port = 0
        self.connections = 0
        self.hangs_up = False

    def asked(self, path: str) -> list[Json]:
        """Return the requests that came to a path."""
        return self.requests.get(path, [])

    def client(self, path: str, *, ca: str = CA.pem, port: int = 0) -> Json:
        """Return a client configuration that leads to a path."""
        return {
            "url": f"https://localhost:{port or self.port}{path}",
            "caBundle": base64.b64encode(ca.encode()).decode(),
        }

    def answer(self, path: str, review: Json) -> tuple[int, bytes]:
        """Answer a review: what a function returns may be a response, bytes, or a status."""
        status, found = self.reviewed(path, review)
        return status, found if isinstance(found, bytes) else orjson.dumps(found)

    def reviewed(self, path: str, review: Json) -> tuple[int, Json | bytes]:
        """Note a request and answer it."""
        request = review["request"]
        self.requests.setdefault(path, []).append(request)
        found = self.answers.get(path, allow)(request)
        if isinstance(found, int):
            return found, b"{}"
        if isinstance(found, bytes):
            return 200, found
        head = {"apiVersion": review["apiVersion"], "kind": review["kind"]}
        return 200, head | {"response": {"uid": request["uid"], **found}}

    def hang_up_after(self, _request: Json) -> Json:
        """Allow, and close the connection without saying so."""
        self.hangs_up = True
        return {"allowed": True}

    def dawdle(self, _request: Json) -> Json:
        """Answer only when the case is over."""
        self.released.wait(GIVE_UP_SECONDS)
        return {"allowed": True}


def allow(_request: Json) -> Json:
    """Allow whatever it is."""
    return {"allowed": True}


def patch(*operations: Json) -> Answer:
    """Return an answer that changes the object."""
    text = base64.b64encode(orjson.dumps(operations)).decode()
    return lambda _request: {"allowed": True, "patch": text, "patchType": "JSONPatch"}


@contextmanager
def reviewing() -> Iterator[Reviewer]:
    """Listen until the block ends."""
    reviewer = Reviewer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            reviewer.connections += 1
            super().setup()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            path, _, query = self.path.partition("?")
            reviewer.queries.append(query)
            status, answer = reviewer.answer(path, orjson.loads(body))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
            self.close_connection = self.close_connection or reviewer.hangs_up

        def log_message(self, *_arguments: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_arguments: None  # type: ignore[method-assign]  # cut calls
    server.socket = _context().wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    reviewer.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield reviewer
    finally:
        reviewer.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _context() -> ssl.SSLContext:
    with TemporaryDirectory() as folder:
        certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        certificate.write_text(SERVING.pem)
        key.write_text(SERVING.key_pem())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
    return context
