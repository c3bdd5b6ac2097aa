"""What settings would have made of recorded usage, beside what was requested."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import numpy as np

from app.backtest.core.days import (
    LEAST_DAYS,
    WARM_UP_DAYS,
    missing_days,
    trimmed,
    usage_days,
)
from app.backtest.core.recorded_fleet import has_owner
from app.backtest.core.scores import Scores
from app.backtest.core.setting_outcomes import HistoryQuality, outcomes, quality
from app.backtest.core.walk import walked
from app.backtest.recording import Recording
from app.backtest.recording_file import load_recording
from app.commands.backtest_flags import BacktestFormat, BacktestSettings
from app.commands.backtest_settings import compared, given_by, prices_of
from app.commands.backtest_text import items, lines, page
from app.commands.record import record_report
from app.commands.record_flags import RecordedEvents, RecordedFile, RecordSettings
from app.commands.replaying.printing import Bar
from app.flags.shared import Offline
from app.model.errors import BadSetting
from app.output import Report, Text, line
from app.ports import Clock
from app.recommender.core.histograms import Indexes

_RECORDED: Final = "recording.npz"
_NAMES: Final = {  # of what may be known of no container
    "CPU": "cpu",
    "memory": "memory",
    "CPU requests": "cpu_request",
    "memory requests": "memory_request",
    "CPU limits": "cpu_limit",
    "memory limits": "memory_limit",
}
_DRAWS: Final = 2_000
_SEED: Final = 1


def backtest_report(settings: BacktestSettings, clock: Clock) -> Report:
    """Return what came of each setting.

    Raises:
        BadSetting: a file cannot be read, or a flag is wrong.
        ClusterError: Prometheus refuses, or does not answer.
    """
    notes = list[str]()
    prices, given = prices_of(settings.prices), given_by(settings.offline.objects, notes)
    wanted = compared(settings, settings.comparison.sets)
    recording = recorded(settings, clock, notes)
    if (report := too_short(recording, LEAST_DAYS)) is not None:
        return report
    bar = Bar(sys.stderr)
    scores, _ = walked(recording, wanted, given, partial(bar.show, "walking"))
    bar.clear()
    found = outcomes(scores, wanted, draws(len(scores.days) - WARM_UP_DAYS), prices)
    history = history_of(scores, recording)
    names = [one.name for one in found]
    body = Text(lines(found, history))
    if settings.showing.asked is BacktestFormat.HTML:
        body = page(found, history)
    return Report(body, items(found, history), names, notes)


def history_of(scores: Scores, recording: Recording) -> HistoryQuality:
    """Return how much of a recording can be believed that was walked."""
    strange = sum(not has_owner(one) for one in recording.rows)
    unknown = [
        name for name, measure in _NAMES.items() if np.isnan(recording.measured(measure)).all()
    ]
    return quality(scores, strange, tuple(unknown))


def recorded(settings: BacktestSettings, clock: Clock, notes: list[str]) -> Recording:
    """Return the recording that a command line names, made first if a Prometheus is named too.

    Raises:
        BadSetting: none is named, or it cannot be read or made, or there is nothing in it.
        ClusterError: Prometheus refuses, or does not answer.
    """
    files = settings.files
    is_new = bool(settings.prometheus.address)
    if len(files) != 1 and (files or not is_new):
        raise BadSetting("name one recording, such as one that `plumbline record` has written")
    path = Path(files[0] if files else _RECORDED)
    if is_new:
        if path.exists():
            raise BadSetting(f"{path}: is there already; without --prometheus-address it is used")
        wanted = RecordSettings(
            settings.time,
            RecordedFile(path),
            RecordedEvents(None),
            Offline(()),
            settings.prometheus,
            settings.prometheus_access,
        )
        made = record_report(wanted, clock)
        notes += [f"recorded {one}" for one in made.names]
        notes += made.notes
    found = load_recording(path)
    if not any(map(has_owner, found.rows)):
        raise BadSetting(f"{path}: there is no container of a known workload in it")
    return trimmed(found)


def too_short(recording: Recording, least_days: int) -> Report | None:
    """Return what is said of a history that is too short, None of one that is not."""
    missing = missing_days(recording, least_days)
    if not missing:
        return None
    told = (
        f"usage is known of {usage_days(recording):.1f} days, and {missing:.1f} days are missing: "
        f"it takes one day in which everything is learned, and {least_days} that are counted"
    )
    return Report(Text([line(told)]), [{"missingDays": missing}], [], is_bad=True)


def draws(days: int) -> Indexes:
    """Return days drawn at random, always the same."""
    dice = Random(_SEED)
    return np.array([[dice.randrange(days) for _ in range(days)] for _ in range(_DRAWS)])
