"""Numbers about the process itself: build, watches, certificates."""

from __future__ import annotations

from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge


class ProcessMetrics:
    """What the process says of its own state; among several the worst one counts."""

    def __init__(self, registry: CollectorRegistry, version: str) -> None:
        self._watch_age = Gauge(
            "plumbline_watch_last_event_age_seconds",
            "Time since the last event or bookmark of a watch.",
            ["resource"],
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._expiry = Gauge(
            "plumbline_certificate_expiry_timestamp_seconds",
            "When a certificate in use expires, in seconds since 1970.",
            ["certificate"],
            registry=registry,
            multiprocess_mode="livemin",
        )
        Gauge(
            "plumbline_build_info",
            "Always 1; the version is in the label.",
            ["version"],
            registry=registry,
            multiprocess_mode="livemax",
        ).labels(version).set(1)

    def watch_age(self, resource: str, seconds: float) -> None:
        """Tell how long a watch has been silent."""
        self._watch_age.labels(resource).set(seconds)

    def certificate_expires(self, moment: datetime) -> None:
        """Tell until when the serving certificate is good."""
        self._expiry.labels("serving").set(moment.timestamp())
