"""What is held for clients has an end; every limit that is reached is counted, seldom logged."""

from __future__ import annotations

import logging
import socket
import ssl
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from app.admission.metrics import ReviewLimit
from app.ports import LookupLimit
from app.runtime.bounds import Bounds, HeldBytes, LimitReport, PortLimit
from app.runtime.logs import OncePerMinute
from app.runtime.tls import ServerTls
from tests import make
from tests.cases import cases
from tests.kube.issuing import issued
from tests.runtime.serving import Served, serving
from tests.stepped_clock import SteppedClock
from tests.waiting import eventually

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


@dataclass(eq=False)
class Connection:
    """Holds something."""

    cuts: list[PortLimit] = field(default_factory=list)

    def cut_off(self, bound: PortLimit, /) -> None:
        """Note that it has to end."""
        self.cuts.append(bound)


def test_every_bound_has_a_name() -> None:
    """Whatever a port bounds can be counted; only questions that wait are bounded elsewhere."""
    assert {*PortLimit} == {*Bounds.__slots__, PortLimit.WAITING_QUESTIONS}


def test_who_holds_longest_goes_first() -> None:
    """The one that needs room last is not the one that is cut off."""
    held = HeldBytes(PortLimit.RECEIVED_BYTES, 10)
    first, second, third = Connection(), Connection(), Connection()
    assert held.take(first, 4)
    assert held.take(second, 4)
    assert held.take(first, 5)  # still the first one
    assert held.take(third, 6)
    assert [one.cuts for one in (first, second, third)] == [[PortLimit.RECEIVED_BYTES], [], []]


def test_who_holds_longest_may_not_hold_more() -> None:
    """A connection that would have to make room for itself gets none."""
    held = HeldBytes(PortLimit.RECEIVED_BYTES, 10)
    first, second = Connection(), Connection()
    assert held.take(first, 5)
    assert held.take(second, 5)
    assert not held.take(first, 6)
    assert second.cuts == []


def test_what_is_kept_takes_room() -> None:
    """What no connection can give back counts as well, until it is released."""
    held = HeldBytes(PortLimit.RECEIVED_BYTES, 10)
    held.keep(8)
    assert not held.take(Connection(), 3)
    held.release(8)
    assert held.has_room(7)


# --- connections of several addresses

CROWD, API_SERVER = "127.0.0.1", "127.0.0.2"
PLACES = 40
ASK = b"GET /short HTTP/1.1\r\nHost: x\r\n\r\n"
NEVER_ANSWERED = b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n"


async def slow(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one path at once, others never."""
    while scope["path"] != "/short" and (await receive())["type"] != "http.disconnect":
        pass
    headers = [(b"content-length", b"1")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"!"})


def is_answered(connection: socket.socket) -> bool:
    """Whether a request over a connection has an answer."""
    found = b""
    with suppress(OSError):
        connection.sendall(ASK)
        while not found.endswith(b"!") and (piece := connection.recv(65_536)):
            found += piece
    return found.endswith(b"!")


def crowd(at: Served, stack: ExitStack, sent: bytes) -> None:
    """Open more connections from one address than there are places, and send something."""
    before = at.hits(PortLimit.CONNECTIONS)
    for _ in range(2 * PLACES):
        plain = stack.enter_context(at.connected(CROWD))
        if sent == ASK:
            is_answered(plain)
        else:
            plain.sendall(sent)
    assert eventually(lambda: at.hits(PortLimit.CONNECTIONS) >= before + PLACES)


@cases(
    "sent",
    {
        "never asking": (b"",),
        "in the middle of a request": (b"GET /short",),
        "having asked once": (ASK,),
        "waiting for answers": (NEVER_ANSWERED,),
    },
)
def test_a_crowd_costs_other_addresses_nothing(sent: bytes) -> None:
    """Neither an idle connection of another client is cut off, nor a new one that asks late."""
    with serving(slow, bounds=Bounds(connections=PLACES)) as at, ExitStack() as stack:
        idle = stack.enter_context(at.connected(API_SERVER))
        assert is_answered(idle)
        crowd(at, stack, sent)
        new = stack.enter_context(at.connected(API_SERVER))
        crowd(at, stack, sent)
        assert [is_answered(idle), is_answered(new)] == [True, True]


def test_a_crowd_of_handshakes_costs_other_addresses_nothing() -> None:
    """Half-open connections take no place of another client, and do not end its handshake."""
    pair = issued("localhost", make.NOW)
    bounds = Bounds(connections=PLACES, handshakes=PLACES // 2)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

    def half_open(at: Served, stack: ExitStack) -> None:
        before = at.hits(PortLimit.HANDSHAKES)
        for _ in range(2 * PLACES):
            stack.enter_context(at.connected(CROWD))
        assert eventually(lambda: at.hits(PortLimit.HANDSHAKES) >= before + PLACES)

    tls = ServerTls(pair.pem, pair.key_pem()).context
    with serving(slow, bounds=bounds, tls=tls) as at, ExitStack() as stack:
        idle = stack.enter_context(at.connected(API_SERVER))
        secure = stack.enter_context(trusting.wrap_socket(idle))
        assert is_answered(secure)
        half_open(at, stack)
        new = stack.enter_context(at.connected(API_SERVER))
        half_open(at, stack)
        assert is_answered(secure)
        assert is_answered(stack.enter_context(trusting.wrap_socket(new)))


def test_answers_are_given_where_no_address_has_most_places() -> None:
    """Of many addresses the largest may be an API server: nothing it waits for is cut off."""
    with serving(slow, bounds=Bounds(connections=PLACES)) as at, ExitStack() as stack:
        waiting = [stack.enter_context(at.connected(API_SERVER)) for _ in range(PLACES // 4)]
        for plain in waiting:
            plain.sendall(NEVER_ANSWERED)
        for number in range(3 * PLACES):
            is_answered(stack.enter_context(at.connected(f"127.0.1.{number % 30}")))
        assert at.hits(PortLimit.CONNECTIONS) > 0
        for plain in waiting:
            plain.settimeout(0.0)
            with pytest.raises(BlockingIOError):  # neither an answer nor an end
                plain.recv(1)


NAME = "plumbline_limits_reached_total"


def counted(registry: CollectorRegistry, limit: str) -> float | None:
    """Return how often a limit was reached, None if it is not known."""
    return registry.get_sample_value(NAME, {"limit": limit})


def test_limits(caplog: pytest.LogCaptureFixture) -> None:
    """The log names each limit once a minute, with how often it was reached since."""
    registry, clock = CollectorRegistry(), SteppedClock()
    report = LimitReport(registry, ReviewLimit, clock.monotonic)
    for _ in range(3):
        report.reached(LookupLimit.OWNERS_KEPT, namespace="a")
    report.reached(ReviewLimit.PENDING_VPAS, 10)
    clock.wait(59)
    report.reached(LookupLimit.OWNERS_KEPT, namespace="b")
    clock.wait(1)
    report.reached(LookupLimit.OWNERS_KEPT, namespace="c")

    lines = [(line.name, line.levelno, line.message) for line in caplog.records]
    assert lines == [("runtime.limits", logging.WARNING, "limit reached")] * 3
    told = [(one.limit, one.times, vars(one).get("namespace")) for one in caplog.records]  # type: ignore[attr-defined]  # by extra
    assert told == [("owners_kept", 1, "a"), ("pending_vpas", 10, None), ("owners_kept", 4, "c")]
    assert (counted(registry, "owners_kept"), counted(registry, "pending_vpas")) == (5, 10)


def test_limits_are_counted_from_the_start() -> None:
    """Alerts see the first time; a process has no series for limits of another one."""
    registry = CollectorRegistry()
    LimitReport(registry)
    assert {counted(registry, limit) for limit in (*PortLimit, *LookupLimit)} == {0.0}
    assert counted(registry, ReviewLimit.PENDING_VPAS) is None


def test_each_word_has_its_own_minute() -> None:
    """What happens between two lines is told with the second one, whatever else is told."""
    clock = SteppedClock()
    lines = OncePerMinute(clock.monotonic)
    found = [lines.due("a"), lines.due("a", 5), lines.due("b")]
    clock.wait(60)
    assert [*found, lines.due("a"), lines.due("a")] == [1, 0, 1, 6, 0]
