"""Settings of asking what the updater would do now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from app.model.fields import time_at
from app.settings.flags import TEXT, Flag, Kind, Rest, chosen, optional
from app.settings.shared import Cluster, Logging, Offline, Scope
from app.settings.updater import AdmissionCheck, Deciding, Disruption, Interval, Thresholds


class Output(StrEnum):
    """How the plan is shown."""

    TABLE = "table"
    JSON = "json"


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
    namespace: Annotated[
        str, Flag("n", TEXT, "", "show the pods of this namespace only; empty for all")
    ]
    output: Annotated[
        Output,
        Flag("o", chosen(Output), "table", "as a table, or as a line of JSON for each pod"),
    ]
    interval: Interval


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """All that asking for the plan can be told."""

    asking: Asking
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
