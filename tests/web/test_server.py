"""A server answers on its socket, drains when it ends, and cuts off who never finishes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import orjson
import pytest

from app.model.errors import BadSetting
from app.model.lookups import Found, Lookup
from app.web.application import webhook
from app.web.endpoints import MOST_BYTES
from app.web.promptness import PromptProtocol
from app.web.server import bound
from tests import make
from tests.waiting import eventually
from tests.web.reviewing import UNREADABLE, WEB, Desk, desk
from tests.web.serving import HEAD, WAIT_SECONDS, Served, read_all, serving

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

POD = orjson.dumps(make.review_json(make.pod_json(cpu="100m")))


class Hasty(PromptProtocol):
    """A connection on which a request has little time."""

    seconds = 0.2


@pytest.fixture
def at() -> Iterator[Served]:
    """Serve reviews."""
    with serving(webhook(desk(*WEB).reviewer)) as served:
        yield served


def test_reviews_over_one_connection(at: Served) -> None:
    """A connection is kept for the next review, whatever the one before was."""
    with at.client() as client:
        for body in (POD, b"{", POD):
            answer = client.post("/mutate?timeout=5s", content=body)
            assert answer.status_code == 200
            assert "connection" not in answer.headers
        assert answer.headers.keys() == {"content-type", "content-length"}


def test_pipelined_reviews(at: Served) -> None:
    """Reviews that are sent without waiting are answered in their order."""
    length = b"Content-Length: %d\r\n" % len(POD)
    one = HEAD + length + b"\r\n" + POD
    last = HEAD + b"Content-Length: 1\r\nConnection: close\r\n\r\n{"
    found = at.exchange(one * 20 + last)
    assert found.count(b"HTTP/1.1 200 OK") == 21
    assert found.endswith(UNREADABLE)


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"Content-Length: %d\r\n\r\n" % (MOST_BYTES + 1), id="declared"),
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n", id="streamed"),
    ],
)
def test_too_large(at: Served, rest: bytes) -> None:
    """Who sends too much is told so and cut off; nothing piles up."""
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    found = at.exchange(HEAD + rest, *([chunk] * 200))
    assert found.startswith(b"HTTP/1.1 413 ") or not found  # a reset may overtake the answer


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(
            [b"POST /mutate HTTP/1.1\r\n", b"A: " + b"x" * 65_536, *([b"x" * 65_536] * 200)],
            id="a header without end",
        ),
        pytest.param(
            [b"POST /mutate HTTP/1.1\r\n", *([b"A: b\r\n" * 10_000] * 200)],
            id="headers without end",
        ),
        pytest.param([b"POST /", *([b"x" * 65_536] * 200)], id="a path without end"),
        pytest.param(
            [HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", *([b"A: b\r\n" * 10_000] * 200)],
            id="trailers without end",
        ),
        pytest.param(
            [
                HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
                *([b"1;" + b"x" * 65_536 + b"\r\n \r\n"] * 200),
            ],
            id="chunks full of nothing",
        ),
    ],
)
def test_requests_without_end(at: Served, parts: list[bytes]) -> None:
    """What belongs to a request beside its body has an end as well."""
    found = at.exchange(*parts)
    assert not found or found.startswith(b"HTTP/1.1 400 ")
    with at.client() as client:
        assert client.post("/mutate", content=POD).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\r\n", id="an empty line"),
        pytest.param(b"POST /mut", id="half a line"),
        pytest.param(HEAD, id="half a head"),
        pytest.param(HEAD + b"Content-Length: 5\r\n\r\n{", id="half a body"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", id="half the chunks"),
        pytest.param(HEAD + b"Content-Length: 1\r\n\r\n{" + HEAD, id="half the second one"),
    ],
)
def test_requests_that_stop(sent: bytes) -> None:
    """Who does not finish a request within its time is cut off."""
    with serving(webhook(desk(*WEB).reviewer), Hasty) as at:
        found = at.exchange(sent)
    assert found.count(b"HTTP/1.1 200 ") == sent.count(b"Length: 1\r\n")


def test_empty_lines_keep_no_connection() -> None:
    """What is sent between two requests and belongs to none begins the time of the next."""
    with (
        serving(webhook(desk(*WEB).reviewer), Hasty) as at,
        closing(socket.create_connection(("127.0.0.1", at.port), WAIT_SECONDS)) as plain,
    ):
        plain.sendall(HEAD + b"Content-Length: 1\r\n\r\n{")
        while not plain.recv(65_536).endswith(UNREADABLE[-10:]):
            pass
        plain.sendall(b"\r\n")
        assert read_all(plain) == b""


async def talkative(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer with more than any buffer between two sockets holds."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    size = 50_000_000 if scope["path"] == "/long" else 1
    await send({"type": "http.response.body", "body": b"x" * size})


@pytest.mark.parametrize("path", ["/long", "/short"])
def test_answers_that_nobody_reads(path: str) -> None:
    """Who does not read his answer is cut off like one who sends nothing any more."""
    with serving(talkative, keep_alive_seconds=1) as at:
        connections = at.server._server.server_state.connections
        with closing(socket.create_connection(("127.0.0.1", at.port), WAIT_SECONDS)) as plain:
            plain.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert eventually(lambda: bool(connections))
            assert eventually(lambda: not connections)
            found = read_all(plain)
    assert len(found) < 50_000_000
    assert (path == "/short") is found.endswith(b"\r\n0\r\n\r\n")


class Held:
    """Owners that answer when they are told to."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.told = threading.Event()

    def find(self, lookup: Lookup, _deadline_seconds: float, /) -> Found:
        """Wait."""
        self.asked.set()
        assert self.told.wait(WAIT_SECONDS)
        return make.workload(str(lookup.key))


def held(owners: Held) -> Desk:
    """Return a desk that waits for these owners."""
    return desk(make.vpa_json(cpu="1"), owners=owners)


def test_a_slow_answer_is_no_slow_request() -> None:
    """The time of a request is over when it is there; its answer has another."""
    owners, answers = Held(), []
    with serving(webhook(held(owners).reviewer), Hasty) as at, at.client() as client:

        def ask() -> None:
            answers.append(client.post("/mutate", content=POD))

        asking = threading.Thread(target=ask)
        asking.start()
        assert owners.asked.wait(WAIT_SECONDS)
        assert at.exchange(b"") == b""  # which takes as long as a request may
        owners.told.set()
        asking.join(WAIT_SECONDS)
    assert answers[0].status_code == 200


def test_reviews_under_way_are_answered_before_the_end() -> None:
    """A server that is to stop finishes what it has begun, and takes nothing new."""
    owners, answers = Held(), []
    with serving(webhook(held(owners).reviewer)) as at, at.client() as client:

        def ask() -> None:
            answers.append(client.post("/mutate", content=POD))

        asking = threading.Thread(target=ask)
        asking.start()
        assert owners.asked.wait(WAIT_SECONDS)
        at.server.stop()
        owners.told.set()
        asking.join(WAIT_SECONDS)
        at.thread.join(WAIT_SECONDS)
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", at.port), WAIT_SECONDS)
    assert b'"patch"' in answers[0].content


def test_a_port_that_is_taken() -> None:
    """A port that somebody else listens on is told with the flag that asked for it."""
    with closing(bound("127.0.0.1", 0, "--port")) as first:
        port = first.getsockname()[1]
        with pytest.raises(BadSetting) as caught:
            bound("127.0.0.1", port, "--port")
    assert str(caught.value) == f"--port: cannot listen on 127.0.0.1:{port}: Address already in use"


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("192.0.2.1", id="an address of somebody else"),
        pytest.param("no such host", id="no name"),
        pytest.param("x" * 100, id="a name too long to be one"),
        pytest.param("::ffff:192.0.2.1", id="an address of somebody else, the new way"),
    ],
)
def test_addresses_that_are_not_ours(host: str) -> None:
    """An address that cannot be listened on is told in a sentence."""
    with pytest.raises(BadSetting) as caught:
        bound(host, 0, "--address")
    assert str(caught.value).startswith(f"--address: cannot listen on {host}:0: ")


@pytest.mark.parametrize("host", ["", "127.0.0.1", "localhost"])
def test_ports_can_be_shared(host: str) -> None:
    """Several processes listen on one port if all of them agree to."""
    with closing(bound(host, 0, "--port", shared=True)) as first:
        port = first.getsockname()[1]
        with closing(bound(host, port, "--port", shared=True)) as second:
            assert second.getsockname()[1] == port


def test_all_addresses_are_listened_on() -> None:
    """Without a host both kinds of addresses lead here."""
    with closing(bound("", 0, "--port")) as listener:
        for host in ("127.0.0.1", "::1") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
            socket.create_connection((host, listener.getsockname()[1]), WAIT_SECONDS).close()
