"""Recorded days give the numbers that the recommender's arithmetic demands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from math import gcd

import pytest

from app.recommender.core.rules import AggregationRules, EstimatorRules, RecommenderRules
from tests import make
from tests.cases import cases
from tests.commands.replaying.story import (
    DAY,
    MI,
    START,
    WEB,
    WORKLOADS,
    Story,
    eviction_json,
    pod_json,
)

TEN = 600  # 10:00, in minutes
NO_FLOOR = RecommenderRules(estimator=EstimatorRules(min_memory_mib=0))
PER_VPA = RecommenderRules(per_vpa_config=True)

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


def test_targets_do_not_depend_on_likeness() -> None:
    """Ours are the same targets, to the digit."""
    shown = hamster(DAY).play(*DAY_ONE, start=-3, interval=3)
    assert {minute: shown.target(minute) for minute in DAY_ONE} == {
        minute: target for minute, (_, target, _) in DAY_ONE.items()
    }


def test_a_checkpoint_after_a_day() -> None:
    """Exact totals, the heaviest bucket is 10000, the running peak is left out."""
    shown = hamster(DAY).play(DAY, upstream=True, start=-1)
    assert shown.checkpoints(DAY)["web-app"] == {
        "metadata": {"namespace": "default", "name": "web-app"},
        "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": {
            "lastUpdateTime": "2026-01-06T00:00:00Z",
            "version": "v3",
            "cpuHistogram": {
                "referenceTimestamp": "2026-01-05T00:00:00Z",
                "bucketWeights": {"8": 10000, "32": 1751},
                "totalWeight": 207.89808989927872,
            },
            "memoryHistogram": {
                "referenceTimestamp": "2026-01-06T00:00:00Z",
                "bucketWeights": {"27": 10000},
                "totalWeight": 1,
            },
            "firstSampleStart": "2026-01-05T00:00:00Z",
            "lastSampleStart": "2026-01-06T00:00:00Z",
            "totalSamplesCount": 1441,
        },
    }


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


@pytest.mark.parametrize("hours", [1, 2, 3])
def test_short_daily_peaks_are_not_seen(hours: int) -> None:
    """Up to three busy hours after midnight are below the percentile by the end of the day."""
    story = Story()
    for minute in range(0, 8 * DAY, 10):
        story.use(minute, "4" if minute % DAY < hours * 60 else "100m", "300Mi")
    shown = story.play(8 * DAY, upstream=True, interval=60)
    assert shown.target(8 * DAY).split()[0] == "126m"


# --- memory, interval by interval

Step = tuple[float, str]  # minute and memory used
Seen = Mapping[float, str]  # targets by minute


def peaks(*mib: float) -> list[str]:
    """Return the targets for single peaks."""
    return [str(target_of(amount)) for amount in mib]


@both
@cases(
    "steps seen",
    {
        "one peak an interval": (
            [(0, "100Mi"), (1, "90Mi"), (2, "150Mi"), (1439, "120Mi")],
            {0: 100, 1: 100, 2: 150, 1439: 150},
        ),
        "the next one weighs twice": (
            [(0, "150Mi"), (1440, "80Mi"), (1441, "200Mi")],
            {1439: 150, 1440: 150, 1441: 200},
        ),
        "after days without samples": ([(0, "100Mi"), (5040, "90Mi")], {0: 100, 5040: 100}),
        "more is seen at once": (
            [(day * DAY, "1000Mi" if day == 8 else "200Mi") for day in range(9)],
            {7 * DAY: 200, 8 * DAY: 1000},
        ),
        "less on the fourth day": (
            [(day * DAY, "1000Mi" if day < 8 else "200Mi") for day in range(13)],
            {10 * DAY: 1000, 11 * DAY: 200},
        ),
    },
)
def test_memory_peaks(steps: Sequence[Step], seen: Mapping[int, float], upstream: bool) -> None:
    """Each container gives one peak an interval, which counts from its first moment on."""
    story = Story()
    for minute, memory in steps:
        story.use(TEN + minute, "100m", memory)
    looks, every = [TEN + minute for minute in seen], gcd(*seen)
    shown = story.play(*looks, upstream=upstream, rules=NO_FLOOR, start=TEN - every, interval=every)
    assert [shown.memory(look) for look in looks] == peaks(*seen.values())


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


@pytest.mark.parametrize(
    ("upstream", "first_day"),
    [pytest.param(True, 11_500_000, id="upstream"), pytest.param(False, target_of(700), id="ours")],
)
def test_a_first_value_of_zero(upstream: bool, first_day: int) -> None:
    """Upstream learns nothing more for that day."""
    story = Story()
    for minute, memory in ((0, "0"), (1, "500Mi"), (1439, "700Mi"), (1440, "500Mi")):
        story.use(TEN + minute, "100m", memory)
    shown = story.play(TEN + 1439, TEN + 1440, upstream=upstream, rules=NO_FLOOR, start=TEN - 1)
    assert shown.memory(TEN + 1439) == str(first_day)
    assert shown.memory(TEN + 1440) == str(max(first_day, target_of(500)))


@both
def test_late_samples(upstream: bool) -> None:
    """Memory older than the last sample does not count, of the same moment it does."""
    story = Story().use(TEN, "100m", "100Mi")
    story.use(TEN + 1, "100m", "900Mi", timestamp="2026-01-05T09:59:59Z")
    story.use(TEN + 2, "100m", "200Mi", timestamp="2026-01-05T10:00:00Z")
    shown = story.play(TEN + 1, TEN + 2, upstream=upstream, rules=NO_FLOOR, start=TEN - 1)
    assert [shown.memory(TEN + 1), shown.memory(TEN + 2)] == peaks(100, 200)
    assert shown.checkpoints(TEN + 2)["web-app"]["status"]["totalSamplesCount"] == 1


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


@both
def test_one_leaking_pod_in_ten(upstream: bool) -> None:
    """The target is that of the nine others."""
    pods = [pod_json(f"web-{number}") for number in range(10)]
    story = Story([*WEB[:3], *pods])
    for number in range(10):
        story.use(1, "100m", "4Gi" if number == 9 else "1Gi", pod=f"web-{number}")
    shown = story.play(1, upstream=upstream)
    assert shown.memory(1) == "1238659775"


# --- kills for memory


@both
@pytest.mark.parametrize(
    ("used", "target"),
    [
        pytest.param(None, "1470157273", id="a fifth more"),
        pytest.param("3000Mi", "4506574562", id="it had used more"),
    ],
)
def test_a_kill(used: str | None, target: str, upstream: bool) -> None:
    """A kill counts as a peak above what was requested and used."""
    story = Story()
    if used is not None:
        story.use(1, "100m", used)
    assert story.kill(1.5, "1000Mi").play(2, upstream=upstream).memory(2) == target


def test_ratio_of_a_policy() -> None:
    """With the gate, a policy has a ratio of its own."""
    policy = make.policy_json("app", oomBumpUpRatio="3")
    vpa = make.vpa_json("web", target="Deployment/web", policies=[policy])
    story = Story([*WORKLOADS, vpa, pod_json()]).kill(1, "1024Mi")
    for upstream in (True, False):
        assert story.play(2, upstream=upstream, rules=PER_VPA).memory(2) == "3861631195"
        assert story.play(2, upstream=upstream).memory(2) == str(target_of(1024 * 1.2))


@both
@pytest.mark.parametrize(
    ("finished", "counts"),
    [
        pytest.param(-30 * 60, False, id="too long ago"),
        pytest.param(-24 * 60, True, id="just not"),
        pytest.param(0, True, id="now"),
    ],
)
def test_age_of_a_kill(finished: float, counts: bool, upstream: bool) -> None:
    """A kill more than an interval before the last sample does not count."""
    story, ended = Story(), make.time(START + timedelta(minutes=TEN + finished))
    story.use(TEN, "100m", "300Mi").kill(TEN + 0.5, "1000Mi", finishedAt=ended)
    shown = story.play(TEN + 1, upstream=upstream, start=TEN - 1)
    assert shown.memory(TEN + 1) == ("1470157273" if counts else str(target_of(300)))


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
def test_a_kill_in_the_next_interval(upstream: bool) -> None:
    """What was used last counts, though its interval is over; its peak stays as well."""
    story = Story().use(TEN, "100m", "2000Mi").kill(TEN + 2 * DAY, "1000Mi")
    end = TEN + 2 * DAY
    shown = story.play(end, upstream=upstream, start=TEN - 10, interval=10)
    assert shown.memory(end) == str(target_of(2400))
    stored = shown.checkpoints(end)["web-app"]["status"]["memoryHistogram"]
    assert set(stored["bucketWeights"]) == {"50"}


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


@pytest.mark.parametrize(
    ("told", "upstream", "ours"),
    [
        pytest.param(("a", "1000Mi", "memory"), "a", "a", id="one"),
        pytest.param(("a,b", "1000Mi,1000Mi", "memory"), "", "ab", id="as kubelets write"),
    ],
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


@pytest.mark.parametrize(
    ("was_seen", "upstream", "ours"),
    [
        pytest.param(True, f"25m {target_of(1200)}", f"- {target_of(1200)}", id="seen running"),
        pytest.param(False, "25m 250Mi", f"- {target_of(1200)}", id="killed before"),
    ],
)
def test_kills_in_the_status_of_pods(was_seen: bool, upstream: str, ours: str) -> None:
    """A pod whose container was killed tells it in its status; upstream has to see it happen."""
    end = make.time(START + timedelta(minutes=1))
    ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": end}
    states: list[make.Json] = [{"running": {}}, {"terminated": ended}]
    running, killed = (
        pod_json(
            memory="1000Mi",
            status={"containerStatuses": [{"name": "app", "restartCount": 0, "state": state}]},
        )
        for state in states
    )
    story = Story([*WEB[:3], *([running] if was_seen else [])]).put(1, killed)
    found = [story.play(2, upstream=is_upstream).target(2) for is_upstream in (True, False)]
    assert found == [upstream, ours]
