"""Answers reviews over HTTPS in the process in which it is made.

Strategy: it knows the cluster, from an API server or from files, and opens its port as soon as it
has a certificate and has read all of the cluster: an answer before that would be one about an
empty cluster. `plumbline admission` has one in its own process, or one in each worker;
`plumbline run` has one among everything else.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from prometheus_client import CollectorRegistry

from app.admission import reviews
from app.admission.app import Webhook
from app.admission.core.mutate import FAILED_OPEN
from app.admission.core.rotation import CertificateSet
from app.admission.flags import AdmissionSettings
from app.admission.knowledge import LiveKnowledge, RecordedKnowledge, review_rules
from app.admission.metrics import AdmissionMetrics, ReviewLimit
from app.admission.reviews import Reviewer, Tell
from app.kube.watch_cache import WatchAge
from app.model.errors import BadSetting
from app.runtime.bounds import LimitReport
from app.runtime.clock import SystemClock
from app.runtime.exposition import render
from app.runtime.garbage import Loading
from app.runtime.http_server import Server
from app.runtime.live import Runtime
from app.runtime.logs import teller
from app.runtime.tls import ServerTls

_TEND_SECONDS: Final = 1.0
_HUNG_SECONDS: Final = 5.0  # for which the event loop has not come round
# After which a thread that computes lets others go on. A review changes threads some times, and
# each time it would wait ten times as long while a large review, or a list, is worked on.
_SWITCH_SECONDS: Final = 0.0005
_LOADING_SECONDS: Final = 0.1  # between two looks while the cluster is being read


class ReviewServer:
    """Knows the cluster, and answers once it does and has a certificate."""

    def __init__(
        self,
        settings: AdmissionSettings,
        knowledge: LiveKnowledge | RecordedKnowledge,
        listener: socket.socket,
        registry: CollectorRegistry,
        limits: LimitReport,
        *,
        tell: Tell = reviews.logged,
        loading: Loading | None = None,
    ) -> None:
        self.registry = registry
        self._certificates = settings.certificates
        self._knowledge = knowledge
        self._listener = listener
        self._loading = loading
        self._metrics = AdmissionMetrics(registry, FAILED_OPEN)
        self.limits = limits
        rules = review_rules(settings.decisions)
        # However fast the runtime's time runs, a review takes real time.
        clock = SystemClock()
        reviewer = Reviewer(knowledge.sources, rules, self._metrics, clock, tell, limits.reached)
        self._app = Webhook(reviewer, knowledge.guard(settings.serving.host))
        self._tls: ServerTls | None = None
        self._server: Server | None = None
        self._opening = threading.Lock()

    def use_certificates(self, certificates: CertificateSet) -> None:
        """Answer with this certificate from now on, or as soon as the cluster is known."""
        if self._tls is not None:
            self._tls.swap(certificates.cert_pem, certificates.key_pem)
            return
        given = self._certificates
        self._tls = ServerTls(
            certificates.cert_pem,
            certificates.key_pem,
            min_version=given.min_version,
            ciphers=given.ciphers,
        )
        self._open_when_ready()

    def _open_when_ready(self) -> None:
        """Open the port if there is a certificate and all of the cluster was read.

        Raises:
            BadSetting: another program listens there by now.
        """
        with self._opening:
            if self._tls is None or self._server is not None or self._knowledge.problem():
                return
            try:
                self._listener.listen()
            except OSError as error:  # another program was faster; else uvicorn's thread would end
                raise BadSetting(f"--port: cannot listen: {error.strerror}") from None
            self._server = Server(
                self._app,
                self._listener,
                self._tls.context,
                limits=self.limits,
                at_once=self._app.at_once,
            )
            self._server.start("reviews")

    def tend(self) -> float:
        """Open the port once all is read, and settle what was counted, about every second.

        Returns the seconds until the next time.
        """
        self.settle()
        is_loading = self._loading is not None and not self._loading.is_over
        if self._loading is not None and is_loading:
            self._loading.tend(is_loaded=not self._knowledge.problem())
        self._open_when_ready()
        return _LOADING_SECONDS if is_loading or self._server is None else _TEND_SECONDS

    def is_waiting(self) -> bool:
        """Say whether the port is still closed, because there is something left to read."""
        return self._server is None

    def hangs(self) -> bool:
        """Say whether the thread that answers has stopped doing so."""
        return self._server is not None and self._server.silent_seconds() > _HUNG_SECONDS

    def problem(self) -> str:
        """Say why answers would be given without knowledge of the cluster; empty if all is well."""
        return self._knowledge.problem()

    def watch_ages(self) -> Mapping[str, WatchAge]:
        """Return the silence of each watch, in seconds."""
        return self._knowledge.watch_ages()

    def settle(self) -> None:
        """Let a scrape see all that was counted."""
        with suppress(OSError, ValueError):  # no space left for metrics is no reason to stop
            self._metrics.settle()

    def scrape(self) -> bytes:
        """Return all metrics of this process."""
        self.settle()
        return render(self.registry)

    def drain(self) -> None:
        """Go on answering, each answer being the last one on its connection."""
        if self._server is not None:
            self._server.drain()

    def stop(self, seconds: float) -> None:
        """Answer open reviews, at most so long, and end."""
        with self._opening:
            self._tls = None  # so that it is not opened after all
        if self._server is not None:
            self._server.end(seconds)
        self._listener.close()
        self._knowledge.close()


def lone_review_server(
    settings: AdmissionSettings,
    listener: socket.socket,
    registry: CollectorRegistry,
    runtime: Runtime,
) -> ReviewServer:
    """Return one for a process that does nothing else: interpreter and log are arranged for it."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    loading = Loading()  # before there is anything to load
    limits = LimitReport(registry, ReviewLimit)
    knowledge: LiveKnowledge | RecordedKnowledge
    if settings.offline.objects:
        knowledge = RecordedKnowledge(settings.offline.objects)
    else:
        knowledge = live_knowledge(settings, runtime, limits)
    tell = teller(reviews.log.name)
    return ReviewServer(settings, knowledge, listener, registry, limits, tell=tell, loading=loading)


def live_knowledge(
    settings: AdmissionSettings, runtime: Runtime, limits: LimitReport
) -> LiveKnowledge:
    """Return what is known of the cluster that is connected to."""
    return LiveKnowledge(
        lambda: runtime.connect(settings.cluster),
        settings.scope,
        runtime,
        limits.reached,
        settings.decisions.horizontal,
        role_leases=settings.decisions.role_leases,
    )
