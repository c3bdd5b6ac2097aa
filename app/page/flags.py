"""Settings of the page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from app.diagnosis.flags import Circumstances
from app.flags.flags import (
    ADDRESS,
    DURATION_ABOVE_ZERO,
    PATH,
    PROMETHEUS_DURATION,
    SWITCH,
    TEXT,
    ListenAddress,
    flag,
    optional,
)
from app.flags.shared import ClusterAccess, Logging, Offline, PortAccess, Scope
from app.model.times import PrometheusDuration
from app.recommender.flags import (
    AggregationFlags,
    EstimationFlags,
    FormatFlags,
    PostProcessingFlags,
)
from app.recommender.source_flags import KubeletPrometheusFlags, PrometheusAccessFlags
from app.updater.flags import AdmissionCheck, Deciding, Disruption, Thresholds


@dataclass(frozen=True, slots=True)
class PageServing:
    """The page."""

    address: ListenAddress = flag(
        "address",
        ADDRESS,
        "localhost:8945",
        "address of the page; behind any other than loopback viewers log in with a token",
    )
    one_time_link: bool = flag(
        "one-time-link",
        SWITCH,
        "false",
        "behind loopback let in only the browser that opens the printed URL first, for machines "
        "that others use too",
    )
    refresh: timedelta = flag(
        "refresh", DURATION_ABOVE_ZERO, "10s", "time between two looks at what changed"
    )


@dataclass(frozen=True, slots=True)
class UsageFlags(KubeletPrometheusFlags):
    """Usage over time."""

    address: str = flag(
        "prometheus-address",
        TEXT,
        "",
        "URL of a Prometheus; empty for the last 24 hours as the page itself sees them",
    )
    query_timeout: PrometheusDuration = flag(
        "prometheus-query-timeout", PROMETHEUS_DURATION, "10s", "timeout of a query"
    )
    events: Path | None = flag(
        "events",
        optional(PATH),
        "",
        "file with recorded usage for --objects, as `plumbline replay` reads it",
    )


@dataclass(frozen=True, slots=True)
class LookSettings:
    """What is looked at, and by which rules; how the updater is started should be told alike."""

    offline: Offline
    cluster: ClusterAccess
    scope: Scope
    asking: Circumstances
    deciding: Deciding
    disruption: Disruption
    thresholds: Thresholds
    admission: AdmissionCheck
    usage: UsageFlags
    prometheus_access: PrometheusAccessFlags
    logging: Logging


@dataclass(frozen=True, slots=True)
class RecordingFlags:
    """Other settings; the flags below are those of the recommender."""

    recording: Path | None = flag(
        "recording",
        optional(PATH),
        "",
        "file of `plumbline record`: each workload shows what the recommender's flags, and "
        "upstream's default, would have requested",
    )


@dataclass(frozen=True, slots=True)
class PageSettings(LookSettings):
    """All that the page can be told."""

    serving: PageServing
    access: PortAccess
    past: RecordingFlags
    estimation: EstimationFlags
    aggregation: AggregationFlags
    format: FormatFlags
    post_processing: PostProcessingFlags


@dataclass(frozen=True, slots=True)
class ReportFile:
    """The report."""

    path: Path = flag(
        "output",
        PATH,
        "report.html",
        "file that is written; one that exists is replaced",
        short="o",
    )


@dataclass(frozen=True, slots=True)
class ReportSettings(LookSettings):
    """All that writing a report can be told."""

    file: ReportFile
    past: RecordingFlags
    estimation: EstimationFlags
    aggregation: AggregationFlags
    format: FormatFlags
    post_processing: PostProcessingFlags
