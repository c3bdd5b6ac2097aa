"""Deadlines, broken connections, identity and pacing."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.kube.client import connect
from app.kube.transport import Deadlines
from app.model.errors import NotSent, Refused, TooLate, Unavailable
from app.ports import POD_METRICS, PODS, Ref
from tests.kube.api_server import serving
from tests.kube.connecting import connected, kubeconfig, write


def test_deadline() -> None:
    """A server that does not answer costs the deadline, not more."""
    with (
        serving(PODS) as server,
        connected(server) as cluster,
        server.holding("/pods"),
        pytest.raises(Unavailable, match="GET /api/v1/pods: no answer in time"),
    ):
        cluster.within(0.05).list(PODS)


def test_a_slow_answer_is_given_up() -> None:
    """An answer that comes in drops has a deadline as a whole."""
    with serving(PODS) as server, connected(server, Deadlines(call_seconds=0)) as cluster:
        server.put(PODS, "web-0")
        with pytest.raises(Unavailable, match="took too long"):
            cluster.list(PODS)


def test_usage_may_take_longer() -> None:
    """Usage is gathered as a whole before its first byte comes: it has the time of the call."""
    little = Deadlines(read_seconds=0.05)
    with (
        serving(PODS, POD_METRICS) as server,
        connected(server, little) as cluster,
        ThreadPoolExecutor() as pool,
    ):
        with server.holding("/pods"):
            usage = pool.submit(cluster.list, POD_METRICS)
            with pytest.raises(Unavailable, match="no answer in time"):
                cluster.list(PODS)
        assert usage.result().items == []


def test_a_server_that_is_away() -> None:
    """A server that is away is an error, and when it is back the next call works."""
    with serving(PODS) as server, connected(server) as cluster:
        cluster.list(PODS)
        server.stop()
        with pytest.raises(Unavailable, match="connection refused"):
            cluster.list(PODS)
        server.start()

        assert cluster.list(PODS).items == []


def test_pacing() -> None:
    """Calls beyond the rate wait for their turn, none is turned away."""
    with serving(PODS) as server, connected(server, qps=200) as cluster:
        for _ in range(5):
            cluster.list(PODS)

        assert len(server.requests) == 5


def test_a_turn_that_comes_too_late() -> None:
    """A call whose token would come after its time is refused at once, and never sent."""
    with serving(PODS) as server, connected(server, qps=0.001) as cluster:
        cluster.list(PODS)
        with pytest.raises(TooLate, match="GET /api/v1/pods: not sent"):
            cluster.until(time.monotonic() + 60).list(PODS)

        assert len(server.requests) == 1


def test_a_time_that_is_over() -> None:
    """A call after its time is not sent, and takes no token of others."""
    with serving(PODS) as server, connected(server, qps=0.001) as cluster:
        with pytest.raises(TooLate):
            cluster.until(time.monotonic()).list(PODS)
        cluster.list(PODS)

        assert len(server.requests) == 1


def test_an_answer_after_its_time() -> None:
    """Also an answer is waited for no longer than until the time is over."""
    with (
        serving(PODS) as server,
        connected(server) as cluster,
        server.holding("/pods"),
        pytest.raises(Unavailable, match="no answer in time"),
    ):
        cluster.until(time.monotonic() + 0.05).list(PODS)


def test_a_closed_connection() -> None:
    """What is asked after the end is not sent."""
    with serving(PODS) as server, connected(server) as cluster:
        cluster.close()
        with pytest.raises(NotSent):
            cluster.list(PODS)

        assert server.requests == []


def test_no_burst_is_no_limit() -> None:
    """A client without a burst asks at once, whatever its rate."""
    with serving(PODS) as server, connected(server, qps=0.001, burst=0) as cluster:
        for _ in range(2):
            cluster.list(PODS)

        assert len(server.requests) == 2


def test_who_we_are() -> None:
    """The server learns by which program it is asked."""
    with serving(PODS) as server, connected(server) as cluster:
        cluster.list(PODS)

        assert server.requests[-1].headers["user-agent"] == "plumbline"


def test_unknown_to_the_server() -> None:
    """A token that is not known is refused; the configuration is not read again all the time."""
    with serving(PODS) as server, connected(server) as cluster:
        server.token = "secret"
        for _ in range(3):
            with pytest.raises(Refused):
                cluster.list(PODS)

        assert len(server.requests) == 4


def test_the_time_by_the_server() -> None:
    """Answers and refusals tell the time by the server's clock, unless it cannot be read."""
    with serving(PODS) as server, connected(server) as cluster:
        before = cluster.server_now()
        server.date = "Mon, 05 Jan 2026 10:00:00 GMT"
        server.fail("/pods", 503)
        with pytest.raises(Unavailable):
            cluster.list(PODS)
        told = cluster.server_now()
        server.date = "tomorrow"
        cluster.list(PODS)
        nonsense = cluster.server_now()

    assert (before, nonsense) == (None, None)
    assert told is not None
    assert timedelta(0) <= told - datetime(2026, 1, 5, 10, tzinfo=UTC) < timedelta(minutes=5)


def test_within_shortens_only() -> None:
    """A deadline is never made longer."""
    assert Deadlines(1, 2, 3, 4, 5).within(2.5) == Deadlines(1, 2, 2.5, 4, 5)
    assert Deadlines(not_after=5).until(4).until(6) == Deadlines(not_after=4)


def test_a_connection_closed_under_a_read() -> None:
    """A read whose connection the server closes is sent once more, and not twice."""
    with serving(PODS) as server, connected(server) as cluster:
        server.fail("/pods", 0)
        found = cluster.list(PODS).items
        server.fail("/pods", 0, times=2)
        with pytest.raises(Unavailable, match="connection lost"):
            cluster.list(PODS)

        assert (found, len(server.requests)) == ([], 4)


def test_a_connection_closed_under_a_write() -> None:
    """A write is never sent twice: the first may have been done."""
    with serving(PODS) as server, connected(server) as cluster:
        server.fail("/pods", 0)
        with pytest.raises(Unavailable, match="connection lost"):
            cluster.create(Ref(PODS, "default"), {})

        assert len(server.requests) == 1


def test_a_token_that_cannot_be_sent(tmp_path: Path) -> None:
    """Credentials that fit no header are an error of the call, not of the program."""
    user = {"token": "two\nlines"}
    path = write(tmp_path / "config", kubeconfig("http://127.0.0.1:1", user=user))

    with pytest.raises(Unavailable, match="cannot be sent"):
        connect(path).list(PODS)
