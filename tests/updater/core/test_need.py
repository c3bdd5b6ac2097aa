"""Whether a pod needs an update, and who comes first."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.updater.core.decisions import Reason
from app.updater.core.need import NeedCheck, Priority, QuickOom, Trigger, check_need, percent
from app.updater.core.rules import UpdateRules
from tests import make
from tests.updater.core.scenes import NOW, OURS

HOUR = timedelta(hours=1)
OOM = QuickOom("app", NOW + timedelta(minutes=10))


def needed(
    difference: float,
    rules: UpdateRules,
    *,
    outside: bool = False,
    age: timedelta | None = 11 * HOUR,
    oom: QuickOom | None = None,
) -> NeedCheck:
    """Return whether a pod of some age needs an update."""
    since = None if age is None else NOW - age
    return check_need(Trigger(difference, outside), oom, since, rules, NOW)


HALF = replace(OURS, update_threshold=0.5)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(needed(0.25, HALF, age=13 * HOUR), Reason.TOO_SMALL, id="too small"),
        pytest.param(needed(4.0, HALF, age=13 * HOUR), None, id="far off and old"),
        pytest.param(needed(0.25, HALF, outside=True), None, id="outside of its bounds"),
        pytest.param(needed(0.9, HALF), Reason.TOO_YOUNG, id="far off but young"),
        pytest.param(
            needed(0.10, OURS, age=12 * HOUR), None, id="exactly old enough and far enough off"
        ),
        pytest.param(needed(0.12, OURS, age=13 * HOUR), None, id="old enough and far enough off"),
        pytest.param(
            needed(0.25, HALF, oom=OOM), None, id="killed, though the difference is small"
        ),
        pytest.param(
            needed(0.0, OURS, oom=OOM), Reason.NO_CHANGE, id="killed, and nothing to change"
        ),
        pytest.param(needed(0.001, OURS, oom=OOM), Reason.NO_CHANGE, id="a permille"),
        pytest.param(needed(0.0, HALF), Reason.NO_CHANGE, id="nothing to change"),
        pytest.param(needed(0.25, HALF), Reason.TOO_SMALL, id="small and young"),
        pytest.param(needed(1.0, OURS, age=None), Reason.NO_START_TIME, id="no time of its start"),
        pytest.param(
            needed(0.0, OURS, outside=True),
            Reason.NO_CHANGE,
            id="outside of its bounds, and nothing to change",
        ),
        pytest.param(needed(0.001, OURS, outside=True), Reason.NO_CHANGE, id="a permille"),
        pytest.param(needed(0.01, OURS, outside=True), None, id="one percent"),
        pytest.param(needed(1.0, OURS, age=HOUR, oom=OOM), None, id="killed, though young"),
    ],
)
def test_worked_cases(found: NeedCheck, reason: Reason | None) -> None:
    """Gates open and close where upstream's do, but never for nothing."""
    assert found.reason is reason


def test_until_tells_when_age_is_enough() -> None:
    """A young pod is looked at again when it is old enough, and not before."""
    found = needed(0.9, OURS, age=11 * HOUR)
    assert found.until == NOW + HOUR
    assert found.message.endswith("too young until 2026-01-05T11:00:00Z")


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.5, "50 %"), (0.1242, "12.4 %"), (4.0, "400 %"), (104857599999.0, "104,857,599,999 times")],
)
def test_percent(share: float, text: str) -> None:
    """Huge shares are told as multiples."""
    assert percent(share) == text


def priority(
    difference: float,
    *,
    up: bool = True,
    outside: bool = False,
    oom: bool = False,
    age: datetime | timedelta | None = timedelta(days=1),
    name: str = "web-0",
) -> Priority:
    """Return what sorts a pod."""
    pod = make.pod(name=name, created=age)
    return Priority(pod, up, Trigger(difference, outside), oom)


def in_order(found: list[Priority]) -> list[Priority]:
    """Return pods in the order in which they are updated."""
    return sorted(found, key=Priority.key)


def differences(found: list[Priority]) -> list[float]:
    """Return the differences in order."""
    return [item.found.difference for item in in_order(found)]


def test_order() -> None:
    """Larger differences come first, and what has to grow before what may shrink."""
    assert differences([priority(found) for found in (4.0, 1.5, 9.0, 2.33)]) == [
        9.0,
        4.0,
        2.33,
        1.5,
    ]
    mixed = [priority(0.25), priority(0.26, up=False), priority(0.5, up=False)]
    assert differences(mixed) == [0.25, 0.5, 0.26]
    assert differences([priority(50, up=False), priority(0.1)]) == [0.1, 50]


def test_urgent_ones_come_first() -> None:
    """Want of memory comes before what is far too small, and that before the rest."""
    found = [
        priority(9.0),
        priority(0.3, outside=True),
        priority(0.2, up=False, oom=True),
        priority(70, up=False, outside=True),
    ]
    assert differences(found) == [0.2, 0.3, 9.0, 70]


def test_ties_are_broken_by_age_then_name() -> None:
    """Equal needs: the older pod first, then by name; an unknown age is the oldest."""
    old, young, unknown = timedelta(days=2), timedelta(days=1), None
    found = [
        priority(1.0, age=young, name="a"),
        priority(1.0, age=old, name="c"),
        priority(1.0, age=old, name="b"),
        priority(1.0, age=unknown, name="d"),
    ]
    assert [item.pod.name for item in in_order(found)] == ["d", "b", "c", "a"]


PRIORITIES = st.builds(
    priority,
    st.floats(0, 10),
    up=st.booleans(),
    outside=st.booleans(),
    oom=st.booleans(),
    name=st.text("abc", min_size=1, max_size=3),
)


@given(
    st.lists(PRIORITIES, max_size=8, unique_by=lambda item: item.pod.name),
    st.randoms(use_true_random=False),
)
def test_order_does_not_depend_on_the_input(found: list[Priority], random: Random) -> None:
    """The same pods always come in the same order."""
    shuffled = list(found)
    random.shuffle(shuffled)
    assert in_order(shuffled) == in_order(found)
