"""Recorded days give the numbers that the recommender's arithmetic demands."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest

from app.recommender.core.rules import EstimatorRules, RecommenderRules
from tests.commands.replaying.story import (
    DAY,
    MI,
    Story,
)

TEN = 600  # 10:00, in minutes
NO_FLOOR = RecommenderRules(estimator=EstimatorRules(min_memory_mib=0))

both = pytest.mark.parametrize("upstream", [True, False], ids=["upstream", "ours"])


def target_of(mib: float) -> int:
    """Return the target for a single memory peak: the end of its bucket, and a margin."""
    bucket = 0
    while _start(bucket + 1) <= mib * MI:
        bucket += 1
    base = int(_start(bucket + 1))
    return base + int(base * 0.15)


def _start(bucket: int) -> float:
    return 1e7 * (1.05**bucket - 1) / (1.05 - 1)


# --- whole traces


def hamster(minutes: int) -> Story:
    """Return a story of 800m in the first nine minutes of each hour and rising memory."""
    story = Story()
    for minute in range(minutes + 1):
        hour, past = divmod(minute, 60)
        story.use(minute, "800m" if past < 9 else "100m", f"{300 + 10 * (hour % 24)}Mi")
    return story


DAY_ONE = {
    0: ("25m 250Mi", "920m 380258472", "100G 97656250000Ki"),
    9: ("683m 282593989", "920m 380258472", "148120m 61221613992"),
    60: ("120m 362642738", "920m 380258472", "23 9506461800"),
    720: ("125m 509732018", "920m 511772986", "2760m 1535318958"),
    1440: ("125m 379499094", "920m 671629701", "1840m 1343259402"),
}
DAYS = {
    2880: ("125m 379878498", "920m 671629701", "1380m 1007444551"),
    10080: ("125m 380149849", "920m 671629701", "1051m 767576801"),
}


@pytest.mark.parametrize(
    ("expected", "interval"), [(DAY_ONE, 1), (DAYS, 60)], ids=["first day", "later"]
)
def test_a_full_trace(expected: Mapping[int, tuple[str, str, str]], interval: int) -> None:
    """Bounds and targets after a sample, hours and days."""
    shown = hamster(max(expected)).play(
        *expected, upstream=True, start=-interval, interval=interval
    )
    assert {minute: shown.bounds(minute) for minute in expected} == expected


def test_statuses_change_in_every_loop() -> None:
    """Bounds move by bytes each minute; ours waits until that matters."""
    minutes = range(DAY + 1, DAY + 61)
    changes = {}
    for upstream in (True, False):
        shown = hamster(DAY + 60).play(*minutes, upstream=upstream, start=-1)
        bounds = [shown.bounds(minute) for minute in minutes]
        changes[upstream] = sum(one != other for one, other in pairwise(bounds))
    assert changes[True] == 59
    assert changes[False] < 10


def test_a_restart_within_an_interval() -> None:
    """Upstream loses the peak of the running interval, ours keeps it."""
    story, begin, end = Story(), 6 * 60, 18 * 60
    for minute in range(begin, end + 1):
        story.use(minute, "100m", "1Gi" if 0 <= minute - 12 * 60 < 30 else "200Mi")
    story.restart(end)
    theirs = story.play(end, end + 1, upstream=True, start=begin - 1)
    ours = story.play(end, end + 1, start=begin - 1)
    assert theirs.target(end) == ours.target(end) == "126m 1238659775"
    assert theirs.target(end + 1) == "126m 250Mi"
    assert theirs.upper(end + 1) == "378m 744460440"
    assert ours.target(end + 1) == "126m 1238659775"


def test_weekly_peaks_are_forgotten() -> None:
    """Four busy Mondays leave no trace on Sundays."""
    story, week = Story(), 7 * DAY
    for minute in range(0, 28 * DAY, 20):
        story.use(minute, "1000m" if minute % week < DAY else "100m", "300Mi")
    sundays = [number * week for number in (1, 2, 3, 4)]
    mondays = [number * week + DAY for number in (1, 2, 3)]
    shown = story.play(*sorted(sundays + mondays), upstream=True, interval=60)
    assert {shown.target(minute).split()[0] for minute in sundays} == {"126m"}
    assert {shown.target(minute).split()[0] for minute in mondays} == {"1168m"}


def test_short_daily_peaks_are_not_seen() -> None:
    """Three busy hours after midnight are below the percentile by the end of the day."""
    story = Story()
    for minute in range(0, 8 * DAY, 10):
        story.use(minute, "4" if minute % DAY < 3 * 60 else "100m", "300Mi")
    shown = story.play(8 * DAY, upstream=True, interval=60)
    assert shown.target(8 * DAY).split()[0] == "126m"


# --- memory, interval by interval


def peaks(*mib: float) -> list[str]:
    """Return the targets for single peaks."""
    return [str(target_of(amount)) for amount in mib]


def test_weights_of_intervals() -> None:
    """Peaks are stamped with the end of their interval."""
    story = Story().use(TEN, "100m", "100Mi").use(TEN + 5040, "100m", "90Mi")
    shown = story.play(TEN + 5040, upstream=True, start=TEN - 10, interval=10)
    stored = shown.checkpoints(TEN + 5040)["web-app"]["status"]["memoryHistogram"]
    assert stored == {
        "referenceTimestamp": "2026-01-06T00:00:00Z",
        "bucketWeights": {"8": 10000},
        "totalWeight": pytest.approx(1.33483985417, abs=1e-11),
    }


@both
def test_late_samples(upstream: bool) -> None:
    """Memory older than the last sample does not count, of the same moment it does."""
    story = Story().use(TEN, "100m", "100Mi")
    story.use(TEN + 1, "100m", "900Mi", timestamp="2026-01-05T09:59:59Z")
    story.use(TEN + 2, "100m", "200Mi", timestamp="2026-01-05T10:00:00Z")
    shown = story.play(TEN + 1, TEN + 2, upstream=upstream, rules=NO_FLOOR, start=TEN - 1)
    assert [shown.memory(TEN + 1), shown.memory(TEN + 2)] == peaks(100, 200)
    assert shown.checkpoints(TEN + 2)["web-app"]["status"]["totalSamplesCount"] == 1


# --- kills for memory


def test_kills_do_not_build_up_in_upstream() -> None:
    """Only a kill of a larger request asks for more."""
    story = Story()
    for minute, request in enumerate(("1000Mi", "999Mi", "999Mi", "2000Mi")):
        story.kill(minute + 0.5, request)
    shown = story.play(1, 2, 3, 4, upstream=True)
    assert [shown.memory(look) for look in (1, 2, 3, 4)] == peaks(1200, 1200, 1200, 2400)


@both
def test_a_kill_in_the_next_interval(upstream: bool) -> None:
    """What was used last counts, though its interval is over; its peak stays as well."""
    story = Story().use(TEN, "100m", "2000Mi").kill(TEN + 2 * DAY, "1000Mi")
    end = TEN + 2 * DAY
    shown = story.play(end, upstream=upstream, start=TEN - 10, interval=10)
    assert shown.memory(end) == str(target_of(2400))
    stored = shown.checkpoints(end)["web-app"]["status"]["memoryHistogram"]
    assert set(stored["bucketWeights"]) == {"50"}


def test_a_kill_is_answered_at_once() -> None:
    """Ours does not wait for the next tick, upstream does."""
    story = Story().use(1, "100m", "300Mi").kill(1.25, "1000Mi")
    assert story.play(1.25).memory(1.25) == "1470157273"
    assert story.play(1.25, upstream=True).memory(1.25) == str(target_of(300))
