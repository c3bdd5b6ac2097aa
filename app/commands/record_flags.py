"""Settings of recording: what is read, and from which Prometheus."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from app.diagnosis.flags import MOMENT
from app.flags.flags import (
    PATH,
    PROMETHEUS_DURATION,
    TEXT,
    flag,
    number,
    optional,
)
from app.flags.shared import Offline
from app.model.errors import BadSetting
from app.model.times import PrometheusDuration
from app.recommender.source_flags import PrometheusAccessFlags, PrometheusFlags

_LABEL: Final = r"[a-zA-Z_]\w*\s*(?:=~|!~|!=|=)\s*\"(?:\\.|[^\"\\])*\""
_SELECTOR: Final = re.compile(rf"\s*{_LABEL}\s*(?:,\s*{_LABEL}\s*)*", re.ASCII)
_MOST_DAYS: Final = 400
_LONGEST_STEP_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class RecordedTime:
    """What is recorded."""

    namespace: str = flag("namespace", TEXT, "", "record this namespace; empty for all", short="n")
    days: float = flag("days", number(0, _MOST_DAYS), "14", "how far back, in days")
    step: PrometheusDuration = flag(
        "step",
        PROMETHEUS_DURATION,
        "5m",
        "length of a step, at least twice the interval at which Prometheus scrapes",
    )
    selector: str = flag(
        "prometheus-selector",
        TEXT,
        "",
        'labels that all series must have, such as cluster="eu"; empty if Prometheus knows one '
        "cluster",
    )
    until: datetime | None = flag("until", optional(MOMENT), "", "when it ends; empty for now")

    def __post_init__(self) -> None:
        seconds = self.step.span.total_seconds()
        if seconds % 1 or seconds > _LONGEST_STEP_SECONDS:
            raise BadSetting("--step takes whole seconds, a day at most")
        if self.days * 86_400 < seconds:
            raise BadSetting("--days is shorter than --step")
        if self.selector and not _SELECTOR.fullmatch(self.selector):
            raise BadSetting('--prometheus-selector takes labels such as cluster="eu"')


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """Where it is recorded."""

    output: Path | None = flag(
        "output",
        optional(PATH),
        "",
        "file for the recording; pieces lie beside it until it is whole",
        short="o",
    )


@dataclass(frozen=True, slots=True)
class RecordedEvents:
    """Events instead of Prometheus."""

    events: Path | None = flag(
        "events",
        optional(PATH),
        "",
        "file with events as `plumbline replay` reads them, - reads stdin; all of them are "
        "recorded",
    )


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """All that recording can be told."""

    time: RecordedTime
    file: RecordedFile
    events: RecordedEvents
    offline: Offline
    prometheus: PrometheusFlags
    prometheus_access: PrometheusAccessFlags

    def __post_init__(self) -> None:
        if self.offline.objects and self.events.events is None:
            raise BadSetting("--objects belong to --events, and no events are given")
