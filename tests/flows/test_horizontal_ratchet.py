"""The ratchet between an HPA and a VPA on the same resource, and what ends it, in two hours."""

from __future__ import annotations

from functools import cache

import pytest

from bench.horizontal_ratchet import (
    ALONE,
    MARKS,
    PAGE,
    RUN_AWAY,
    TOO_MUCH,
    WAYS,
    Cycle,
    Pace,
    Way,
    picture,
    play,
)

SHORT = Pace(step_minutes=10, half_life_minutes=5, cycles=3)


@cache
def alone() -> Cycle:
    """The last cycle without a VPA."""
    return play(ALONE, SHORT)[-1]


def test_the_picture_is_that_of_the_table() -> None:
    """What the page draws are the figures that stand below it."""
    begin, end = MARKS
    _, _, rest = PAGE.read_text("utf-8").partition(begin)
    drawn, _, table = rest.partition(end)[0].strip("\n").partition("\n\n")
    assert f"{drawn}\n" == picture(table)


@pytest.mark.parametrize("way", WAYS[1:], ids=lambda way: f"{way.name} {way.mode}")
def test_the_ratchet(way: Way) -> None:
    """Ignored, ever more pods share the load; held, they are the HPA's; separated, both act."""
    first, *_, last = play(way, SHORT)

    if way.horizontal == "ignore":
        assert last.pods > RUN_AWAY * alone().pods
        assert last.gibibytes > RUN_AWAY * alone().gibibytes
    elif way.parts:
        assert last.cores <= TOO_MUCH * last.best_cores
        assert last.cores < first.cores
    else:
        assert last.cores <= TOO_MUCH * alone().cores
        assert last.gibibytes <= TOO_MUCH * alone().gibibytes
