"""When to look at a boosted pod again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from app.updater.core.patching import MARK
from app.updater.core.unboost import BoostCheck, BoostStep, check_boost, pause_after, resets_pauses
from tests import make
from tests.updater.core.boosts import TWO, boost, boosted, policy
from tests.updater.core.scenes import NOW, read, resize_condition, running

Json = make.Json
SECOND = timedelta(seconds=1)
LATER = BoostCheck(BoostStep.LATER, SECOND / 10)


@pytest.mark.parametrize(
    ("pod", "vpa", "expected"),
    [
        pytest.param(None, {}, BoostCheck(BoostStep.FORGET), id="gone"),
        pytest.param(running(), {}, BoostCheck(BoostStep.FORGET), id="not boosted"),
        pytest.param(boosted(), None, LATER, id="no VPA yet"),
        pytest.param(boosted(), {"boost": boost()}, BoostCheck(BoostStep.UNBOOST), id="due"),
        pytest.param(
            boosted(marks=TWO, since=90 * SECOND),
            {"policies": [policy("c1", 60), policy("c2", 300)]},
            BoostCheck(BoostStep.UNBOOST),
            id="one of two is due",
        ),
        pytest.param(
            boosted(since=90 * SECOND),
            {"boost": boost(300)},
            BoostCheck(BoostStep.WHEN_DUE, 210 * SECOND),
            id="not due yet",
        ),
        pytest.param(
            boosted(since=60 * SECOND), {"boost": boost(60)}, LATER, id="due in this very moment"
        ),
        pytest.param(boosted(since=None), {"boost": boost(60)}, LATER, id="not ready"),
        pytest.param(
            boosted(since=None, more={MARK + "app": ""}),
            {"boost": boost(60)},
            BoostCheck(BoostStep.UNBOOST),
            id="being brought back",
        ),
    ],
)
def test_look(pod: Json | None, vpa: Mapping[str, Any] | None, expected: BoostCheck) -> None:
    """Forget, come back later, come back when it is due, or act."""
    found = make.vpa(**vpa) if vpa is not None else None
    assert check_boost(None if pod is None else read(pod), found, 0, NOW) == expected


def test_without_a_vpa_a_few_looks_are_enough() -> None:
    """At 0, 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 seconds, then it is dropped."""
    pod, moment, moments = read(boosted()), timedelta(), []
    for count in range(10):
        moments.append(moment / SECOND)
        found = check_boost(pod, None, count, NOW)
        if found.next is BoostStep.FORGET:
            break
        moment += found.wait
    assert moments == [0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3]


def test_pauses_double() -> None:
    """From 100 ms to half a minute."""
    pauses = [pause_after(count) / SECOND for count in range(4)]
    assert pauses == [0.1, 0.2, 0.4, 0.8]
    assert pause_after(100) == 30 * SECOND


def test_what_starts_the_pauses_anew() -> None:
    """A change of readiness or of the resize, and nothing else."""
    pod = boosted()
    assert resets_pauses(read(pod), read(boosted(since=3 * SECOND)))
    assert resets_pauses(read(pod), read(boosted(conditions=[resize_condition("InProgress")])))
    assert not resets_pauses(read(pod), read(boosted(more={"seen": "yes"})))
