"""Running containers, their aggregates, and the kills that upstream sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.recommender.core.checkpoints import Checkpoint, StoredHistogram
from app.recommender.core.moments import DAY, HOUR, MINUTE, UNSET
from app.recommender.core.rules import AggregationRules, RecommenderRules
from app.recommender.upstream.containers import Aggregate, RunningContainer, kills_by_transition
from tests import make
from tests.recommender.core.test_oom import TRANSITIONS, pod, status, transition

RULES = RecommenderRules(per_vpa_config=True)

MI = 2**20
START = 20_000 * DAY + 10 * HOUR


def sampled(*days: int) -> Aggregate:
    """Return an aggregate with CPU samples of some days."""
    found = Aggregate(RULES.aggregation, 0)
    for day in days:
        found.add_cpu(100, day * DAY)
    return found


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param((), (), (UNSET, UNSET, 0), id="nothing and nothing"),
        pytest.param((3,), (), (3 * DAY, 3 * DAY, 1), id="something and nothing"),
        pytest.param((), (3,), (3 * DAY, 3 * DAY, 1), id="nothing and something"),
        pytest.param((3, 5), (4, 9), (3 * DAY, 9 * DAY, 4), id="older first"),
        pytest.param((4, 9), (3, 5), (3 * DAY, 9 * DAY, 4), id="younger first"),
    ],
)
def test_merge(one: tuple[int, ...], other: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """The first of the first, the last of the last, and all samples."""
    found = sampled(*one)
    found.merge(sampled(*other))

    assert (found.first_ns, found.last_ns, found.count) == expected


def test_load() -> None:
    """A checkpoint becomes an aggregate."""
    found = Aggregate(RULES.aggregation, 0)
    histogram = StoredHistogram(DAY, {8: 10000}, 5.0)
    found.load(Checkpoint("n", "v-c", "v", "c", histogram, histogram, DAY, 2 * DAY, 7))

    assert (found.cpu.total, found.memory.total, found.count) == (5.0, 5.0, 7)
    assert (found.first_ns, found.last_ns) == (DAY, 2 * DAY)


OWN: dict[str, Any] = {
    "memoryAggregationIntervalSeconds": 3600,
    "memoryAggregationIntervalCount": 2,
    "oomBumpUpRatio": "3",
    "oomMinBumpUp": "1",
}


@pytest.mark.parametrize("field", list(OWN))
def test_what_a_policy_set_stays(field: str) -> None:
    """A field that is taken out of a policy keeps its last value."""
    found = Aggregate(RULES.aggregation, 0)
    default = found.settings

    def follow(fields: dict[str, Any]) -> None:
        vpa = make.vpa(policies=[make.policy_json("app", **fields)])
        found.follow(vpa.policy("app"), RULES)

    follow({field: OWN[field]})
    changed = found.settings
    follow({})
    found.follow(None, RULES)

    assert changed != default
    assert found.settings == changed


def test_without_the_gate_policies_set_nothing() -> None:
    """The flags hold."""
    found = Aggregate(RULES.aggregation, 0)
    default = found.settings
    vpa = make.vpa(policies=[make.policy_json("app", **OWN)])
    found.follow(vpa.policy("app"), replace(RULES, per_vpa_config=False))

    assert found.settings == default


@pytest.mark.parametrize(
    ("days", "now", "expected"),
    [
        pytest.param((), 8 * DAY - HOUR, False, id="nothing yet"),
        pytest.param((), 8 * DAY, True, id="nothing for too long"),
        pytest.param((7,), 15 * DAY - HOUR, False, id="seven days"),
        pytest.param((7,), 15 * DAY, True, id="eight days"),
    ],
)
def test_expiry(days: tuple[int, ...], now: int, expected: bool) -> None:
    """An aggregate is as young as its last CPU sample, or as it is."""
    assert sampled(*days).is_expired(now) is expected


class Logged(Aggregate):
    """An aggregate that notes which peaks come and go, with their hours after the start."""

    def __init__(self) -> None:
        super().__init__(AggregationRules(), 0)
        self.log: list[tuple[str, int, float]] = []

    def add_peak(self, memory_bytes: int, time_ns: int) -> None:
        """Note and add."""
        self.log.append(("+", memory_bytes // MI, (time_ns - START) / HOUR))
        super().add_peak(memory_bytes, time_ns)

    def take_peak(self, memory_bytes: int, time_ns: int) -> None:
        """Note and take away."""
        self.log.append(("-", memory_bytes // MI, (time_ns - START) / HOUR))
        super().take_peak(memory_bytes, time_ns)


def container() -> tuple[RunningContainer, Logged]:
    """Return a container and the aggregate it feeds."""
    aggregate = Logged()
    return RunningContainer(lambda: aggregate), aggregate


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param(
            [(0, 100), (1, 90), (2, 150), (1439, 120), (1440, 80), (1441, 200)],
            [
                ("+", 100, 24),
                ("-", 100, 24),
                ("+", 150, 24),
                ("+", 80, 48),
                ("-", 80, 48),
                ("+", 200, 48),
            ],
            id="one peak an interval, the next one weighs twice",
        ),
        pytest.param([(0, 100), (5040, 90)], [("+", 100, 24), ("+", 90, 96)], id="a gap"),
        pytest.param(
            [(0, 0), (1, 500), (1439, 700), (1440, 500)],
            [("+", 0, 24), ("+", 500, 48)],
            id="a zero freezes the interval",
        ),
    ],
)
def test_peaks(samples: list[tuple[int, int]], expected: list[tuple[str, int, float]]) -> None:
    """One peak per interval, replaced while it runs."""
    one, aggregate = container()
    for minute, mebibytes in samples:
        assert one.use_memory(mebibytes * MI, START + minute * MINUTE)

    assert aggregate.log == expected


def test_order_of_samples() -> None:
    """Memory may repeat a time but not go back; cpu may not even repeat."""
    one, aggregate = container()
    times = (START, START - 10**9, START)

    assert [one.use_memory(100 * MI + n, time) for n, time in enumerate(times)] == [
        True,
        False,
        True,
    ]
    assert [one.use_cpu(100, time) for time in times] == [True, False, False]
    assert (one.use_memory(-1, START + DAY), one.use_cpu(-1, START + DAY)) == (False, False)
    assert aggregate.count == 1


@pytest.mark.parametrize(
    ("hours_ago", "expected"),
    [pytest.param(30, False, id="too long ago"), pytest.param(24, True, id="just not")],
)
def test_late_kills(hours_ago: int, expected: bool) -> None:
    """A kill may be as old as an interval."""
    one, _ = container()
    one.use_memory(100 * MI, START)

    assert one.kill(1000 * MI, START - hours_ago * HOUR) is expected


def test_usage_and_kills() -> None:
    """Only usage counts when the next kill is judged."""
    one, aggregate = container()
    one.use_memory(400 * MI, START)
    one.kill(500 * MI, START + MINUTE)
    one.use_memory(650 * MI, START + 2 * MINUTE)
    one.kill(600 * MI, START + 3 * MINUTE)

    assert [entry[:2] for entry in aggregate.log] == [
        ("+", 400),
        ("-", 400),
        ("+", 600),
        ("-", 600),
        ("+", 650),
        ("-", 650),
        ("+", 780),
    ]
    assert (one.usage_bytes // MI, one.oom_bytes // MI) == (650, 780)


def test_kill_after_the_interval() -> None:
    """A kill begins the next interval from the old peak."""
    one, aggregate = container()
    one.use_memory(2000 * MI, START)
    one.kill(1000 * MI, START + 48 * HOUR)

    assert aggregate.log == [("+", 2000, 24), ("+", 2400, 72)]


@pytest.mark.parametrize(("before", "after", "other", "expected"), TRANSITIONS)
def test_transitions(
    before: dict[str, Any], after: dict[str, Any], other: str, expected: list[int]
) -> None:
    """What a transition tells of kills counts."""
    found = kills_by_transition(*transition(before, after, other, expected))
    assert [record.memory_bytes for record in found] == expected


def test_first_sight() -> None:
    """What a pod tells at first sight, or a status that appears, does not."""
    first = pod(status("terminated", restarts=1, last="OOMKilled", finished=None))
    assert kills_by_transition(None, first) == []
    before = make.pod(status={"phase": "Running"})
    assert kills_by_transition(before, pod(status("terminated"))) == []
