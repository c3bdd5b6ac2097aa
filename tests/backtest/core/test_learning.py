"""What is learned is what the recommender learns, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random

import numpy as np
import pytest

from app.backtest.core.blocks import STAYS
from app.backtest.core.learning import Recommended
from app.backtest.core.recorded_fleet import Fleet, fleet_of
from app.backtest.core.settings import Given, Setting
from app.backtest.core.walk import Walk
from app.backtest.recording import Recording
from app.commands.replaying.playback import Replay, ReplaySchedule
from app.model.quantity import SIZED
from app.model.vpa import Vpa
from app.recommender.configuration import RoundRules
from app.recommender.core.moments import HOUR, SECOND, nanoseconds
from app.recommender.core.rules import (
    AggregationRules,
    EstimatorRules,
    FormatRules,
    PublishRules,
    RecommenderRules,
    ResourceRules,
)
from tests.backtest.histories import given_for, random_recording, story_of
from tests.backtest.recordings import recording
from tests.commands.replaying.story import objects_of

Shown = dict[tuple[int, str, str], list[list[int | None]]]

AT_ONCE = PublishRules(bound_tolerance=0.0, refresh=timedelta(0))
USUAL = RecommenderRules(publish=AT_ONCE)
QUICK = replace(
    USUAL,
    estimator=EstimatorRules(
        margin_fraction=0.0, min_memory_mib=0, cpu=ResourceRules(0.98, 0.2, 0.99)
    ),
    aggregation=AggregationRules(
        cpu_half_life=timedelta(minutes=20),
        memory_half_life=timedelta(minutes=45),
        memory_interval=timedelta(hours=5),
        oom_bump_up_ratio=1.7,
        oom_min_bump_up_bytes=0.0,
    ),
)
ROUNDED = replace(
    USUAL,
    estimator=EstimatorRules(memory=ResourceRules(0.5, 0.3, 0.7, timedelta(hours=3))),
    aggregation=AggregationRules(memory_half_life=timedelta(hours=3)),
    format=FormatRules(round_cpu_millicores=50, humanize_memory=True),
)


def replayed(recording: Recording, rules: RecommenderRules) -> Shown:
    """Return what a replay shows every hour."""
    story, start_ns = story_of(recording, STAYS), recording.start * SECOND
    hours = recording.count * recording.step // 3600
    schedule = ReplaySchedule(
        start=start_ns,
        interval=recording.step * SECOND,
        looks=[start_ns + (hour + 1) * HOUR for hour in range(hours)],
    )
    replay = Replay(story.history(), objects_of(story.objects), RoundRules(rules), schedule)
    found: Shown = {}
    for look in replay.play():
        for vpa in look.vpas:
            found |= _published(vpa, nanoseconds(look.now))
    return found


def _published(vpa: Vpa, time_ns: int) -> Shown:
    return {
        (time_ns, vpa.name, one.container): [
            [amounts[name].milli if name in amounts else None for name in SIZED]
            for amounts in (one.target, one.lower_bound, one.upper_bound, one.uncapped_target)
        ]
        for one in vpa.recommendation or ()
    }


def walked(recording: Recording, settings: Sequence[Setting]) -> list[Shown]:
    """Return what a walk recommends every hour, by setting."""
    fleet = fleet_of(recording.rows)
    walk = Walk(recording, fleet, settings, given_for(recording))
    shown: list[Shown] = [{} for _ in settings]
    for time_ns in walk.hours():
        for of_setting, found in zip(shown, walk.recommended, strict=True):
            of_setting |= {(time_ns, *key): amounts for key, amounts in _recommended(fleet, found)}
    return shown


def _recommended(
    fleet: Fleet, found: Recommended
) -> Iterator[tuple[tuple[str, str], list[list[int | None]]]]:
    for line, shows, amounts in zip(found.lines.tolist(), found.shows, found.amounts, strict=True):
        name = fleet.workloads[fleet.line_workloads[line]].name
        if shows.any():
            yield (
                (name, fleet.containers[line]),
                [
                    [int(amounts[at, of]) if shows[at] else None for at in range(len(SIZED))]
                    for of in range(4)
                ],
            )


@pytest.mark.parametrize("seed", range(2))
def test_a_walk_recommends_what_a_replay_does(seed: int) -> None:
    """At every hour the amounts are the same, for settings that share histograms or do not."""
    recording = random_recording(Random(seed), workloads=25, hours=54)
    settings = [Setting(str(at), rules) for at, rules in enumerate((USUAL, QUICK, ROUNDED))]
    for setting, shown in zip(settings, walked(recording, settings), strict=True):
        assert shown == replayed(recording, setting.rules)


def test_history_without_samples_is_forgotten() -> None:
    """A line expires as it does in the recommender, and begins again with the next pod."""
    told = recording(count=20 * 12, memory=50 * 2**20)
    told.memory[0, 24:-1] = np.nan
    told.cpu[0, 0] = 0.1
    rules = replace(USUAL, aggregation=AggregationRules(memory_interval=timedelta(hours=1)))
    walk = Walk(told, fleet_of(told.rows), [Setting("short", rules)], Given())
    shown = [len(walk.recommended[0].lines) for _ in walk.hours()]
    assert shown == [1] * 10 + [0] * 9 + [1]
