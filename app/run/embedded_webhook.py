"""The webhook inside a process that does other things too.

Strategy: the parts are those of `plumbline admission`, but one server in a thread answers, because
its callers are in the same process or at its keyboard. Certificates live in real time, as TLS
does; the heartbeat in the time of the runtime.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version

from prometheus_client import CollectorRegistry

from app.admission.app import webhook
from app.admission.certification import Certification
from app.admission.flags import AdmissionSettings
from app.admission.heartbeat import Heartbeat, HeartbeatRules
from app.admission.knowledge import LiveKnowledge, review_rules
from app.admission.metrics import AdmissionMetrics
from app.admission.reloader import Reloader, ReloadRules
from app.admission.reviews import Reviewer
from app.model.certificates import CertificateSet
from app.runtime.clock import SystemClock
from app.runtime.exposition import render
from app.runtime.live import Runtime
from app.runtime.loop import Loop
from app.runtime.probes import probes
from app.runtime.process_metrics import ProcessMetrics
from app.runtime.server import Server
from app.runtime.tls import ServerTls

_HOLDER = "plumbline-run"
_JOIN_SECONDS = 1.0

Listeners = tuple[socket.socket, socket.socket]  # of reviews, and of health and metrics
Certify = Callable[[Callable[[], str]], Certification]  # gets why reviews are not answered


@dataclass(frozen=True, slots=True)
class ReviewCounts:
    """What was answered so far."""

    reviews: int = 0
    pods_changed: int = 0
    vpas_refused: int = 0


class EmbeddedWebhook:
    """Starts the webhook, and ends it."""

    def __init__(
        self,
        settings: AdmissionSettings,
        runtime: Runtime,
        certify: Certify,
        listeners: Listeners,
        *,
        beats: bool,
    ) -> None:
        self._settings = settings
        self._listener, health = listeners
        self._known = LiveKnowledge(
            partial(runtime.connect, settings.cluster), settings.scope, runtime
        )
        self._registry = CollectorRegistry()
        self._metrics = AdmissionMetrics(self._registry)
        ProcessMetrics(self._registry, version("plumbline"))
        # However fast the runtime's time runs, a review takes real time.
        sources = replace(self._known.sources, clock=SystemClock())
        self._reviewer = Reviewer(sources, review_rules(settings.decisions), self._metrics)
        self._tls: ServerTls | None = None
        self._server: Server | None = None
        self._certification = certify(self.problem)
        self._reloader = Reloader(
            self._certification.poll, self._serve, self._certification.trusts, ReloadRules()
        )
        self._loops: list[Loop] = [
            Loop("certificates", self._reload, SystemClock()),
            *self._certification.loops,
        ]
        if beats:
            self._loops.append(self._heartbeat(runtime))
        self._health = Server(probes(lambda: "", self.problem, self._scraped), health)

    def start(self) -> None:
        """Begin."""
        self._health.start("webhook health")
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """End; reviews that are open are answered first."""
        with ThreadPoolExecutor(len(self._loops)) as pool:  # each may be in the middle of a wait
            for loop in self._loops:
                pool.submit(loop.stop, _JOIN_SECONDS)
        self._known.close()
        self._health.stop()
        if self._server is not None:
            self._server.end(_JOIN_SECONDS)
        self._health.end(_JOIN_SECONDS)

    def problem(self) -> str:
        """Say why reviews cannot be answered as they should; empty if they can."""
        if self._server is None:
            return "there is no certificate yet"
        return self._known.problem()

    def ca_pem(self) -> str:
        """Return the CA that callers have to trust; empty as long as there is none."""
        served = self._reloader.served
        return served.certificates.ca_pem if served is not None else ""

    def reachable(self) -> str:
        """Say why API servers do not get answers from us; empty if they do."""
        served = self._reloader.served
        if served is None:
            return "there is no certificate yet"
        return self.problem() or self._certification.trouble(served.certificates)

    def reviewed(self) -> ReviewCounts:
        """Say what was answered so far."""
        self._metrics.settle()
        return ReviewCounts(
            self._count("admission_latency_seconds_count"),
            self._count("admission_pods_total", applied="true"),
            self._count("refused_vpas_total"),
        )

    def _count(self, name: str, **labels: str) -> int:
        return int(
            sum(
                sample.value
                for family in self._registry.collect()
                for sample in family.samples
                if sample.name == f"vpa_admission_controller_{name}"
                and labels.items() <= sample.labels.items()
            )
        )

    def _heartbeat(self, runtime: Runtime) -> Loop:
        beat = self._settings.heartbeat
        seconds = beat.interval.total_seconds()
        rules = HeartbeatRules(beat.lease_namespace, beat.lease_name, _HOLDER, seconds)
        cluster = runtime.connect(self._settings.cluster)
        heartbeat = Heartbeat(cluster, rules, self.reachable, runtime.clock)
        return runtime.loop("heartbeat", heartbeat.tick, longest_retry_seconds=seconds)

    def _reload(self, now: object) -> float:
        del now
        wait = self._reloader.tick(SystemClock().now())
        return wait if self._reloader.served is not None else 0.1

    def _serve(self, certificates: CertificateSet) -> None:
        if self._tls is not None:
            self._tls.swap(certificates.cert_pem, certificates.key_pem)
            return
        self._tls = ServerTls(certificates.cert_pem, certificates.key_pem)
        app = webhook(self._reviewer)
        server = Server(app, self._listener, self._tls.context, at_once=app.at_once)
        server.start("reviews")
        self._server = server

    def _scraped(self) -> bytes:
        self._metrics.settle()
        return render(self._registry)
