"""The webhook inside a process that does other things too: that of `plumbline admission`."""

from __future__ import annotations

import socket

from prometheus_client import CollectorRegistry

from app.admission.flags import AdmissionSettings
from app.admission.metrics import ReviewLimit
from app.admission.process import AdmissionProcess, Certify
from app.admission.review_server import ReviewServer, live_knowledge
from app.run.view import ReviewCounts
from app.runtime.bounds import LimitReport
from app.runtime.live import Runtime

_HOLDER = "plumbline-run"

Listeners = tuple[socket.socket, socket.socket]  # of reviews, and of health and metrics


class EmbeddedWebhook(AdmissionProcess):
    """Answers callers that are in the same process or at its keyboard, and counts for them."""

    def __init__(
        self,
        settings: AdmissionSettings,
        runtime: Runtime,
        certify: Certify,
        listeners: Listeners,
        *,
        beats: bool,
    ) -> None:
        reviews, health = listeners
        registry = CollectorRegistry()
        limits = LimitReport(registry, ReviewLimit)
        knowledge = live_knowledge(settings, runtime, limits)
        self._server = ReviewServer(settings, knowledge, reviews, registry, limits)
        super().__init__(
            settings, runtime, certify, self._server, health, holder=_HOLDER if beats else ""
        )

    def reviewed(self) -> ReviewCounts:
        """Say what was answered so far."""
        self._server.settle()
        return ReviewCounts(
            self._count("admission_latency_seconds_count"),
            self._count("admission_pods_total", applied="true"),
            self._count("refused_vpas_total"),
        )

    def _count(self, name: str, **labels: str) -> int:
        return int(
            sum(
                sample.value
                for family in self._server.registry.collect()
                for sample in family.samples
                if sample.name == f"vpa_admission_controller_{name}"
                and labels.items() <= sample.labels.items()
            )
        )
