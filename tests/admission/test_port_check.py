"""Whether the TLS port answers: for readiness the last answer counts, for liveness the silence."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from app.admission.certificates import issue
from app.admission.port_check import PortCheck
from app.runtime.http_server import Server, bound
from app.runtime.probes import probes
from app.runtime.tls import ServerTls
from tests.cases import cases
from tests.runtime.serving import WAIT_SECONDS
from tests.stepped_clock import START, SteppedClock

Port = Callable[[], AbstractContextManager[socket.socket]]
REFUSED = "the TLS port does not answer: connection refused"


@contextmanager
def refusing() -> Iterator[socket.socket]:
    """A port that is kept, and not open."""
    with bound("127.0.0.1", 0, "--port", listens=False) as listener:
        yield listener


@contextmanager
def hanging() -> Iterator[socket.socket]:
    """A port whose connections the kernel takes, and nobody else."""
    with bound("127.0.0.1", 0, "--port") as listener:
        yield listener


@contextmanager
def closing_all() -> Iterator[socket.socket]:
    """A port that takes no more connections than it has."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def close_next() -> None:
            listener.accept()[0].close()

        thread = threading.Thread(target=close_next)
        thread.start()
        yield listener
        thread.join(WAIT_SECONDS)


@contextmanager
def answering() -> Iterator[socket.socket]:
    """A port that answers, with a status of no great use."""
    made = issue(("localhost",), START, 365_000)
    listener = bound("127.0.0.1", 0, "--port")
    tls: ssl.SSLContext = ServerTls(made.cert_pem, made.key_pem).context
    server = Server(probes(str, str, bytes), listener, tls)
    server.start("test")
    yield listener
    server.end(WAIT_SECONDS)


class Scene:
    """A check of a port, after which time passes."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        waits: bool = False,
        patience_seconds: float = WAIT_SECONDS,
    ) -> None:
        self.clock = SteppedClock()
        self.waits = waits
        self.check = PortCheck(
            listener.getsockname(),
            lambda: self.waits,
            self.clock,
            patience_seconds=patience_seconds,
        )

    def tick(self, after_seconds: float) -> float:
        """Let time pass, and the check look."""
        self.clock.wait(after_seconds)
        return self.check.tick(self.clock.now())


@cases(
    "port waits problem dead",
    {
        "refuses": (refusing, False, REFUSED, f"no review can be answered since 61 s: {REFUSED}"),
        "refuses, for the cluster is not read": (refusing, True, REFUSED, ""),
        "answers": (answering, False, "", ""),
    },
)
def test_silence(port: Port, waits: bool, problem: str, dead: str) -> None:
    """After a minute without an answer that could be expected only a new start helps."""
    with port() as listener:
        scene = Scene(listener, waits=waits)
        scene.tick(61)

        assert (scene.check.problem, scene.check.dead()) == (problem, dead)


def test_looks_load_no_ca() -> None:
    """All looks share a context, which trusts every certificate and has no CA to load."""
    with answering() as listener:
        scene = Scene(listener)
        tls = scene.check._tls
        assert [scene.tick(1) for _ in range(2)] == [5.0, 5.0]

    assert scene.check._tls is tls
    assert (tls.verify_mode, tls.cert_store_stats()["x509"]) == (ssl.CERT_NONE, 0)


def test_a_process_that_hangs_is_dead() -> None:
    """A connection that the kernel takes, and nobody else, is no sign of life."""
    with hanging() as listener:
        scene = Scene(listener, patience_seconds=0.05)
        scene.tick(61)

        assert scene.check.problem.endswith("timed out")
        assert scene.check.dead() == f"no review can be answered since 61 s: {scene.check.problem}"


def test_a_full_house_is_not_dead() -> None:
    """A port that closes connections is not ready, and starting it again would not help."""
    with closing_all() as listener:
        scene = Scene(listener)
        scene.tick(61)

        assert scene.check.problem.startswith("the TLS port does not answer: ")
        assert scene.check.dead() == ""


def test_a_check_that_hangs_is_a_silence() -> None:
    """Liveness asks for the time of the last answer, not for that of the last look."""
    with answering() as listener:
        scene = Scene(listener)
        assert scene.tick(1) == 5.0
        scene.clock.wait(60)
        assert scene.check.dead() == ""
        scene.clock.wait(1)
        assert scene.check.dead() == "no review can be answered since 61 s: not tried"


def test_the_minute_begins_when_the_waiting_ends() -> None:
    """The time for which the cluster was read does not count."""
    with refusing() as listener:
        scene = Scene(listener, waits=True)
        assert scene.tick(600) == 0.5
        scene.waits = False
        scene.clock.wait(60)
        assert scene.check.dead() == ""
        scene.clock.wait(1)
        assert scene.check.dead() != ""


def test_not_tried_yet() -> None:
    """Before the first look we are not ready, but alive."""
    with refusing() as listener:
        scene = Scene(listener)
        assert scene.check.problem == "the TLS port was not tried yet"
        assert scene.check.dead() == ""
