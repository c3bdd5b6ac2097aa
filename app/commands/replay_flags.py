"""Settings of a replay: what is played and shown, and everything the recommender can be told."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from app.flags.flags import (
    DURATION_ABOVE_ZERO,
    PATH,
    SWITCH,
    FlagKind,
    flag,
    optional,
)
from app.flags.shared import (
    ClusterAccess,
    Logging,
    Offline,
    PortAccess,
    Profiling,
    Scope,
    output_flag,
)
from app.model.errors import BadSetting
from app.model.fields import time_at
from app.output import Output
from app.recommender.flags import (
    AggregationFlags,
    EstimationFlags,
    FormatFlags,
    HistoryFlags,
    PostProcessingFlags,
    RecommenderElection,
    RecommenderSettings,
    RoundFlags,
    VariantFlags,
)
from app.recommender.source_flags import (
    ExternalMetricsFlags,
    PastFlags,
    PrometheusAccessFlags,
    PrometheusFlags,
)

_WANTED: Final = "a time such as 2026-01-05T10:00:00Z"


def _time(text: str) -> datetime:
    found = time_at({"time": text}, "time", "")
    if found is None or len(text) <= len("2026-01-05"):
        raise ValueError(text)
    return found


_TIME: Final = FlagKind("TIME", _WANTED, lambda texts: _time(texts[-1]))
_TIMES: Final = FlagKind(
    "TIME", _WANTED, lambda texts: tuple(_time(text) for text in texts if text), repeats=True
)


@dataclass(frozen=True, slots=True)
class Playing:
    """What is played."""

    events: Path | None = flag(
        "events", optional(PATH), "", "file with events, one JSON object a line; - reads stdin"
    )
    start: datetime | None = flag(
        "start", optional(_TIME), "", "when the recommender begins; empty: the first event"
    )
    until: datetime | None = flag(
        "until", optional(_TIME), "", "when it ends; empty: when all events were seen"
    )
    interval: timedelta | None = flag(
        "interval",
        optional(DURATION_ABOVE_ZERO),
        "",
        "time between two rounds; empty: that of --recommender-interval",
    )

    def __post_init__(self) -> None:
        if self.start is not None and self.until is not None and self.until < self.start:
            raise BadSetting("--until is before --start")


@dataclass(frozen=True, slots=True)
class ReplayOutput:
    """What is shown."""

    at: tuple[datetime, ...] = flag(
        "at", _TIMES, "", "when to print; may be repeated; none: at the end"
    )
    checkpoints: bool = flag(
        "checkpoints", SWITCH, "false", "print the checkpoints that were written, too"
    )
    csv: bool = flag("csv", SWITCH, "false", "print times and targets as CSV, as --output=csv does")
    output: Output = output_flag(Output.JSON)

    @property
    def wants_csv(self) -> bool:
        """Whether times and targets are wanted, and nothing else."""
        return self.csv or self.output is Output.CSV

    @property
    def is_streamed(self) -> bool:
        """Whether each look can be printed as it comes."""
        return self.wants_csv or self.output is Output.JSON


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """All that a replay can be told."""

    playing: Playing
    showing: ReplayOutput
    offline: Offline
    likeness: VariantFlags
    loop: RoundFlags
    access: PortAccess
    history: HistoryFlags
    estimation: EstimationFlags
    format: FormatFlags
    aggregation: AggregationFlags
    post_processing: PostProcessingFlags
    prometheus: PrometheusFlags
    prometheus_access: PrometheusAccessFlags
    past: PastFlags
    external_metrics: ExternalMetricsFlags
    election: RecommenderElection
    scope: Scope
    cluster: ClusterAccess
    profiling: Profiling
    logging: Logging

    @property
    def recommender(self) -> RecommenderSettings:
        """What a recommender with the same flags is told."""
        shared = {one.name: getattr(self, one.name) for one in fields(RecommenderSettings)}
        return RecommenderSettings(**shared)
