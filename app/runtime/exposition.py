"""Registries, what every process puts there, and what a scrape of them says.

Strategy: one process keeps its numbers in a registry. Several processes behind one port keep
them in files of a folder, which any of them adds up when it is scraped: prometheus_client does so
when PROMETHEUS_MULTIPROC_DIR is set before it is first imported, so what starts the processes
decides. The files of a worker have the name of its place, so that the one that takes its place
goes on counting in them. Series are written as upstream writes them: some counters are not called
`_total`, and whole bounds of buckets have no `.0`.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Gauge,
    GCCollector,
    Metric,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector

from app.kube.watch_cache import WatchAge

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

_WITHOUT_TOTAL: Final = (
    "vpa_resources_get_resources_count",
    "vpa_recommender_metric_server_responses",
    "vpa_recommender_prometheus_client_api_requests_count",
    "vpa_quality_usage_sample_missing_recommendation_count",
)
_ADDED_TOTAL: Final = re.compile(
    rf"^((?:# (?:HELP|TYPE) )?(?:{'|'.join(_WITHOUT_TOTAL)}))_total\b".encode(), re.MULTILINE
)

_WHOLE_BOUND: Final = re.compile(rb'(\ble="-?[0-9]+)\.0"')

# Upstream publishes no time of creation beside its counters and histograms.
disable_created_metrics()  # type: ignore[no-untyped-call]  # as the library has it


def count_as(name: str) -> None:
    """Keep this process's numbers in files of this name, and go on with those that are there."""
    values.ValueClass = values.MultiProcessValue(lambda: name)  # type: ignore[no-untyped-call]  # as the library has it


def new_registry() -> CollectorRegistry:
    """Return a registry with what every process tells of itself."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


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
        self._unknown = Gauge(
            "plumbline_horizontal_unknown",
            "1 while it is not known what is scaled horizontally; then nothing more is held.",
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

    def watch_age(self, resource: str, age: WatchAge) -> None:
        """Tell how long a watch has been silent."""
        self._watch_age.labels(resource).set(age.seconds)
        if age.is_unknown is not None:
            self._unknown.labels(resource).set(age.is_unknown)

    def certificate_expires(self, moment: datetime) -> None:
        """Tell until when the serving certificate is good."""
        self._expiry.labels("serving").set(moment.timestamp())


def render(source: CollectorRegistry | Path) -> bytes:
    """Return the answer to a scrape: of a registry, or of the folder several processes share."""
    if isinstance(source, Path):
        registry = new_registry()
        MultiProcessCollector(registry, path=str(source))  # type: ignore[no-untyped-call]  # as above
    else:
        registry = source
    text = _ADDED_TOTAL.sub(rb"\1", generate_latest(registry))
    return _WHOLE_BOUND.sub(rb'\1"', text)


def exposed_name(family: Metric) -> str:
    """Return what a family of series is called in a scrape."""
    is_total = family.type == "counter" and family.name not in _WITHOUT_TOTAL
    return f"{family.name}_total" if is_total else family.name
