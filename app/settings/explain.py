"""Settings of explaining what becomes of a pod or of a VPA's pods."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from app.model.quantity import Quantity
from app.settings.flags import QUANTITY, Flag, Rest, optional
from app.settings.plan import MOMENT
from app.settings.shared import Cluster, Offline, Selection, Showing
from app.settings.updater import AdmissionCheck, Deciding, Disruption, Interval, Thresholds


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked."""

    at: Annotated[
        datetime | None,
        Flag("at", optional(MOMENT), "", "the time at which it is asked; empty for now"),
    ]
    max_cpu_boost: Annotated[
        Quantity | None,
        Flag(
            "max-allowed-cpu-boost",
            optional(QUANTITY),
            "",
            "most CPU that a container may request while it is boosted, as the webhook is told",
        ),
    ]
    interval: Interval


@dataclass(frozen=True, slots=True)
class ExplainSettings:
    """All that explaining can be told; how the updater is started should be told alike."""

    asking: Asking
    selection: Selection
    showing: Showing
    offline: Offline
    cluster: Cluster
    deciding: Deciding
    disruption: Disruption
    thresholds: Thresholds
    admission: AdmissionCheck
    names: Annotated[
        tuple[str, ...],
        Rest(
            "[POD|VPA...]",
            "what to explain: names, or pod/NAME or vpa/NAME; without any the pods that --selector "
            "chooses",
        ),
    ]
