"""Settings of the check before and after an installation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from app.settings.flags import SWITCH, TEXT, Flag
from app.settings.shared import OWN_NAMESPACE, Cluster, Showing


@dataclass(frozen=True, slots=True)
class Examining:
    """What is looked at."""

    namespace: Annotated[
        str,
        Flag("namespace", TEXT, OWN_NAMESPACE, "namespace that the processes live in", short="n"),
    ]
    is_before: Annotated[
        bool,
        Flag("before", SWITCH, "false", "before an installation: what it will bring may be absent"),
    ]


@dataclass(frozen=True, slots=True)
class DoctorSettings:
    """All that the check can be told."""

    examining: Examining
    showing: Showing
    cluster: Cluster
