"""Recorded days give the numbers that the recommender's arithmetic demands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from app.recommender.core.rules import AggregationRules, EstimatorRules, RecommenderRules
from tests.cases import cases
from tests.commands.replaying.story import (
    MI,
    WEB,
    Story,
    eviction_json,
    pod_json,
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


def test_a_restart_within_an_interval() -> None:
    """Upstream loses the peak of the running interval, ours keeps it."""
    story, begin, end = Story(), 6 * 60, 18 * 60
    for minute in range(begin, end + 1):
        story.use(minute, "100m", "1Gi" if 0 <= minute - 12 * 60 < 30 else "200Mi")
    story.restart(end)
    # The metrics of that moment are still the newest when the next process reads them.
    story.use(end + 0.5, "100m", "200Mi", timestamp="2026-01-05T18:00:00Z")
    theirs = story.play(end, end + 1, upstream=True, start=begin - 1)
    ours = story.play(end, end + 1, start=begin - 1)
    assert theirs.target(end) == ours.target(end) == "126m 1238659775"
    assert (theirs.bounds(end + 1) or ())[1:] == ("126m 250Mi", "378m 744460440")
    assert ours.target(end + 1) == "126m 1238659775"


# --- memory, interval by interval


def peaks(*mib: float) -> list[str]:
    """Return the targets for single peaks."""
    return [str(target_of(amount)) for amount in mib]


@both
def test_a_shorter_interval(upstream: bool) -> None:
    """With intervals of an hour each begins at the sample that opens it."""
    hourly = replace(NO_FLOOR, aggregation=AggregationRules(memory_interval=timedelta(hours=1)))
    story = Story()
    for minute, memory in ((0, "100Mi"), (30, "120Mi"), (61, "80Mi"), (200, "90Mi")):
        story.use(TEN + minute, "100m", memory)
    shown = story.play(TEN + 201, upstream=upstream, rules=hourly, start=TEN - 1)
    stored = shown.checkpoints(TEN + 201)["web-app"]["status"]["memoryHistogram"]
    assert set(stored["bucketWeights"]) == {"7", "10"}  # 80Mi and 120Mi; 90Mi is running


# --- kills for memory


Told = Callable[[Story], object]


@both
@cases(
    "told seen by_upstream",
    {
        "kills build up, but upstream's only by a larger request": (
            [
                lambda story: story.kill(0.5, "1000Mi"),
                lambda story: story.kill(1.5, "999Mi"),
                lambda story: story.kill(2.5, "999Mi"),
                lambda story: story.kill(3.5, "2000Mi"),
            ],
            [1200, 1440, 1728, 2400],
            [1200, 1200, 1200, 2400],
        ),
        "usage counts beside them": (
            [
                lambda story: story.use(0.5, "100m", "400Mi"),
                lambda story: story.kill(1.5, "500Mi"),
                lambda story: story.use(2.5, "100m", "650Mi"),
                lambda story: story.kill(3.5, "600Mi"),
            ],
            [400, 600, 650, 780],
            [400, 600, 650, 780],
        ),
    },
)
def test_several_kills(
    told: Sequence[Told], seen: Sequence[float], by_upstream: Sequence[float], upstream: bool
) -> None:
    """What an interval has seen already is replaced by what is higher."""
    story = Story()
    for tell in told:
        tell(story)
    looks = range(1, len(seen) + 1)
    shown = story.play(*looks, upstream=upstream)
    expected = by_upstream if upstream else seen
    assert [shown.memory(look) for look in looks] == peaks(*expected)


@both
def test_kills_that_follow_the_target(upstream: bool) -> None:
    """From 256Mi it takes eight kills to pass 4Gi."""
    story, request_mib, seen = Story(), 256.0, []
    for number in range(9):
        story.kill(number + 0.5, str(int(request_mib * MI)))
        request_mib = int(story.play(number + 1, upstream=upstream).memory(number + 1)) / MI
        seen.append(round(request_mib))
    assert seen == [422, 641, 933, 1325, 1850, 2554, 3683, 5271, 7507]


def test_a_kill_is_answered_at_once() -> None:
    """Ours does not wait for the next tick, upstream does."""
    story = Story().use(1, "100m", "300Mi").kill(1.25, "1000Mi")
    assert story.play(1.25).memory(1.25) == "1470157273"
    assert story.play(1.25, upstream=True).memory(1.25) == str(target_of(300))


@cases(
    "told upstream ours",
    {
        "one": (("a", "1000Mi", "memory"), "a", "a"),
        "as kubelets write": (("a,b", "1000Mi,1000Mi", "memory"), "", "ab"),
    },
)
def test_evictions(told: tuple[str, str, str], upstream: str, ours: str) -> None:
    """An eviction for memory counts for the containers that it blames."""
    story = Story([*WEB[:3], pod_json("web-0", "a", "b")])
    story.use(1, "100m", "300Mi", container="a").use(1, "100m", "300Mi", container="b")
    story.put(1.5, eviction_json(*told)).put(1.6, eviction_json(*told))
    for is_upstream, blamed in ((True, upstream), (False, ours)):
        shown = story.play(2, upstream=is_upstream)
        grown = [name for name in "ab" if shown.target(2, name).endswith(" 1470157273")]
        assert "".join(grown) == blamed
