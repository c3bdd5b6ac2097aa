"""Settings of back-tests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from app.commands.record_flags import RecordedTime
from app.flags.flags import PATH, TEXT, FlagKind, chosen, flag, number, optional, rest
from app.flags.shared import Offline, gates_flag
from app.model.gates import FeatureGates
from app.model.update_modes import UpdateMode
from app.output import Output
from app.recommender.flags import (
    AggregationFlags,
    EstimationFlags,
    FormatFlags,
    PostProcessingFlags,
)
from app.recommender.source_flags import PrometheusAccessFlags, PrometheusFlags

_CHANGES: Final[FlagKind[tuple[str, ...]]] = FlagKind(
    "NAME=VALUE,...",
    "flags of the recommender as name=value",
    lambda texts: tuple(text for text in texts if text),
    repeats=True,
)


@dataclass(frozen=True, slots=True)
class ComparisonFlags:
    """What is compared."""

    sets: tuple[str, ...] = flag(
        "set",
        _CHANGES,
        "",
        "a setting to compare: flags of the recommender that differ from the present ones, and "
        "update-mode, with commas between them; may be repeated",
    )
    mode: UpdateMode = flag(
        "update-mode",
        chosen(UpdateMode),
        UpdateMode.IN_PLACE_OR_RECREATE,
        "update mode of all VPAs, whatever they say now",
    )
    gates: FeatureGates = gates_flag()


class BacktestFormat(StrEnum):
    """How a back-test is shown."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class BacktestOutput:
    """Output."""

    asked: BacktestFormat = flag(
        "output",
        chosen(BacktestFormat),
        BacktestFormat.TABLE,
        "output format: table, wide (as wide as it is), json (an object a line), yaml, csv, or "
        "html, a page in one file",
        short="o",
    )

    @property
    def output(self) -> Output:
        """How what is reported is printed; a page is as wide as it is."""
        return Output.WIDE if self.asked is BacktestFormat.HTML else Output(self.asked)


@dataclass(frozen=True, slots=True)
class PriceFlags:
    """Prices."""

    core: float | None = flag("price-core", optional(number(0)), "", "price of a core for an hour")
    gib: float | None = flag("price-gib", optional(number(0)), "", "price of a GiB for an hour")
    file: Path | None = flag(
        "price-file",
        optional(PATH),
        "",
        "YAML file with `core` and `gib`, and `namespaces` in which they differ",
    )


@dataclass(frozen=True, slots=True)
class FirstRecordedFlags(PrometheusFlags):
    """Prometheus, from which a recording is made first."""

    address: str = flag(
        "prometheus-address", TEXT, "", "URL of a Prometheus; empty: FILE is there already"
    )


@dataclass(frozen=True, slots=True)
class BacktestSettings:
    """All that a back-test can be told."""

    comparison: ComparisonFlags
    prices: PriceFlags
    showing: BacktestOutput
    offline: Offline
    estimation: EstimationFlags
    aggregation: AggregationFlags
    format: FormatFlags
    post_processing: PostProcessingFlags
    prometheus: FirstRecordedFlags
    prometheus_access: PrometheusAccessFlags
    time: RecordedTime
    files: tuple[str, ...] = rest(
        "FILE",
        "a recording, which `plumbline record` writes, or, with --prometheus-address, which is "
        "written first: recording.npz unless another one is named",
    )
