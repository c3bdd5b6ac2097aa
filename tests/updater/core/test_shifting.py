"""Memory after the clock was set."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta

import pytest

from app.model.kinds import ObjectKey
from app.updater.core.decisions import Reason
from app.updater.core.memory import (
    Infeasible,
    Memory,
    Pause,
    PodMemory,
    Resized,
    SeenRollout,
    shifted,
)
from app.updater.core.proof import Breaker, Proof, ProofVersion
from tests.updater.core.scenes import NOW

PAUSE = Pause(Reason.RESIZE_ERROR, "no", 1, NOW)
FULL = Memory(
    pods={
        "a": PodMemory(
            "default",
            "a",
            evicted=NOW,
            resized=Resized(NOW, 1, "1"),
            resizing_since=NOW,
            infeasible=Infeasible({}, frozenset(), NOW, None),
            pause=PAUSE,
            unboosted=NOW,
        ),
        "b": PodMemory("default", "b", evicted=NOW),
    },
    proofs={
        ("default", ObjectKey("", "StatefulSet", "web"), "web"): Proof(
            ProofVersion("", 1, ()), since=NOW, until=NOW
        )
    },
    breaker=Breaker(((NOW, True),), is_open=True, until=NOW),
    budget_pauses={("default", "web"): PAUSE},
    rollouts={("default", "web"): SeenRollout("", NOW)},
)


def moments(value: object) -> list[datetime]:
    """Return every moment in a value."""
    if isinstance(value, datetime):
        return [value]
    if is_dataclass(value):
        return [found for item in fields(value) for found in moments(getattr(value, item.name))]
    if isinstance(value, dict):
        return [found for item in value.values() for found in moments(item)]
    if isinstance(value, tuple):
        return [found for item in value for found in moments(item)]
    return []


@pytest.mark.parametrize("hours", [1, -1])
def test_every_moment_moves(hours: int) -> None:
    """Whatever is remembered counts as long as before; and back again nothing is lost."""
    by = timedelta(hours=hours)
    found = shifted(FULL, by)
    assert moments(FULL) == [NOW] * 13
    assert moments(found) == [NOW + by] * 13
    assert shifted(found, -by) == FULL


def test_a_clock_that_was_not_set() -> None:
    """Nothing is made anew for it."""
    assert shifted(FULL, timedelta()) is FULL
    assert shifted(Memory(), timedelta(days=1)) == Memory()
