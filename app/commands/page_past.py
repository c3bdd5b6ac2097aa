"""What settings would have made of a recording, for the page: walked once, an hour at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from app.backtest.core.blocks import steps_a_round
from app.backtest.core.days import missing_days, trimmed
from app.backtest.core.past_hours import HourlyWalk, PastHours
from app.backtest.core.recorded_fleet import Fleet, RecordedWorkload, has_owner, parts
from app.backtest.core.scores import Measure
from app.backtest.core.setting_outcomes import reserved
from app.backtest.core.settings import AS_IT_WAS, Given, Setting
from app.backtest.recording import Recording
from app.backtest.recording_file import load_recording
from app.commands.backtest_settings import PRESENT, given_in, with_usual
from app.model.gates import FeatureGate
from app.model.kinds import ObjectKey
from app.model.snapshot import Snapshot
from app.page.core.charts import LevelKind
from app.page.core.past import PastAmounts, PastLine, WorkloadPast, past_charts
from app.page.flags import PageSettings, ReportSettings
from app.recommender.configuration import amount_rules
from app.recommender.core.histograms import Floats
from app.recommender.core.moments import SECOND, moment

_IDLE_SECONDS: Final = 3600.0
_LOWER_BOUND: Final = " These are a lower bound: limits may have cut off what was used."
_LEVELS: Final = (LevelKind.REQUEST, LevelKind.PRESENT, LevelKind.UPSTREAM)


class PastBounds(NamedTuple):
    """How much is computed at most."""

    workloads: int = 300  # after which no other part begins
    rows: int = 500  # of a part


_USUAL: Final = PastBounds()


class RecordedPast:
    """Walks a recording under the present flags and upstream's default.

    One that grows still may be short: what was requested is shown, and nothing is summed up yet.
    """

    def __init__(
        self,
        recording: Recording,
        name: str,
        settings: Sequence[Setting],
        bounds: PastBounds = _USUAL,
        *,
        is_growing: bool = False,
    ) -> None:
        self._recording = trimmed(recording)
        self._name = name
        self._settings = settings
        self._bounds = bounds
        self._missing = missing_days(self._recording)
        self._is_growing = is_growing
        self._recorded = {
            RecordedWorkload(one.namespace, one.owner_kind, one.owner_name)
            for one in recording.rows
            if has_owner(one)
        }
        self._found: dict[RecordedWorkload, WorkloadPast] = {}
        self._left: Iterator[None] | None = None
        self._share = 0.0
        self._is_over = False

    def tick(self, snapshot: Snapshot) -> float:
        """Walk an hour; the VPAs are those of the first time."""
        if self._left is None:
            self._left = self._walked(given_in(snapshot))
        self._is_over = next(self._left, "over") == "over"
        return _IDLE_SECONDS if self._is_over else 0.0

    def of(self, namespace: str, key: ObjectKey) -> WorkloadPast | None:
        """Return what is known of a workload, None if it was not recorded."""
        workload = RecordedWorkload(namespace, key.kind, key.name)
        if workload not in self._recorded:
            return None
        return self._found.get(workload) or WorkloadPast(self._why_not())

    def _why_not(self) -> str:
        if self._missing and not self._is_growing:
            return f"{self._about()} {self._missing:.1f} days are missing for anything to be said."
        if self._is_over:
            told = f"{len(self._found)} of {len(self._recorded)} workloads are computed"
            return f"{self._about()} {told}; this is not among them."
        return f"{self._about()} It is being computed: {self._share:.0%} is done."

    def _about(self) -> str:
        recording = self._recording
        begin, end = (moment(at * SECOND) for at in (recording.start, recording.end))
        days = recording.count * recording.step / 86_400
        return f"{self._name}: {days:.1f} days, {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC."

    def _walked(self, given: Given) -> Iterator[None]:
        if self._missing and not self._is_growing:
            return
        for fleet in parts(self._recording.rows, self._bounds.rows):
            yield from self._part(fleet, given)
            if len(self._found) >= self._bounds.workloads:
                return

    def _part(self, fleet: Fleet, given: Given) -> Iterator[None]:
        recording, done = self._recording, len(self._found)
        most = min(len(self._recorded), max(self._bounds.workloads, len(fleet.workloads)))
        walk = HourlyWalk(recording, fleet, self._settings, given)
        for time_ns in walk.hours():
            walked = (time_ns / SECOND - recording.start) / (recording.count * recording.step)
            self._share = min((done + walked * len(fleet.workloads)) / most, 1.0)
            yield
        for one in walk.found():
            self._found[one.workload] = self._past(one)

    def _past(self, told: PastHours) -> WorkloadPast:
        recording = self._recording
        names = [AS_IT_WAS, *(one.name for one in self._settings)]
        amounts = PastAmounts(
            recording.start,
            steps_a_round(recording.step) * recording.step,
            told.used,
            dict(zip(_LEVELS[: len(names)], told.requested, strict=True)),
            told.kills,
        )
        charts = past_charts(amounts, self._name)
        if self._missing:
            about = f"{self._about()} {self._missing:.1f} more days are needed to sum it up."
            return WorkloadPast(about, (), charts)
        lines = [_line(name, sums) for name, sums in zip(names, told.sums, strict=True)]
        return WorkloadPast(self._about() + _LOWER_BOUND * told.is_lower_bound, lines, charts)


def recorded_past(settings: PageSettings | ReportSettings) -> RecordedPast | None:
    """Return what walks the recording that flags name, None if they name none.

    Raises:
        BadSetting: it cannot be read, or a flag is wrong.
    """
    path = settings.past.recording
    if path is None:
        return None
    return RecordedPast(load_recording(path), path.name, shown_settings(settings))


def shown_settings(settings: PageSettings | ReportSettings) -> list[Setting]:
    """Return the settings that a page compares: its recommender's flags, and upstream's default.

    Raises:
        BadSetting: a flag is wrong.
    """
    rules = amount_rules(
        settings.estimation, settings.aggregation, settings.format, settings.post_processing
    )
    is_per_vpa = FeatureGate.PER_VPA_CONFIG in settings.deciding.gates
    return with_usual(Setting(PRESENT, replace(rules, per_vpa_config=is_per_vpa)))


def _line(name: str, sums: Floats) -> PastLine:
    (cpu_unused, cpu_short), (memory_unused, memory_short) = (
        (
            _share(sums[first + 1], float(reserved(sums, first))),
            _share(sums[first + 3], sums[first + 4]),
        )
        for first in (Measure.CPU_USED, Measure.MEMORY_USED)
    )
    kills = int(sums[Measure.KILLS])
    return PastLine(name, cpu_unused, cpu_short, memory_unused, memory_short, kills)


def _share(part: float, whole: float) -> float | None:
    return float(np.clip(part / whole, 0.0, 1.0)) if whole > 0 else None
