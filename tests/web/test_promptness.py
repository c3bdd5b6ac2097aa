"""Requests are answered at once where that can be, in their order, and never twice."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from app.web.application import Webhook, webhook
from app.web.endpoints import Write
from app.web.promptness import PromptProtocol
from tests import make
from tests.waiting import eventually
from tests.web.reviewing import UNREADABLE, WEB, desk
from tests.web.serving import HEAD, WAIT_SECONDS, Served, read_all, serving

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

POD = orjson.dumps(make.review_json(make.pod_json(cpu="100m")))
LARGE = orjson.dumps(make.review_json(make.pod_json(annotations={"a": "x" * 100_000})))
UNKNOWN = orjson.dumps(make.review_json(make.pod_json(cpu="100m", owner="StatefulSet/new")))
OTHER = HEAD.replace(b"/mutate", b"/other")


class Noted:
    """An application that notes which way a request took."""

    def __init__(self, app: Webhook) -> None:
        self._app = app
        self.ways: list[str] = []

    def at_once(self, scope: Mapping[str, Any], body: bytes, began: float, write: Write) -> None:
        """Answer, or do not."""

        def noted(answer: bytes) -> None:
            self.ways.append("at once")
            write(answer)

        self._app.at_once(scope, body, began, noted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        self.ways.append("later")
        await self._app(scope, receive, send)


class Broken(Noted):
    """An application that fails before it answers at once."""

    def at_once(self, scope: Mapping[str, Any], body: bytes, began: float, write: Write) -> None:
        """Fail."""
        raise ZeroDivisionError(scope, body, began, write)


class Hasty(PromptProtocol):
    """A connection that is looked at often."""

    seconds = 0.2


def request(body: bytes = POD, head: bytes = HEAD, *more: bytes) -> bytes:
    """Return a request with its length."""
    return b"".join((head, *more, b"Content-Length: %d\r\n\r\n" % len(body), body))


LAST = request(b"{", HEAD, b"Connection: close\r\n")


@pytest.fixture
def app() -> Noted:
    """Return an application with a VPA."""
    return Noted(webhook(desk(*WEB).reviewer))


@pytest.fixture
def at(app: Noted) -> Iterator[Served]:
    """Serve it."""
    with serving(app) as served:
        yield served


@pytest.mark.parametrize(
    ("parts", "ways", "starts"),
    [
        pytest.param([request()], ["at once"], [b"200"], id="a review"),
        pytest.param([request()[:700], request()[700:]], ["at once"], [b"200"], id="in pieces"),
        pytest.param([request() * 3], ["at once", "later", "later"], [b"200"] * 3, id="in a row"),
        pytest.param([request(b"{")], ["at once"], [b"200"], id="no review"),
        pytest.param([request(LARGE)], ["later"], [b"200"], id="large"),
        pytest.param([request(UNKNOWN)], ["later"], [b"200"], id="a look-up"),
        pytest.param([request(head=OTHER)], ["later"], [b"404"], id="another path"),
        pytest.param([request().replace(b"POST", b"PUT")], ["later"], [b"405"], id="a PUT"),
        pytest.param([request().replace(b"n/js", b"n/x")], ["later"], [b"415"], id="no JSON"),
        pytest.param(
            [request(POD, HEAD, b"Expect: 100-continue\r\n")],
            ["later"],
            [b"100", b"200"],
            id="asked whether to send",
        ),
        pytest.param(
            [HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", b"0\r\n\r\n"],
            ["at once"],
            [b"200"],
            id="chunks",
        ),
    ],
)
def test_ways(
    app: Noted, at: Served, parts: list[bytes], ways: list[str], starts: list[bytes]
) -> None:
    """What waits for nothing is answered at once; each request has one answer, in its order."""
    found = at.exchange(*parts, LAST)
    assert app.ways[:-1] == ways
    heads = [line for line in found.split(b"\r\n") if b"HTTP/1.1 " in line]
    assert [line.rpartition(b"HTTP/1.1 ")[2][:3] for line in heads] == [*starts, b"200"]
    assert found.endswith(UNREADABLE)


def test_both_ways_have_the_same_answer(app: Noted, at: Served) -> None:
    """Which way an answer took cannot be seen from it."""
    last = request(POD, HEAD, b"Connection: close\r\n")
    prompt, late = at.exchange(last), at.exchange(request(b"{") + last)
    assert app.ways == ["at once", "at once", "later"]
    assert late.endswith(prompt)


def test_old_clients(app: Noted, at: Served) -> None:
    """A client that cannot keep a connection gets its answer, and the end."""
    found = at.exchange(request().replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert b"\r\nconnection: close\r\n" in found
    assert app.ways == ["at once"]


def test_what_fails_at_once_is_tried_again() -> None:
    """A fault before the answer is the application's to tell."""
    app = Broken(webhook(desk(*WEB).reviewer))
    with serving(app) as at:
        assert at.exchange(LAST).endswith(UNREADABLE)
    assert app.ways == ["later"]


def is_closed(port: int) -> bool:
    """Whether nobody listens on a port any more."""
    try:
        socket.create_connection(("127.0.0.1", port), WAIT_SECONDS).close()
    except ConnectionRefusedError:
        return True
    return False


def test_half_a_review_is_awaited_at_the_end(app: Noted, at: Served) -> None:
    """A server that is to stop answers whose review is on its way."""
    with closing(socket.create_connection(("127.0.0.1", at.port), WAIT_SECONDS)) as plain:
        plain.sendall(request() + request()[:700])
        while not plain.recv(65_536).endswith(b"}"):
            pass
        at.server.stop()
        assert eventually(lambda: is_closed(at.port))
        plain.sendall(request()[700:])
        found = read_all(plain)
    assert b"\r\nconnection: close\r\n" in found
    assert b'"patch"' in found
    assert app.ways == ["at once", "at once"]


def test_idle_connections_are_closed(app: Noted) -> None:
    """Who asks nothing more for long is let go."""
    with (
        serving(app, Hasty, keep_alive_seconds=1) as at,
        closing(socket.create_connection(("127.0.0.1", at.port), WAIT_SECONDS)) as plain,
    ):
        plain.sendall(request())
        assert b"200 OK" in read_all(plain)
    assert app.ways == ["at once"]


def flood(port: int) -> socket.socket:
    """Send reviews without reading an answer, until nobody takes them any more."""
    plain = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
    plain.settimeout(0.5)
    with suppress(OSError):
        while True:
            plain.sendall(request() * 100)
    return plain


def test_who_never_reads_is_cut_off(app: Noted) -> None:
    """Who sends review after review and takes no answer is not kept for ever."""
    with serving(app, Hasty, keep_alive_seconds=1) as at, closing(flood(at.port)):
        connections = at.server._server.server_state.connections
        assert eventually(lambda: not connections)
