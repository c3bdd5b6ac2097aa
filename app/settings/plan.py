"""Settings of asking what the updater would do now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from app.model.fields import time_at
from app.settings.flags import Flag, Kind, Rest, optional
from app.settings.shared import Cluster, Logging, Offline, Scope, Selection, Showing
from app.settings.updater import AdmissionCheck, Deciding, Disruption, Interval, Thresholds


def _moment(texts: Sequence[str]) -> datetime:
    found = time_at({"time": texts[-1]}, "time", "")
    if found is None:
        raise ValueError(texts[-1])
    return found


MOMENT: Final = Kind("TIME", "a time such as 2026-01-05T10:00:00Z", _moment)


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked."""

    at: Annotated[
        datetime | None,
        Flag("at", optional(MOMENT), "", "the time at which it is asked; empty for now"),
    ]
    interval: Interval


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """All that asking for the plan can be told."""

    asking: Asking
    selection: Selection
    showing: Showing
    offline: Offline
    cluster: Cluster
    deciding: Deciding
    disruption: Disruption
    thresholds: Thresholds
    admission: AdmissionCheck
    scope: Scope
    logging: Logging
    vpas: Annotated[
        tuple[str, ...], Rest("[VPA...]", "names of VPAs; without any the pods of all are shown")
    ]
