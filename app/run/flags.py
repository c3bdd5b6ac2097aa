"""Settings of the whole autoscaler in one process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final

from app.flags.flags import (
    DURATION_ABOVE_ZERO,
    PORT,
    SWITCH,
    TEXT,
    WHOLE,
    Flag,
    FlagKind,
    number,
    optional,
)
from app.flags.shared import Offline, feature_gates
from app.model.errors import BadSetting
from app.model.gates import FeatureGates

_FASTEST: Final = "max"


def _speed(texts: object) -> float:
    assert isinstance(texts, (list, tuple))
    if texts[-1] == _FASTEST:
        return math.inf
    found: float = number(0).read(texts)
    if found == 0:
        raise ValueError(texts[-1])
    return found


SPEED: Final = FlagKind("X|max", "a number above zero, or max", _speed)


@dataclass(frozen=True, slots=True)
class Timing:
    """How time goes."""

    speed: Annotated[
        float,
        Flag(
            "speed",
            SPEED,
            "60",
            "seconds that pass in the cluster in memory in each of ours; "
            "max for as fast as can be worked out",
        ),
    ]
    lasts: Annotated[
        timedelta | None,
        Flag(
            "for",
            optional(DURATION_ABOVE_ZERO),
            "",
            "end by itself after so much of the cluster's time; empty for never",
        ),
    ]
    seed: Annotated[
        int,
        Flag("seed", WHOLE, "0", "equal seeds make equal runs"),
    ]
    plain: Annotated[
        bool,
        Flag("plain", SWITCH, "false", "a line for each event, also where there is a terminal"),
    ]


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the three answer."""

    host: Annotated[str, Flag("host", TEXT, "localhost", "address of all ports")]
    port: Annotated[int, Flag("port", PORT, "8000", "HTTPS port of the webhook")]
    admission: Annotated[
        int, Flag("admission-port", PORT, "8944", "the webhook's port for health and metrics")
    ]
    recommender: Annotated[
        int,
        Flag("recommender-port", PORT, "8942", "the recommender's port: API, health, metrics"),
    ]
    updater: Annotated[
        int, Flag("updater-port", PORT, "8943", "the updater's port: decisions, health, metrics")
    ]


@dataclass(frozen=True, slots=True)
class Real:
    """A real cluster instead of the one in memory; it is only looked at."""

    kubeconfig: Annotated[
        str,
        Flag(
            "kubeconfig",
            TEXT,
            "",
            "kubeconfig file of a real cluster; a dry run without one takes $KUBECONFIG, or the "
            "usual one",
        ),
    ]
    context: Annotated[
        str, Flag("context", TEXT, "", "context of the kubeconfig; empty for its current one")
    ]
    dry_run: Annotated[
        bool, Flag("dry-run", SWITCH, "false", "tell what would be written, and write nothing")
    ]
    namespace: Annotated[
        str,
        Flag(
            "vpa-object-namespace",
            TEXT,
            "",
            "look at this namespace only; empty for all",
            short="n",
        ),
    ]

    def __post_init__(self) -> None:
        if (self.kubeconfig or self.context) and not self.dry_run:
            raise BadSetting(
                "--kubeconfig: on a real cluster run only looks on; add --dry-run, "
                "or start admission, recommender and updater"
            )


@dataclass(frozen=True, slots=True)
class Features:
    """Features."""

    gates: Annotated[FeatureGates, feature_gates("AllAlpha=true")]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """All that the whole autoscaler in one process can be told."""

    pace: Timing
    serving: Ports
    offline: Offline
    real: Real
    features: Features

    def __post_init__(self) -> None:
        if self.real.dry_run and self.offline.objects:
            raise BadSetting("--objects: a dry run looks at a real cluster; leave out one of both")
