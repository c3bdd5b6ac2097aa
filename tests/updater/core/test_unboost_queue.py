"""When to look at a boosted pod again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from app.updater.core.decisions import Decision
from app.updater.core.unboost import NextLook, is_news, look_after_failure, next_look
from tests import make
from tests.updater.core.boosts import C1, C2, TWO, UNBOOSTED, boost, boosted, scene
from tests.updater.core.scenes import NOW, killed, read, resize_condition

Json = make.Json
SECOND = timedelta(seconds=1)
SOON = NextLook(SECOND / 10, 1)


def look(found: Decision | None, count: int = 0) -> NextLook | None:
    """Return when the next look is."""
    return next_look(found, count, NOW)


@pytest.mark.parametrize(
    ("pod", "policies", "startup", "expected"),
    [
        pytest.param(boosted(since=90 * SECOND), None, 300, 210 * SECOND, id="not due yet"),
        pytest.param(boosted(marks=TWO, since=30 * SECOND), [C1, C2], None, 30 * SECOND, id="one"),
        pytest.param(
            killed(boosted(since=30 * SECOND)), None, 300, 270 * SECOND, id="killed for memory"
        ),
    ],
)
def test_a_pod_is_looked_at_again_when_its_boost_is_over(
    pod: Json, policies: Sequence[Json] | None, startup: int | None, expected: timedelta
) -> None:
    """With pauses that begin again, also if the pod is about to be updated for another reason."""
    found = scene(pod, policies=policies, startup=boost(startup) if startup else None)
    again = look(found.decision(), 3)
    assert again is not None
    assert again.failed == 0
    assert again.pause - expected <= timedelta(milliseconds=1)


def test_what_is_due_or_not_ready_is_looked_at_soon() -> None:
    """The end of a boost may fail, and the time of one that is not ready is not known."""
    due = scene(boosted()).decision()
    assert ((due.action, due.reason), look(due)) == (UNBOOSTED, SOON)
    assert look(scene(boosted(since=None)).decision()) == SOON


def test_without_a_vpa_a_few_looks_are_enough() -> None:
    """At 0, 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 seconds, then it is dropped."""
    for unmatched in (None, replace(scene(boosted()).decision(), vpa="")):
        moment, moments, found = timedelta(), list[float](), NextLook(timedelta(), 0)
        while (again := look(unmatched, found.failed)) is not None:
            moments.append(moment / SECOND)
            moment, found = moment + again.pause, again
        assert [*moments, moment / SECOND] == [0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3]


def test_pauses_double() -> None:
    """From 100 ms to half a minute."""
    pauses = [look_after_failure(count).pause / SECOND for count in range(4)]
    assert pauses == [0.1, 0.2, 0.4, 0.8]
    assert look_after_failure(100) == (30 * SECOND, 101)


def test_what_starts_the_pauses_again() -> None:
    """A change of readiness or of the resize, and nothing else."""
    pod = boosted()
    assert is_news(read(pod), read(boosted(since=3 * SECOND)))
    assert is_news(read(pod), read(boosted(conditions=[resize_condition("InProgress")])))
    assert not is_news(read(pod), read(boosted(more={"seen": "yes"})))
