"""The admission process: its workers, and what is done once for all of them.

Strategy: this process keeps, its workers answer. It owns certificates, registration, heartbeat,
health and metrics; everything periodic is a loop of its own, so that one that hangs holds
nothing else up.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry

from app.admission.certificates import judge
from app.admission.certification import Certification, in_cluster, local
from app.admission.crew import Crew
from app.admission.flags import AdmissionSettings
from app.admission.heartbeat import Heartbeat, HeartbeatRules
from app.admission.reloader import Reloader, ReloadRules
from app.admission.worker import work
from app.kube.client import connect
from app.model.certificates import CertificateSet
from app.model.errors import BadSetting
from app.runtime.clock import SystemClock
from app.runtime.exposition import render
from app.runtime.lifecycle import stop_events
from app.runtime.logs import start_logging
from app.runtime.loop import Loop, Tick
from app.runtime.probes import probes
from app.runtime.process_metrics import ProcessMetrics
from app.runtime.server import Server, bound

log = logging.getLogger("admission.process")

_MOST_WORKERS = 4
_TEND_SECONDS = 0.2
_ANSWER_SECONDS = 5.0  # between two looks whether the TLS port answers
_DRAIN_SECONDS = 5.0  # until no Service leads here any more
_LOOP_SECONDS = 0.5  # for each loop to end; one that waits for an answer ends with the process
_STOP_SECONDS = 12.0


def serve(settings: AdmissionSettings) -> int:
    """Serve until a signal; return the exit code."""
    start_logging(settings.logging.verbosity)
    stopping, hurrying = stop_events()
    keeper = Keeper(settings)
    keeper.start()
    stopping.wait()
    log.info("stopping")
    keeper.stop(hurrying)
    return 0


class Keeper:
    """Starts everything, and ends it."""

    def __init__(self, settings: AdmissionSettings) -> None:
        self._clock = clock = SystemClock()
        serving = settings.serving
        count = serving.workers or min(os.cpu_count() or 1, _MOST_WORKERS)
        listeners = [
            bound(serving.host, serving.port, "--port", shared=count > 1) for _ in range(count)
        ]
        self._host = serving.host or "localhost"
        self._port: int = listeners[0].getsockname()[1]
        self._crew = Crew(partial(work, settings), listeners)
        self._stopping = False
        self._unanswered = "the TLS port was not tried yet"
        self._numbers = ProcessMetrics(CollectorRegistry(), version("plumbline"))
        self._certification = self._certified(settings, clock)
        self._reloader = Reloader(
            self._certification.poll,
            self._serve_certificates,
            self._certification.trusts,
            ReloadRules(),
        )
        self._loops = [
            Loop("certificates", self._reload(settings), clock),
            Loop("workers", self._tend, clock),
            Loop("TLS port", self._try_port, clock),
            *self._certification.loops,
            *self._heartbeat(settings, clock),
        ]
        host, port = serving.address
        health = probes(lambda: "", self.problem, self._metrics)
        self._health = Server(health, bound(host, port, "--address"))

    def start(self) -> None:
        """Begin."""
        self._health.start("health")
        for loop in self._loops:
            loop.start()
        log.info("webhook starts", extra={"port": self._port})

    def stop(self, hurrying: threading.Event) -> None:
        """Say that we are not ready, send clients elsewhere, finish open reviews, and end.

        Who is in a hurry does not wait for clients to go elsewhere.
        """
        self._stopping = True
        until = self._clock.monotonic() + _DRAIN_SECONDS
        self._crew.drain()
        for loop in reversed(self._loops):
            loop.stop(max(until - self._clock.monotonic(), _LOOP_SECONDS))
        hurrying.wait(max(until - self._clock.monotonic(), 0.0))
        self._crew.stop(_STOP_SECONDS)
        self._health.end()

    def problem(self) -> str:
        """Say why reviews cannot be answered as they should; empty if they can."""
        if self._stopping:
            return "stopping"
        if self._reloader.served is None:
            return "there is no certificate yet"
        return self._crew.problem or self._unanswered

    def _certified(self, settings: AdmissionSettings, clock: SystemClock) -> Certification:
        if settings.offline.objects:
            self._cluster = None
            return local(settings, clock)
        reach = settings.cluster
        self._cluster = connect(
            reach.kubeconfig, reach.context, reach.queries_per_second, reach.burst
        )
        return in_cluster(settings, self._cluster, clock, self.problem)

    def _heartbeat(self, settings: AdmissionSettings, clock: SystemClock) -> list[Loop]:
        if self._cluster is None:
            return []
        beat = settings.heartbeat
        seconds = beat.interval.total_seconds()
        holder = socket.gethostname()
        rules = HeartbeatRules(beat.lease_namespace, beat.lease_name, holder, seconds)
        heartbeat = Heartbeat(self._cluster, rules, self._reachable, clock)
        return [Loop("heartbeat", heartbeat.tick, clock, longest_retry_seconds=seconds)]

    def _reachable(self) -> str:
        """Say why API servers do not get answers from us; empty if they do."""
        problem = self.problem()
        if problem or self._reloader.served is None:
            return problem
        return self._certification.trouble(self._reloader.served.certificates)

    def _reload(self, settings: AdmissionSettings) -> Tick:
        """Return the tick that looks for certificates: given ones again only when asked to."""
        given = settings.certificates
        once = not given.reload and (given.are_given or given.cert_dir is not None)

        def tick(now: datetime) -> float:
            if once and self._reloader.served is not None:
                return 3600.0
            wait = self._reloader.tick(now)
            return wait if self._reloader.served is not None else 1.0

        return tick

    def _serve_certificates(self, certificates: CertificateSet) -> None:
        generation = judge(certificates, ())
        if generation.trouble:
            raise BadSetting(f"the certificate cannot be served: {generation.trouble}")
        self._numbers.certificate_expires(generation.not_after)
        self._crew.serve(certificates)

    def _tend(self, _now: datetime) -> float:
        self._crew.tend()
        for resource, seconds in self._crew.watch_ages.items():
            self._numbers.watch_age(resource, seconds)
        return _TEND_SECONDS

    def _try_port(self, _now: datetime) -> float:
        """See whether the TLS port answers; every answer is a good one."""
        context = ssl.create_default_context()
        # We ask ourselves; whom others trust is another question.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with (
                socket.create_connection((self._host, self._port), 2.0) as plain,
                context.wrap_socket(plain) as secure,
            ):
                secure.sendall(
                    b"GET /mutate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                )
                answer = secure.recv(12)
        except OSError as error:
            self._unanswered = f"the TLS port does not answer: {error}"
            return 0.5
        self._unanswered = "" if answer.startswith(b"HTTP/1.1") else "the TLS port talks nonsense"
        return _ANSWER_SECONDS

    def _metrics(self) -> bytes:
        return render(Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]))
