"""The admission process: what is done besides answering reviews.

Strategy: certificates, registration, heartbeat, health and metrics are here, whatever answers:
usually a server in this process, or several workers of which this process is the supervisor.
Everything periodic is a loop of its own, so that one that hangs holds nothing else up.
Certificates live in real time, as TLS does; the heartbeat in the time of the runtime.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from app.admission.app import description
from app.admission.certificates import judge
from app.admission.certification import Certification, Reloader, in_cluster, local
from app.admission.core.rotation import CertificateSet
from app.admission.flags import AdmissionSettings
from app.admission.heartbeat import Heartbeat, HeartbeatRules
from app.admission.port_check import PortCheck
from app.admission.review_server import ReviewServer, lone_review_server
from app.model.errors import BadSetting
from app.model.times import rfc3339
from app.ports import Clock
from app.runtime.clock import SystemClock
from app.runtime.exposition import ProcessMetrics, new_registry
from app.runtime.garbage import give_back
from app.runtime.http_server import Server, bound, reserved
from app.runtime.lifecycle import stop_events
from app.runtime.live import LiveRuntime, Runtime
from app.runtime.logs import start_logging
from app.runtime.loop import Loop
from app.runtime.probes import probes

log = logging.getLogger("admission.process")

_FIRST_CERTIFICATE_SECONDS: Final = 0.2  # between two looks
_DRAIN_SECONDS: Final = 5.0  # until no Service leads here any more
_LOOP_SECONDS: Final = 1.0  # for the loops to end; one that waits for an answer ends with us
_OPEN_SECONDS: Final = 12.0

if TYPE_CHECKING:
    from app.admission.workers import WorkerPool

Address = tuple[str, int]
Certify = Callable[[Callable[[], str]], Certification]  # gets why reviews are not answered


def serve(settings: AdmissionSettings) -> int:
    """Serve until a signal; return the exit code."""
    start_logging(settings.logging.verbosity)
    give_back()
    stopping, hurrying = stop_events()
    process = admission_process(settings)
    process.start()
    log.info("webhook starts", extra={"port": process.port})
    stopping.wait()
    log.info("stopping")
    process.stop(_DRAIN_SECONDS, _OPEN_SECONDS, hurrying)
    return 0


def admission_process(settings: AdmissionSettings) -> AdmissionProcess:
    """Return the process that is asked for, its ports being open."""
    serving, runtime, count = settings.serving, LiveRuntime(), settings.serving.processes
    if count > 1:
        port = reserved(serving.host, serving.port, "--port")
    else:
        port = bound(serving.host, serving.port, "--port", listens=False)
    health = bound(*serving.address, "--address")
    is_offline = bool(settings.offline.objects)

    def certify(problem: Callable[[], str]) -> Certification:
        if is_offline:
            return local(settings, runtime.clock)
        return in_cluster(settings, runtime.connect(settings.cluster), runtime.clock, problem)

    return AdmissionProcess(
        settings,
        runtime,
        certify,
        _answering(settings, port, runtime),
        health,
        holder="" if is_offline else socket.gethostname(),
        checked=(serving.host or "localhost", port.getsockname()[1]),
    )


def _answering(
    settings: AdmissionSettings, port: socket.socket, runtime: Runtime
) -> ReviewServer | WorkerPool:
    count = settings.serving.processes
    if count == 1:
        return lone_review_server(settings, port, new_registry(), runtime)
    from app.admission import workers  # one process needs none of them

    return workers.WorkerPool(partial(workers.work, settings), port, count)


class AdmissionProcess:
    """Starts everything, and ends it."""

    def __init__(
        self,
        settings: AdmissionSettings,
        runtime: Runtime,
        certify: Certify,
        answering: ReviewServer | WorkerPool,
        health: socket.socket,
        *,
        holder: str,
        checked: Address | None = None,
    ) -> None:
        """`holder` sends the heartbeat, if it is not empty; at `checked` answers are looked for."""
        self._answering = answering
        self._stopping = False
        self._numbers = ProcessMetrics(answering.registry, version("plumbline"))
        self._certification = certify(self.problem)
        self._reloader = Reloader(self._certification, self._serve_certificates)
        given, clock = settings.certificates, SystemClock()
        self._check = PortCheck(checked, self._waits, clock) if checked else None
        self._reloads = given.reload or not given.are_given
        self._loops = [
            Loop("certificates", self._reload, clock),
            Loop("answering", self._tend, clock),
            *([Loop("TLS port", self._check.tick, clock)] if self._check else []),
            *self._certification.loops,
            *([self._heartbeat(settings, runtime, holder)] if holder else []),
        ]
        pages = probes(self._dead, self.problem, answering.scrape, description())
        self._health = Server(pages, health, limits=answering.limits)

    @property
    def port(self) -> int:
        """The HTTPS port that is checked."""
        return self._check.port if self._check else 0

    def start(self) -> None:
        """Begin."""
        self._health.start("health")
        for loop in self._loops:
            loop.start()

    def stop(
        self,
        drain_seconds: float = 0.0,
        open_seconds: float = _LOOP_SECONDS,
        hurrying: threading.Event | None = None,
    ) -> None:
        """Say that we are not ready, send clients elsewhere, answer open reviews, and end.

        A second signal means that there is no time to send clients elsewhere.
        """
        self._stopping = True
        clock = SystemClock()
        until = clock.monotonic() + drain_seconds
        if drain_seconds:
            self._answering.drain()
        with ThreadPoolExecutor(len(self._loops)) as pool:  # each may be in the middle of a wait
            for loop in self._loops:
                pool.submit(loop.stop, _LOOP_SECONDS)
        if hurrying is not None:
            hurrying.wait(max(until - clock.monotonic(), 0.0))
        self._answering.stop(open_seconds)
        self._health.end()

    def problem(self) -> str:
        """Say why reviews cannot be answered as they should; empty if they can."""
        if self._stopping:
            return "stopping"
        if self._reloader.served is None:
            return "there is no certificate yet"
        return self._answering.problem() or (self._check.problem if self._check else "")

    def reachable(self) -> str:
        """Say why API servers do not get answers from us; empty if they do."""
        problem = self.problem()
        if problem or self._reloader.served is None:
            return problem
        return self._certification.trouble(self._reloader.served.certificates)

    def ca_pem(self) -> str:
        """Return the CA that callers have to trust; empty as long as there is none."""
        served = self._reloader.served
        return served.certificates.ca_pem if served is not None else ""

    def _heartbeat(self, settings: AdmissionSettings, runtime: Runtime, holder: str) -> Loop:
        beat = settings.heartbeat
        seconds = beat.interval.total_seconds()
        rules = HeartbeatRules(beat.lease_namespace, beat.lease_name, holder, seconds)
        cluster = runtime.connect(settings.cluster)
        repairs = self._certification.repairs
        heartbeat = Heartbeat(
            cluster,
            rules,
            self.reachable,
            runtime.clock,
            repairs,
            partial(self._certificate_expiry, runtime.clock),
        )
        return runtime.loop("heartbeat", heartbeat.tick, longest_retry_seconds=seconds)

    def _certificate_expiry(self, clock: Clock) -> str:
        """Return until when the certificate that is served is valid, empty if none is.

        It is told by the clock of the runtime, which need not be the one by which TLS judges.
        """
        if (served := self._reloader.served) is None:
            return ""
        ahead = round((clock.now() - SystemClock().now()) / timedelta(minutes=1))
        return rfc3339(judge(served.certificates, ()).not_after + timedelta(minutes=ahead))

    def _reload(self, now: datetime) -> float:
        """Look for certificates; for given ones again only when asked to."""
        if not self._reloads and self._reloader.served is not None:
            return 3600.0
        wait = self._reloader.tick(now)
        return wait if self._reloader.served is not None else _FIRST_CERTIFICATE_SECONDS

    def _serve_certificates(self, certificates: CertificateSet) -> None:
        generation = judge(certificates, ())
        if generation.trouble:
            raise BadSetting(f"the certificate cannot be served: {generation.trouble}")
        self._numbers.certificate_expires(generation.not_after)
        self._answering.use_certificates(certificates)

    def _tend(self, _now: datetime) -> float:
        wait = self._answering.tend()
        for resource, age in self._answering.watch_ages().items():
            self._numbers.watch_age(resource, age)
        return wait

    def _waits(self) -> bool:
        return self._stopping or self._reloader.served is None or self._answering.is_waiting()

    def _dead(self) -> str:
        return self._check.dead() if self._check else ""
