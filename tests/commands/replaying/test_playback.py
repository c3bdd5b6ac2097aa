"""Recorded days give the numbers that the recommender's arithmetic demands."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest

from tests.commands.replaying.story import (
    DAY,
    Story,
)

TEN = 600  # 10:00, in minutes

both = pytest.mark.parametrize("upstream", [True, False], ids=["upstream", "ours"])


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


# --- kills for memory


def test_kills_do_not_build_up_in_upstream() -> None:
    """Only a kill of a larger request asks for more."""
    story = Story()
    for minute, request in enumerate(("1000Mi", "999Mi", "999Mi", "2000Mi")):
        story.kill(minute + 0.5, request)
    shown = story.play(1, 2, 3, 4, upstream=True)
    targets = [shown.memory(look) for look in (1, 2, 3, 4)]
    assert targets == [*["1470157273"] * 3, "2975900105"]  # 1200Mi, 2400Mi


@both
def test_a_kill_in_the_next_interval(upstream: bool) -> None:
    """What was used last counts, though its interval is over; its peak stays as well."""
    story = Story().use(TEN, "100m", "2000Mi").kill(TEN + 2 * DAY, "1000Mi")
    end = TEN + 2 * DAY
    shown = story.play(end, upstream=upstream, start=TEN - 10, interval=10)
    assert shown.memory(end) == "2975900105"  # 2400Mi
    stored = shown.checkpoints(end)["web-app"]["status"]["memoryHistogram"]
    assert set(stored["bucketWeights"]) == {"50"}
