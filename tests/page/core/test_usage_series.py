"""Usage is summed up by step, and pods are known by their names."""

from __future__ import annotations

import re
from datetime import timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.page.core.usage_series import (
    ChartRange,
    KnownUsage,
    UsageSeries,
    coarser,
    known_since,
    pod_names,
    ranked,
)
from tests.cases import cases
from tests.make import NOW


@cases(
    "kind name pod is_ours",
    {
        "of a Deployment": ("Deployment", "web", "web-7d4b9c6f5-x2x4z", True),
        "of a Deployment whose name is longer": ("Deployment", "web", "web-api-7d4b9-x2x4z", False),
        "no suffix that is generated": ("Deployment", "web", "web-aeiou-x2x4z", False),
        "of a StatefulSet": ("StatefulSet", "db", "db-12", True),
        "of a DaemonSet": ("DaemonSet", "agent", "agent-x2x4z", True),
        "of a CronJob": ("CronJob", "nightly", "nightly-29384756-x2x4z", True),
        "of a Job": ("Job", "load", "load-x2x4z", True),
        "of an indexed Job": ("Job", "load", "load-3-x2x4z", True),
        "of a custom owner like a Deployment": ("Rollout", "web", "web-7d4b9c6f5-x2x4z", True),
        "of a custom owner like a StatefulSet": ("CloneSet", "web", "web-0", True),
        "lives, whatever its name": ("Rollout", "web", "other", True),
        "a name with a dot": ("StatefulSet", "a.b", "a.b-0", True),
        "a dot is a dot": ("StatefulSet", "a.b", "axb-0", False),
    },
)
def test_pods_are_known_by_name(kind: str, name: str, pod: str, is_ours: bool) -> None:
    """Names end as controllers end them; what lives is named where that does not do."""
    pattern = pod_names(kind, name, ["other", f"{name}-0"])

    assert bool(re.fullmatch(pattern, pod)) is is_ours


def test_names_are_few() -> None:
    """However many pods have names of their own, the pattern stays short."""
    assert len(pod_names("Rollout", "web", [f"pod-x{number}" for number in range(9000)])) < 4000


def test_ranks() -> None:
    """Median, the one at 95 percent and the highest are amounts of pods that exist."""
    table = np.array([list(range(1, 101)), [7] + [0] * 99, [0] * 100])

    assert ranked(table, 0).tolist() == [[50, 7, 0], [95, 7, 0], [100, 7, 0]]


def test_ranks_of_no_pod() -> None:
    """Without pods nothing is known."""
    assert ranked(np.zeros((2, 0)), -1).tolist() == [[-1, -1]] * 3


@given(st.lists(st.lists(st.integers(-1, 9), min_size=3, max_size=3), min_size=1, max_size=5))
def test_ranks_are_in_order(rows: list[list[int]]) -> None:
    """No median is above the highest, and all of them are among the amounts."""
    found = ranked(np.array(rows), -1)

    assert (found[0] <= found[1]).all()
    assert (found[1] <= found[2]).all()
    assert all(value in row for value, row in zip(found[2].tolist(), rows, strict=True))


def test_fewer_points() -> None:
    """Steps are put together; what is not known of one of them does not hide the others."""
    series = UsageSeries(
        0,
        60,
        np.array([1, 3, np.nan, np.nan, 7.0]),
        np.array([2, 4, np.nan, np.nan, 8.0]),
        np.array([9, 5, np.nan, np.nan, 9.0]),
    )
    found = coarser(series, 3)

    assert (found.start, found.step_seconds) == (0, 120)
    assert str(found.median.tolist()) == "[2.0, nan, 7.0]"
    assert str(found.high.tolist()) == "[4.0, nan, 8.0]"
    assert str(found.highest.tolist()) == "[9.0, nan, 9.0]"
    assert coarser(series, 5) is series


@cases("chart points", {"hour": ("1h", 60), "day": ("24h", 288), "fortnight": ("14d", 336)})
def test_ranges(chart: str, points: int) -> None:
    """Ranges have so many points that a chart shows them, and the last one is whole."""
    found = next(one for one in ChartRange if one.text == chart)

    assert found.points == points
    assert found.last_step(NOW) < found.last_step(NOW + timedelta(seconds=found.step_seconds))
    assert (found.last_step(NOW) + 1) * found.step_seconds <= NOW.timestamp()


def test_usage_since_a_moment() -> None:
    """What was before is not known, and a sentence says from when on it is."""
    line = np.arange(4.0)
    start = int(NOW.timestamp())
    known = KnownUsage({("db", "cpu"): UsageSeries(start, 60, line, line, line)}, "here", "old")
    found = known_since(known, NOW + timedelta(seconds=61))

    assert np.isnan(found.series["db", "cpu"].highest).tolist() == [True, True, False, False]
    assert found.problem.startswith(f"usage is shown since {NOW + timedelta(seconds=61):%Y-%m-%d}")
    assert found.problem.endswith("when the role moved; old")
