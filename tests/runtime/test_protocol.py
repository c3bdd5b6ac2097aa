"""A connection answers at once where it can, cuts off what never finishes, and drains."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import orjson
import pytest

from app.admission.app import Webhook
from app.model.snapshot import Snapshot
from app.model.workloads import Lookup, LookupResult
from app.runtime.bounds import Bounds, PortLimit
from app.runtime.http_requests import MOST_BYTES
from app.runtime.protocol import Write
from app.runtime.tls import ServerTls
from tests import make
from tests.cases import cases
from tests.kube.issuing import issued
from tests.runtime.reviewing import UNREADABLE, WEB, desk
from tests.runtime.serving import HEAD, WAIT_SECONDS, Served, read_all, serving
from tests.waiting import eventually

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

POD = orjson.dumps(make.review_json(make.pod_json(cpu="100m")))
LARGE = orjson.dumps(make.review_json(make.pod_json(annotations={"a": "x" * 100_000})))
UNKNOWN = orjson.dumps(make.review_json(make.pod_json(cpu="100m", owner="StatefulSet/new")))
OTHER = HEAD.replace(b"/mutate", b"/other")
HURRIED = Bounds(request_seconds=0.2)
FIRST_LINE = b"POST /mutate HTTP/1.1\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


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


def request(body: bytes = POD, head: bytes = HEAD, *more: bytes) -> bytes:
    """Return a request with its length."""
    return b"".join((head, *more, b"Content-Length: %d\r\n\r\n" % len(body), body))


EXPECTING = request(POD, HEAD, b"Expect: 100-continue\r\n")
LAST = request(b"{", HEAD, b"Connection: close\r\n")


@pytest.fixture
def app() -> Noted:
    """Return an application with a VPA."""
    return Noted(desk(*WEB).app())


@pytest.fixture
def at(app: Noted) -> Iterator[Served]:
    """Serve it."""
    with serving(app) as served:
        yield served


@cases(
    "parts ways starts",
    {
        "a review": ([request()], ["at once"], [b"200"]),
        "in pieces": ([request()[:700], request()[700:]], ["at once"], [b"200"]),
        "without waiting": ([request() * 10], ["at once", *["later"] * 9], [b"200"] * 10),
        "another path": ([request(head=OTHER)], ["later"], [b"404"]),
        "a PUT": ([request().replace(b"POST", b"PUT")], ["later"], [b"405"]),
        "no JSON": ([request().replace(b"n/js", b"n/x")], ["later"], [b"415"]),
        "asked whether to send": ([EXPECTING], ["later"], [b"100", b"200"]),
        "chunks": ([CHUNKED + b"1\r\n{\r\n", b"0\r\n\r\n"], ["at once"], [b"200"]),
    },
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


VALIDATE = HEAD.replace(b"/mutate", b"/validate")
QUERY = HEAD.replace(b"/mutate", b"/mutate?timeout=5s&dryRun=All")
TRACED = HEAD + b"Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
TEXT = HEAD.replace(b"application/json", b"text/plain")
VPA = orjson.dumps(make.review_json(make.vpa_json("new", target="StatefulSet/other")))
OVERLAP = orjson.dumps(make.review_json(make.vpa_json("new")))
WRONG = orjson.dumps(make.review_json(make.vpa_json("new", min_replicas=-1)))
GONE = orjson.dumps(make.review_json(make.vpa_json("new"), operation="DELETE"))
UPDATE = orjson.dumps(make.review_json(make.pod_json(), operation="UPDATE"))


@cases(
    "body head ways",
    {
        "a pod": (POD, HEAD, ["at once"]),
        "a pod, traced": (POD, TRACED, ["at once"]),
        "a traced pod whose owner is looked up": (UNKNOWN, TRACED, ["later"]),
        "a pod, traced wrongly": (POD, TRACED.replace(b"-0a", b"-0A"), ["at once"]),
        "unreadable, traced": (b"{", TRACED, ["at once"]),
        "unreadable, with a uid": (b'{"request":{"uid":"u","kind":1}}', HEAD, ["at once"]),
        "query parameters": (POD, QUERY, ["at once"]),
        "a pod to be judged": (POD, VALIDATE, ["at once"]),
        "a pod that changes": (UPDATE, HEAD, ["at once"]),
        "a pod whose owner is looked up": (UNKNOWN, HEAD, ["later"]),
        "a large pod": (LARGE, HEAD, ["later"]),
        "a VPA without its mode": (VPA, HEAD, ["later"]),
        "a VPA": (VPA, VALIDATE, ["later"]),
        "a VPA beside another one": (OVERLAP, VALIDATE, ["later"]),
        "a VPA that is refused": (WRONG, VALIDATE, ["later"]),
        "a VPA that is deleted": (GONE, VALIDATE, ["at once"]),
        "unreadable": (b"{", HEAD, ["at once"]),
        "empty": (b"", HEAD, ["at once"]),
        "no review": (b"[]", VALIDATE, ["at once"]),
        "too large": (b" " * (MOST_BYTES + 1), HEAD, ["later"]),
        "wrong content type": (POD, TEXT, ["later"]),
        "another path": (POD, OTHER, ["later"]),
    },
)
def test_both_ways_have_the_same_answer(body: bytes, head: bytes, ways: list[str]) -> None:
    """What is answered at once is byte for byte what the FastAPI operation answers."""
    noted, alone = Noted(desk(*WEB).app()), desk(*WEB).app()

    async def operation(scope: Scope, receive: Receive, send: Send) -> None:
        await alone(scope, receive, send)

    asked = request(body, head, b"Connection: close\r\n")
    with serving(noted) as served:
        prompt = served.exchange(asked)
    with serving(operation) as served:
        late = served.exchange(asked)

    assert noted.ways == ways
    assert prompt.startswith(b"HTTP/1.1 ")
    assert prompt == late


def test_what_is_declined_is_not_begun_again() -> None:
    """A review that needs a look-up is matched at once, and after the look-up, not in between."""
    taken: list[Snapshot] = []

    def snapshot() -> Snapshot:
        taken.append(make.snapshot(*WEB))
        return taken[-1]

    with serving(Noted(desk(snapshot=snapshot).app())) as served:
        served.exchange(request(UNKNOWN, HEAD, b"Connection: close\r\n"))
    assert len(taken) == 2


@cases("is_one", {"in pieces": (False,), "as one": (True,)})
def test_each_request_counts_once(at: Served, is_one: bool) -> None:
    """However requests come, uvicorn is told of each that is answered, one time."""
    found = at.exchange(request() * 5 + LAST) if is_one else at.exchange(*[request()] * 5, LAST)
    assert found.count(b"HTTP/1.1 200") == 6
    state = at.server._server.server_state
    assert eventually(lambda: state.total_requests == 6), state.total_requests


def test_old_clients(app: Noted, at: Served) -> None:
    """A client that cannot keep a connection gets its answer, and the end."""
    found = at.exchange(request().replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert b"\r\nconnection: close\r\n" in found
    assert app.ways == ["at once"]


def test_what_fails_at_once_is_tried_again() -> None:
    """A fault before the answer is the application's to tell."""
    app = Broken(desk(*WEB).app())
    with serving(app) as at:
        assert at.exchange(LAST).endswith(UNREADABLE)
    assert app.ways == ["later"]


# --- limits and time-outs


def test_reviews_over_one_connection(at: Served) -> None:
    """A connection is kept for the next review, whatever the one before was."""
    with at.client() as client:
        for body in (POD, b"{", POD):
            answer = client.post("/mutate?timeout=5s", content=body)
            assert answer.status_code == 200
            assert "connection" not in answer.headers
        assert answer.headers.keys() == {"content-type", "content-length"}


@cases(
    "rest",
    {
        "declared": (b"Content-Length: %d\r\n\r\n" % (MOST_BYTES + 1),),
        "streamed": (b"Transfer-Encoding: chunked\r\n\r\n",),
    },
)
def test_too_large(at: Served, rest: bytes) -> None:
    """A client that sends too much is told so and cut off; nothing piles up."""
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    found = at.exchange(HEAD + rest, *([chunk] * 200))
    assert found.startswith(b"HTTP/1.1 413 ") or not found  # a reset may overtake the answer


@cases(
    "begin piece",
    {
        "a header without end": (FIRST_LINE + b"A: ", b"x" * 65_536),
        "headers without end": (FIRST_LINE, b"A: b\r\n" * 10_000),
        "a path without end": (b"POST /", b"x" * 65_536),
        "trailers without end": (CHUNKED + b"0\r\n", b"A: b\r\n" * 10_000),
        "chunks full of nothing": (CHUNKED, b"1;" + b"x" * 65_536 + b"\r\n \r\n"),
    },
)
def test_requests_without_end(at: Served, begin: bytes, piece: bytes) -> None:
    """What belongs to a request beside its body has an end as well."""
    found = at.exchange(begin, *([piece] * 200))
    assert not found or found.startswith(b"HTTP/1.1 400 ")
    with at.client() as client:
        assert client.post("/mutate", content=POD).status_code == 200


@cases(
    "sent",
    {
        "nothing": (b"",),
        "an empty line": (b"\r\n",),
        "half a line": (b"POST /mut",),
        "half a head": (HEAD,),
        "half a body": (HEAD + b"Content-Length: 5\r\n\r\n{",),
        "half the chunks": (CHUNKED + b"1\r\n{\r\n",),
        "half the second one": (HEAD + b"Content-Length: 1\r\n\r\n{" + HEAD,),
    },
)
def test_requests_that_stop(sent: bytes) -> None:
    """A request that is not whole within its time is cut off."""
    with serving(desk(*WEB).app(), bounds=HURRIED) as at:
        found = at.exchange(sent)
    assert found.count(b"HTTP/1.1 200 ") == sent.count(b"Length: 1\r\n")


def test_empty_lines_keep_no_connection() -> None:
    """What is sent between two requests and belongs to none begins the time of the next."""
    with (
        serving(desk(*WEB).app(), bounds=HURRIED) as at,
        at.connected() as plain,
    ):
        plain.sendall(HEAD + b"Content-Length: 1\r\n\r\n{")
        while not plain.recv(65_536).endswith(UNREADABLE[-10:]):
            pass
        plain.sendall(b"\r\n")
        assert read_all(plain) == b""


HALF_BODY = HEAD + b"Content-Length: 90000\r\n\r\n" + b" " * 50_000


@cases(
    "bound bounds sent",
    {
        "requests behind another": (
            PortLimit.WAITING_REQUESTS,
            Bounds(waiting_requests=2),
            request() * 4,
        ),
        "many headers": (PortLimit.HEADERS, Bounds(), request(POD, HEAD, b"a: b\r\n" * 200)),
        "many headers, without end": (PortLimit.HEADERS, Bounds(), HEAD + b"a: b\r\n" * 200),
        "many trailers": (PortLimit.HEADERS, Bounds(), CHUNKED + b"0\r\n" + b"a: b\r\n" * 200),
        "a long head": (PortLimit.HEAD_BYTES, Bounds(), FIRST_LINE + b"a: " + b"x" * 100_000),
        "a long body": (PortLimit.REQUEST_BYTES, Bounds(request_bytes=20_000), HALF_BODY),
        "much of all": (PortLimit.RECEIVED_BYTES, Bounds(received_bytes=20_000), HALF_BODY),
        "a slow request": (PortLimit.REQUEST_SECONDS, HURRIED, HEAD),
    },
)
def test_bounds(bound: PortLimit, bounds: Bounds, sent: bytes) -> None:
    """What is beyond a bound is cut off and counted, and others are answered."""
    with serving(desk(*WEB).app(), bounds=bounds) as at:
        found = at.exchange(sent)
        assert at.hits(bound) == 1
        with at.client() as client:
            assert client.post("/mutate", content=POD).status_code == 200
    assert found.count(b"HTTP/1.1 ") <= 3


def test_a_whole_request_without_room() -> None:
    """A request that is whole is refused with 503 if there is no room to let it wait."""
    bounds = Bounds(received_bytes=20_000)
    with serving(desk(*WEB).app(), bounds=bounds) as at, at.client() as client:
        assert client.post("/other", content=b" " * 30_000).status_code == 503
        assert at.hits(PortLimit.RECEIVED_BYTES) == 1


def has_connections(at: Served, count: int) -> bool:
    """Whether so many are open."""
    return len(at.server._server.server_state.connections) == count


@cases(
    "asked lost",
    {
        "the one that never asked": ([False, True, False], 0),
        "the one that asked longer ago": ([True, True, False], 0),
        "not one that asked": ([True, False, False], 1),
    },
)
def test_a_connection_too_many(app: Noted, asked: list[bool], lost: int) -> None:
    """A new connection takes the place of the one that will be missed least."""
    with serving(app, bounds=Bounds(connections=2)) as at, ExitStack() as stack:
        opened = []
        for asks in asked:
            opened.append(plain := stack.enter_context(at.connected()))
            assert eventually(partial(has_connections, at, min(len(opened), 2)))
            if asks:
                plain.sendall(request())
                assert plain.recv(65_536)
        assert read_all(opened[lost]) == b""
        assert at.hits(PortLimit.CONNECTIONS) == 1
        opened[2].sendall(LAST)
        assert read_all(opened[2]).endswith(UNREADABLE)


async def endless(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer nothing for as long as the client is there, but for one path."""
    while scope["path"] != "/short" and (await receive())["type"] != "http.disconnect":
        pass
    await talkative(scope, receive, send)


def test_connections_that_all_wait_for_an_answer() -> None:
    """A crowd whose answers take long keeps no others out: those that wait longest go first."""
    with serving(endless, bounds=Bounds(connections=3)) as at, ExitStack() as stack:
        opened = []
        for count in range(1, 4):
            opened.append(plain := stack.enter_context(at.connected()))
            plain.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            assert eventually(partial(has_tasks, at, count))
        with at.client() as client:
            assert client.get("/short").status_code == 200
        assert read_all(opened[0]) == b""
        assert at.hits(PortLimit.CONNECTIONS) == 1
        assert eventually(partial(has_tasks, at, 2))


def has_tasks(at: Served, count: int) -> bool:
    """Whether the application is at so many requests."""
    return len(at.server._server.server_state.tasks) == count


@cases(
    "bound bounds",
    {
        "too slow": (PortLimit.HANDSHAKE_SECONDS, Bounds(handshake_seconds=0.2)),
        "too many": (PortLimit.HANDSHAKES, Bounds(handshakes=1)),
    },
)
def test_handshakes_without_end(bound: PortLimit, bounds: Bounds) -> None:
    """A client that never ends its handshake is cut off, at last when another one begins."""
    pair = issued("localhost", make.NOW)
    tls = ServerTls(pair.pem, pair.key_pem()).context
    with (
        serving(desk(*WEB).app(), bounds=bounds, tls=tls) as at,
        at.connected() as first,
        at.connected(),
    ):
        assert read_all(first) == b""
        assert eventually(lambda: at.hits(bound) >= 1)


def test_answers_of_all_that_are_not_read() -> None:
    """Of several clients that do not read, the first one is cut off when it gets too much."""
    bounds = Bounds(unread_bytes=60_000_000)
    with serving(talkative, bounds=bounds) as at, at.connected() as first, at.connected() as second:
        for plain in (first, second):
            plain.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
            assert plain.recv(1)
        assert eventually(lambda: at.hits(PortLimit.UNREAD_BYTES) == 1)
        assert len(read_all(first)) < 50_000_000
        second.sendall(b"GET /short HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert len(read_all(second)) > 50_000_000


async def talkative(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer with more than any buffer between two sockets holds."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    size = 50_000_000 if scope["path"] == "/long" else 1
    await send({"type": "http.response.body", "body": b"x" * size})


@pytest.mark.parametrize("path", ["/long", "/short"])
def test_answers_that_are_not_read(path: str) -> None:
    """A client that does not read its answer is cut off like one that sends nothing."""
    with serving(talkative, bounds=HURRIED, keep_alive_seconds=1) as at:
        connections = at.server._server.server_state.connections
        with at.connected() as plain:
            plain.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert eventually(lambda: bool(connections))
            assert eventually(lambda: not connections)
            found = read_all(plain)
    assert len(found) < 50_000_000
    assert (path == "/short") is found.endswith(b"\r\n0\r\n\r\n")


def test_idle_connections_are_closed(app: Noted) -> None:
    """A connection without a request for long is closed."""
    with (
        serving(app, bounds=HURRIED, keep_alive_seconds=1) as at,
        at.connected() as plain,
    ):
        plain.sendall(request())
        assert b"200 OK" in read_all(plain)
    assert app.ways == ["at once"]


def flood(port: int) -> socket.socket:
    """Send reviews without reading an answer, until they are taken no more."""
    plain = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
    plain.settimeout(0.5)
    with suppress(OSError):
        while True:
            plain.sendall(request() * 100)
    return plain


def test_a_flood_without_reading_is_cut_off(app: Noted) -> None:
    """A client that sends review after review and takes no answer is not kept for ever."""
    with serving(app, bounds=HURRIED, keep_alive_seconds=1) as at, closing(flood(at.port)):
        connections = at.server._server.server_state.connections
        assert eventually(lambda: not connections)


class Held:
    """Owners that answer when they are told to."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.told = threading.Event()

    def find(self, lookup: Lookup, _deadline_seconds: float, /) -> LookupResult:
        """Wait."""
        self.asked.set()
        assert self.told.wait(WAIT_SECONDS)
        return make.workload(str(lookup.key))


@contextmanager
def held_review(
    bounds: Bounds | None = None,
) -> Iterator[tuple[Served, Held, Future[httpx.Response]]]:
    """A server, the owners that hold up the review of a pod, and its answer."""
    owners = Held()
    app = desk(make.vpa_json(cpu="1"), owners=owners).app()
    with (
        serving(app, bounds=bounds) as at,
        at.client() as client,
        ThreadPoolExecutor(1) as pool,
    ):
        answer = pool.submit(client.post, "/mutate", content=POD)
        assert owners.asked.wait(WAIT_SECONDS)
        yield at, owners, answer


def test_a_slow_answer_is_no_slow_request() -> None:
    """The time of a request is over when it is there; its answer has another."""
    with held_review(HURRIED) as (at, owners, answer):
        assert at.exchange(b"") == b""  # which takes as long as a request may
        owners.told.set()
        assert answer.result(WAIT_SECONDS).status_code == 200


# --- the end


def test_a_server_that_drains_sends_clients_elsewhere(app: Noted, at: Served) -> None:
    """The next answer on each connection is the last one there, and says so."""
    with at.client() as client:
        plain = client.post("/mutate", content=POD)
        at.server.drain()
        last = [client.post("/mutate", content=POD), client.get("/other")]
    assert "connection" not in plain.headers
    assert [answer.headers["connection"] for answer in last] == ["close", "close"]
    assert last[0].content == plain.content
    assert app.ways == ["at once", "later", "later"]


@contextmanager
def half_sent(at: Served) -> Iterator[socket.socket]:
    """A connection with one review that was answered, and the first half of another."""
    with at.connected() as plain:
        plain.sendall(request() + request()[:700])
        while not plain.recv(65_536).endswith(b"}"):
            pass
        yield plain


def test_a_review_that_arrives_while_draining_begins_is_the_last(app: Noted, at: Served) -> None:
    """A request that began before is answered, and its connection is closed after that."""
    with half_sent(at) as plain:
        at.server.drain()
        plain.sendall(request()[700:])
        found = read_all(plain)
    assert b"\r\nconnection: close\r\n" in found
    assert b'"patch"' in found
    assert app.ways == ["at once", "later"]


def is_closed(port: int) -> bool:
    """Whether a port is closed."""
    try:
        socket.create_connection(("127.0.0.1", port), WAIT_SECONDS).close()
    except ConnectionRefusedError:
        return True
    return False


def test_half_a_review_is_awaited_at_the_end(app: Noted, at: Served) -> None:
    """A server that is to stop answers whose review is on its way."""
    with half_sent(at) as plain:
        at.server.stop()
        assert eventually(lambda: is_closed(at.port))
        plain.sendall(request()[700:])
        found = read_all(plain)
    assert b"\r\nconnection: close\r\n" in found
    assert b'"patch"' in found
    assert app.ways == ["at once", "at once"]


def test_reviews_under_way_are_answered_before_the_end() -> None:
    """A server that is to stop finishes what it has begun, and takes nothing new."""
    with held_review() as (at, owners, answer):
        at.server.stop()
        owners.told.set()
        assert b'"patch"' in answer.result(WAIT_SECONDS).content
        at.thread.join(WAIT_SECONDS)
        assert is_closed(at.port)
