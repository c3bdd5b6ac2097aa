"""Workers are kept by their supervisor alone."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from app.admission.core.rotation import CertificateSet
from app.admission.workers import Order, Work, WorkerPool, WorkerReport
from app.runtime.http_server import bound
from tests.stepped_clock import SteppedClock
from tests.waiting import eventually

NO_CERTIFICATES = CertificateSet("", "", "")
REPLACED = "vpa_admission_controller_replaced_workers_total"


def tell_blocked(
    _listener: socket.socket, _certificates: CertificateSet, supervisor: Connection
) -> None:
    """Report which signals are kept from a worker when it begins; end when told to."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    supervisor.send(
        WorkerReport(",".join(sorted(signal.Signals(number).name for number in blocked)))
    )
    _wait_for_end(supervisor)


def tell_once(
    listener: socket.socket, _certificates: CertificateSet, supervisor: Connection
) -> None:
    """Listen, report our number, and never again."""
    listener.listen()
    supervisor.send(WorkerReport(str(os.getpid()), is_waiting=True))
    _wait_for_end(supervisor)


def tell_nothing(
    _listener: socket.socket, _certificates: CertificateSet, supervisor: Connection
) -> None:
    """Hang from the start."""
    _wait_for_end(supervisor)


def _wait_for_end(supervisor: Connection) -> None:
    while supervisor.recv() is not Order.STOP:
        pass


class Scene:
    """One worker, and the time of its supervisor."""

    def __init__(self, pool: WorkerPool, clock: SteppedClock, port: int) -> None:
        self.pool = pool
        self.clock = clock
        self._port = port

    def told(self, holds: Callable[[str], bool]) -> bool:
        """Wait until what is told of the worker is so."""

        def look() -> bool:
            self.pool.tend()
            return holds(self.pool.problem())

        return eventually(look)

    def pass_time(self, seconds: int) -> None:
        """Let time pass, in which the supervisor looks every second."""
        for _ in range(seconds):
            self.clock.wait(1)
            self.pool.tend()

    def worker(self) -> int:
        """Return the process that answers, once it has said so."""
        assert self.told(str.isdigit)
        return int(self.pool.problem())

    def is_open(self) -> bool:
        """Say whether somebody listens."""
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self._port)) == 0

    def replaced(self, reason: str) -> float | None:
        """Return how many workers were replaced."""
        return self.pool.registry.get_sample_value(REPLACED, {"reason": reason})


@contextmanager
def kept(work: Work, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Keep a worker until the block ends."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # where workers find this file
    clock = SteppedClock()
    with closing(bound("127.0.0.1", 0, "--port", shared=True, listens=False)) as reserved:
        pool = WorkerPool(work, reserved, 1, clock)
        pool.use_certificates(NO_CERTIFICATES)
        try:
            yield Scene(pool, clock, reserved.getsockname()[1])
        finally:
            pool.stop(10.0)


def test_signals_do_not_reach_young_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a terminal sends to all processes is kept from workers that begin, not from us."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with kept(tell_blocked, monkeypatch) as scene:
        assert scene.told(lambda problem: problem == "SIGINT,SIGTERM")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_worker_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that said something and then nothing for 20 s gives way to another one."""
    with kept(tell_once, monkeypatch) as scene:
        first = scene.worker()
        scene.pass_time(20)
        assert scene.worker() == first
        scene.pass_time(1)
        assert scene.worker() != first
        assert (scene.replaced("hung"), scene.replaced("ended")) == (1, 0)


def test_who_hung_himself_excuses_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a pause of all processes, as of a frozen container, silence is counted from its end."""
    with kept(tell_once, monkeypatch) as scene:
        first = scene.worker()
        scene.clock.wait(600)
        scene.pass_time(20)
        assert scene.worker() == first
        assert scene.replaced("hung") == 0


def test_a_worker_may_begin_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the first word may take a minute, and no longer."""
    with kept(tell_nothing, monkeypatch) as scene:
        scene.pass_time(60)
        assert scene.replaced("hung") == 0
        scene.pass_time(1)
        assert scene.replaced("hung") == 1


def test_a_worker_that_ends_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a worker its socket goes, so that others get what comes; then a new one begins."""
    with kept(tell_once, monkeypatch) as scene:
        first = scene.worker()
        assert scene.is_open()
        os.kill(first, signal.SIGKILL)
        assert scene.told(lambda problem: problem == "worker 0 is not running")
        assert not scene.is_open()
        scene.pass_time(3)
        assert scene.worker() != first
        assert (scene.replaced("hung"), scene.replaced("ended")) == (0, 1)


def test_reading_is_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that read the cluster are waited for; one that is silent or gone is not."""
    with kept(tell_once, monkeypatch) as scene:
        assert not scene.pool.is_waiting()
        os.kill(scene.worker(), signal.SIGSTOP)
        assert scene.pool.is_waiting()
        scene.pass_time(11)
        assert not scene.pool.is_waiting()
        scene.pass_time(10)
        scene.worker()
        assert scene.pool.is_waiting()
