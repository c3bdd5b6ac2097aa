"""Days of a recording are whole, and only those with usage are history."""

from __future__ import annotations

import numpy as np
import pytest

from app.backtest.core.days import Days, missing_days, trimmed, usage_days
from app.backtest.core.recorded_fleet import parts
from app.backtest.core.scores import Measure, together
from app.backtest.core.settings import Given, Setting
from app.backtest.core.walk import Walk
from app.backtest.recording import Recording
from app.recommender.core.rules import RecommenderRules
from tests.backtest.recordings import START, recording
from tests.cases import cases

HOUR = 12  # steps
DAY = 24 * HOUR


def known(count: int, *hours: range) -> Recording:
    """Return a recording of so many steps, with usage in some hours."""
    found = recording(count=count, cpu_request=1)
    for span in hours:
        found.cpu[:, span.start * HOUR : span.stop * HOUR] = 0.5
    return found


@cases(
    "hours days",
    {
        "less than a day": (5, [0]),
        "whole days": (48, [0, 1]),
        "what is left belongs to the first day": (60, [0, 1]),
    },
)
def test_days_end_with_the_recording(hours: int, days: list[int]) -> None:
    """Each but the first is whole."""
    found = Days(recording(count=hours * HOUR))
    steps = [found.of(step) for step in range(hours * HOUR)]
    assert sorted(set(steps)) == days
    assert found.count == len(days)
    assert all(steps.count(day) == DAY for day in days[1:])


@cases(
    "told days missing",
    {
        "enough": (known(3 * DAY, range(72)), 3, 0),
        "plenty": (known(14 * DAY, range(336)), 14, 0),
        "an hour": (known(HOUR, range(1)), 1 / 24, 3 - 1 / 24),
        "nothing": (known(3 * DAY), 0, 3),
        "two days of fourteen": (known(14 * DAY, range(24), range(312, 336)), 2, 1),
    },
)
def test_missing_history(told: Recording, days: float, missing: float) -> None:
    """A day of learning and two that count are the least; days without usage are none."""
    assert usage_days(told) == pytest.approx(days)
    assert missing_days(told) == pytest.approx(missing)


def test_what_is_before_and_after_usage_is_left_out() -> None:
    """The history begins with the first usage, not with the span that was asked for."""
    told = known(14 * DAY, range(300, 330))
    found = trimmed(told)
    assert (found.start, found.count) == (START + 300 * 3600, 30 * HOUR)
    assert np.array_equal(found.cpu, told.cpu[:, 300 * HOUR : 330 * HOUR])
    assert trimmed(known(DAY)).count == 0


def test_days_without_usage_are_not_counted() -> None:
    """An outage of two days leaves the days around it, and says that two are gone."""
    told = known(6 * DAY, range(48), range(96, 144))
    (fleet,) = parts(told.rows, 10)
    walk = Walk(told, fleet, [Setting("usual", RecommenderRules())], Given())
    assert sum(1 for _ in walk.hours()) == 144
    found = together([walk.scores()])
    assert found.empty_days == 2
    assert found.days[:, 0, 0, Measure.CPU_STEPS].tolist() == [DAY] * 4
