"""Several processes that answer reviews behind one port, and the supervisor that keeps them.

Strategy: each worker has its own socket of the shared port and its own snapshot; the kernel
spreads connections over the sockets that listen, and a worker listens once it knows the cluster.
The supervisor has a socket that never listens, which keeps the port. A pipe joins a worker to its
supervisor: certificates and orders go down, reports come up. When either end dies the other one
notices, because the pipe breaks; a worker that hangs says nothing any more, and is killed.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from app.admission.core.rotation import CertificateSet
from app.admission.flags import AdmissionSettings
from app.admission.metrics import ReviewLimit, WorkerLoss, WorkerMetrics
from app.admission.review_server import ReviewServer, lone_review_server
from app.kube.watch_cache import WatchAge
from app.ports import Clock
from app.runtime.bounds import LimitReport
from app.runtime.clock import SystemClock
from app.runtime.exposition import count_as, render
from app.runtime.garbage import give_back
from app.runtime.http_server import bound_beside
from app.runtime.lifecycle import ignore_stop_signals, stop_signals_blocked
from app.runtime.live import LiveRuntime
from app.runtime.logs import start_logging

log = logging.getLogger("admission.workers")

_TEND_SECONDS: Final = 0.2
_PAUSE_SECONDS: Final = 5.0  # between two looks, until it is us who hung
_MISSED_SECONDS: Final = 10.0  # of silence, until we are not ready
_HUNG_SECONDS: Final = 20.0  # of silence, until a worker is killed
_FIRST_WORD_SECONDS: Final = 60.0  # the same for one that begins, on a machine that is busy
_RESTART_SECONDS: Final = 2.0
_OPEN_SECONDS: Final = 12.0  # for reviews that are open when a worker is told to stop


_STARTING: Final = "starting"


class Order(Enum):
    """What a worker is told besides certificates."""

    DRAIN = auto()  # answer on, but let every answer be the last on its connection
    STOP = auto()  # answer what is open, and end


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker says of itself, every second."""

    problem: str  # why it cannot answer with knowledge of the cluster; empty if it can
    watch_ages: Mapping[str, WatchAge] = field(default_factory=dict)  # by resource
    is_waiting: bool = False  # its port is closed until it has read the cluster


Work = Callable[[socket.socket, CertificateSet, Connection], None]


class WorkerPool:
    """Starts workers, hands them certificates, hears their reports, replaces those that fail."""

    def __init__(
        self, work: Work, reserved: socket.socket, count: int, clock: Clock | None = None
    ) -> None:
        """`reserved` is bound to a port that is shared, and does not listen."""
        self.registry = CollectorRegistry()  # its values lie in files, beside those of the workers
        self.limits = LimitReport(self.registry, ReviewLimit)
        self._clock = clock or SystemClock()
        self._reserved = reserved
        metrics = WorkerMetrics(self.registry)
        self._seats = [_Seat(index, work, reserved, self._clock, metrics) for index in range(count)]
        self._certificates: CertificateSet | None = None
        self._tended_at = self._clock.monotonic()
        self._lock = threading.Lock()

    def use_certificates(self, certificates: CertificateSet) -> None:
        """Let every worker serve a certificate; starts those that are not there."""
        with self._lock:
            self._certificates = certificates
            for seat in self._seats:
                seat.use_certificates(certificates)

    def tend(self) -> float:
        """Hear reports, replace workers that ended or hang; return the seconds until next time."""
        with self._lock:
            now = self._clock.monotonic()
            we_hung, self._tended_at = now - self._tended_at > _PAUSE_SECONDS, now
            for seat in self._seats:
                if we_hung:  # as when the whole container is frozen: none could report
                    seat.excuse()
                seat.hear()
                if self._certificates is not None:
                    seat.tend(self._certificates)
        return _TEND_SECONDS

    def problem(self) -> str:
        """Say why not every worker can answer; empty if all can."""
        return next((found for seat in self._seats if (found := seat.problem)), "")

    def is_waiting(self) -> bool:
        """Say whether no port is open, because every worker is still reading the cluster."""
        return all(seat.is_waiting for seat in self._seats)

    def watch_ages(self) -> Mapping[str, WatchAge]:
        """Return the longest silence of each watch among the workers."""
        ages: dict[str, WatchAge] = {}
        for seat in self._seats:
            for resource, age in seat.report.watch_ages.items():
                ages[resource] = max(age, ages.get(resource, age), key=lambda one: one.seconds)
        return ages

    def scrape(self) -> bytes:
        """Return the metrics of all processes, added up."""
        return render(Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]))

    def drain(self) -> None:
        """Let clients know that they should go elsewhere; workers go on answering."""
        with self._lock:
            for seat in self._seats:
                seat.send(Order.DRAIN)

    def stop(self, seconds: float) -> None:
        """Let workers finish what they are at, and end."""
        with self._lock:
            self._certificates = None
            self._reserved.close()
            until = self._clock.monotonic() + seconds
            for seat in self._seats:
                seat.send(Order.STOP)
            for seat in self._seats:
                seat.end(max(until - self._clock.monotonic(), 0.1))


class _Seat:
    """The place of one worker."""

    def __init__(
        self,
        index: int,
        work: Work,
        reserved: socket.socket,
        clock: Clock,
        metrics: WorkerMetrics,
    ) -> None:
        self._index = index
        self._work = work
        self._reserved = reserved
        self._clock = clock
        self._metrics = metrics
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._heard_at = 0.0
        self._started_at = float("-inf")
        self.report = WorkerReport("not started")

    @property
    def problem(self) -> str:
        if not self._is_alive():
            return f"worker {self._index} is not running"
        if self.report.problem:
            return self.report.problem
        if self._silent_seconds() > _MISSED_SECONDS:
            return f"worker {self._index} is silent"
        return ""

    @property
    def is_waiting(self) -> bool:
        is_heard = self._silent_seconds() <= _MISSED_SECONDS
        return self._is_alive() and is_heard and self.report.is_waiting

    def tend(self, certificates: CertificateSet) -> None:
        if self._process is not None and self._is_alive() and self._hangs():
            seconds = self._silent_seconds()
            log.error("worker hangs", extra={"worker": self._index, "silent_seconds": seconds})
            self._process.kill()
            self._process.join()
            self._metrics.lost(WorkerLoss.HUNG)
            self._start(certificates)
        elif not self._is_alive() and self._age_seconds() > _RESTART_SECONDS:
            self.use_certificates(certificates)

    def use_certificates(self, certificates: CertificateSet) -> None:
        if self._is_alive():
            self.send(certificates)
            return
        if self._process is not None:
            log.error("worker ended", extra={"worker": self._index, "code": self._process.exitcode})
            self._metrics.lost(WorkerLoss.ENDED)
        self._start(certificates)

    def _start(self, certificates: CertificateSet) -> None:
        # A fresh interpreter: forking a process that has threads copies their locks.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        # Only the worker has it, so that it is gone as soon as the worker is.
        with bound_beside(self._reserved) as listener:
            self._process = context.Process(
                target=self._work,
                args=(listener, certificates, theirs),
                name=f"worker-{self._index}",
                daemon=True,
            )
            resource_tracker.ensure_running()  # which would let signals through again
            with stop_signals_blocked():  # until the worker ignores them itself
                self._process.start()
        theirs.close()
        self._pipe = ours
        self._started_at = self._heard_at = self._clock.monotonic()
        self.report = WorkerReport(_STARTING)

    def hear(self) -> None:
        try:
            while self._pipe is not None and self._pipe.poll():
                self.report = self._pipe.recv()
                self._heard_at = self._clock.monotonic()
        except (EOFError, OSError):
            self._pipe = None

    def excuse(self) -> None:
        self._heard_at = self._clock.monotonic()

    def end(self, seconds: float) -> None:
        if self._process is None:
            return
        self._process.join(seconds)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def send(self, message: CertificateSet | Order) -> None:
        try:
            if self._pipe is not None:
                self._pipe.send(message)
        except OSError:
            self._pipe = None

    def _is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def _hangs(self) -> bool:
        is_young = self.report.problem == _STARTING
        return self._silent_seconds() > (_FIRST_WORD_SECONDS if is_young else _HUNG_SECONDS)

    def _silent_seconds(self) -> float:
        return self._clock.monotonic() - self._heard_at

    def _age_seconds(self) -> float:
        return self._clock.monotonic() - self._started_at


# --- in a worker


def work(
    settings: AdmissionSettings,
    listener: socket.socket,
    certificates: CertificateSet,
    supervisor: Connection,
) -> None:
    """Answer reviews until the supervisor says so, or is gone."""
    ignore_stop_signals()  # the supervisor tells when
    count_as(multiprocessing.current_process().name)
    start_logging(settings.logging.verbosity)
    give_back()
    server = lone_review_server(settings, listener, CollectorRegistry(), LiveRuntime())
    threading.Thread(target=_report, args=(supervisor, server), daemon=True).start()
    server.use_certificates(certificates)
    _obey(supervisor, server)
    server.stop(_OPEN_SECONDS)


def _obey(supervisor: Connection, server: ReviewServer) -> None:
    """Take certificates and orders, until told to stop or the supervisor is gone."""
    while True:
        try:
            message = supervisor.recv()
        except (EOFError, OSError):
            return
        match message:
            case Order.STOP:
                return
            case Order.DRAIN:
                server.drain()
            case CertificateSet():
                server.use_certificates(message)


def _report(supervisor: Connection, server: ReviewServer) -> None:
    """Report how the worker stands, again and again, for as long as it answers."""
    pause = threading.Event()
    while True:
        seconds = server.tend()
        report = WorkerReport(server.problem(), server.watch_ages(), server.is_waiting())
        try:
            if not server.hangs():
                supervisor.send(report)
        except (OSError, ValueError):
            return
        pause.wait(seconds)
