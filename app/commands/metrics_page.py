"""docs/metrics.md: every number of every process, as a scrape shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from app.admission.metrics import AdmissionMetrics, WorkerMetrics
from app.recommender.metrics import (
    RECOMMENDATION,
    RECOMMENDATION_LABELS,
    RECOMMENDATION_MEANING,
    QualityMetrics,
    RecommenderMetrics,
)
from app.runtime.bounds import LimitReport
from app.runtime.exposition import ProcessMetrics, exposed_name
from app.updater.metrics import UpdaterMetrics

_HEADER: Final = """\
# Metrics

Generated from the code. Names and labels are those of the upstream autoscaler where it has them.
Each process also exposes the usual metrics of Python programs: `process_*`, `python_*`.
"""
_HEAD: Final = "| Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n"
_PARTS: Final[Mapping[str, tuple[Callable[[CollectorRegistry], object], ...]]] = {
    "plumbline admission": (AdmissionMetrics, WorkerMetrics),
    "plumbline recommender": (RecommenderMetrics, QualityMetrics),
    "plumbline updater": (UpdaterMetrics,),
    "every process": (
        lambda registry: ProcessMetrics(registry, ""),
        LimitReport,
    ),
}


class _Listing(CollectorRegistry):
    """A registry that remembers the order in which it was filled."""

    def __init__(self) -> None:
        super().__init__()
        self.collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        """Take another collector."""
        self.collectors.append(collector)
        super().register(collector)


def page() -> str:
    """Return the page."""
    parts = [_HEADER]
    for title, makers in _PARTS.items():
        parts.append(f"\n## {title}\n\n{_HEAD}")
        parts += _rows(makers)
    labels = ", ".join(f"`{name}`" for name in RECOMMENDATION_LABELS)
    parts.append(
        "\nUnder `/metrics/recommendations`, because there may be very many:\n\n"
        f"{_HEAD}| `{RECOMMENDATION}` | gauge | {labels} | {RECOMMENDATION_MEANING} |\n"
    )
    return "".join(parts)


def _rows(makers: tuple[Callable[[CollectorRegistry], object], ...]) -> Iterator[str]:
    registry = _Listing()
    for make in makers:
        make(registry)
    for collector in registry.collectors:
        # The library has no other way to the names of labels before there are values.
        labels = ", ".join(f"`{name}`" for name in vars(collector)["_labelnames"])
        for family in collector.collect():
            name = exposed_name(family)
            yield f"| `{name}` | {family.type} | {labels} | {family.documentation} |\n"
