"""Settings of the whole autoscaler in one process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from app.flags.flags import (
    DURATION_ABOVE_ZERO,
    PATH,
    PORT,
    SWITCH,
    TEXT,
    WHOLE,
    FlagKind,
    flag,
    number,
    optional,
)
from app.flags.shared import Offline, gates_flag
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
    """Simulated time."""

    speed: float = flag(
        "speed",
        SPEED,
        "60",
        "simulated seconds per second; max for as fast as possible",
    )
    lasts: timedelta | None = flag(
        "for",
        optional(DURATION_ABOVE_ZERO),
        "",
        "stop after this much simulated time; empty for never",
    )
    seed: int = flag("seed", WHOLE, "0", "seed of the simulation; equal seeds give equal runs")
    plain: bool = flag("plain", SWITCH, "false", "print a line for each event instead of a screen")
    record: Path | None = flag(
        "record", optional(PATH), "", "write what was used to this file, for `plumbline backtest`"
    )
    recording: Path | None = flag(
        "recording",
        optional(PATH),
        "",
        "file that --record of an earlier run has written: the page shows for each workload what "
        "other settings would have requested",
    )


@dataclass(frozen=True, slots=True)
class Ports:
    """Addresses and ports."""

    host: str = flag("host", TEXT, "localhost", "address of all ports")
    port: int = flag("port", PORT, "8000", "HTTPS port of the webhook")
    admission: int = flag(
        "admission-port", PORT, "8944", "the webhook's port for health and metrics"
    )
    recommender: int = flag(
        "recommender-port", PORT, "8942", "the recommender's port: API, health, metrics"
    )
    updater: int = flag(
        "updater-port", PORT, "8943", "the updater's port: decisions, health, metrics"
    )
    page: int = flag("page-port", PORT, "8945", "port of the page, for a browser")


@dataclass(frozen=True, slots=True)
class Real:
    """A real cluster instead of the in-memory one; read-only."""

    kubeconfig: str = flag(
        "kubeconfig",
        TEXT,
        "",
        "kubeconfig file of a real cluster; with --dry-run by default "
        "$KUBECONFIG, else ~/.kube/config",
    )
    context: str = flag("context", TEXT, "", "context of the kubeconfig; empty for its current one")
    dry_run: bool = flag("dry-run", SWITCH, "false", "report what would be written, write nothing")
    namespace: str = flag(
        "vpa-object-namespace",
        TEXT,
        "",
        "VPAs of this namespace only; empty for all",
        short="n",
    )

    def __post_init__(self) -> None:
        if (self.kubeconfig or self.context) and not self.dry_run:
            raise BadSetting(
                "--kubeconfig: run only reads a real cluster; add --dry-run, "
                "or start admission, recommender and updater"
            )


@dataclass(frozen=True, slots=True)
class Features:
    """Features."""

    gates: FeatureGates = gates_flag("AllAlpha=true")


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
        if self.real.dry_run and self.pace.record:
            raise BadSetting("--record: of a real cluster, plumbline record reads more")


def address(host: str, port: int) -> str:
    """Return how an address is written."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
