"""Workers are kept by their supervisor alone."""

from __future__ import annotations

import signal
import socket
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from app.admission.core.rotation import CertificateSet
from app.admission.workers import Order, WorkerPool, WorkerReport
from tests.waiting import eventually


def tell_blocked(
    _listener: socket.socket, _certificates: CertificateSet, supervisor: Connection
) -> None:
    """Report which signals are kept from a worker when it begins; end when told to."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    supervisor.send(
        WorkerReport(",".join(sorted(signal.Signals(number).name for number in blocked)))
    )
    while supervisor.recv() is not Order.STOP:
        pass


def test_signals_do_not_reach_young_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a terminal sends to all processes is kept from workers that begin, not from us."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # where workers find this file
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        pool = WorkerPool(tell_blocked, [listener])
        pool.serve(CertificateSet("", "", ""))

        def problem() -> str:
            pool.tend()
            return pool.problem()

        try:
            assert eventually(lambda: problem() == "SIGINT,SIGTERM")
        finally:
            pool.stop(10.0)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
