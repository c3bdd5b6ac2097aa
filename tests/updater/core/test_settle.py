"""What the pods of one owner get of what they wish."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.updater.core.decisions import Action, Reason
from tests import make
from tests.updater.core import boosts
from tests.updater.core.resizes import EITHER, POD, waits
from tests.updater.core.scenes import (
    OURS,
    UNPROVEN,
    Scene,
    container,
    killed,
    named,
    recommended,
    running,
    several,
)

Json = make.Json


def queued(found: Scene) -> list[tuple[str, Action]]:
    """Return what is to be done, in order."""
    return [
        (step.pod.name, step.decision.action)
        for queue in found.plan().queues
        for step in queue.steps
    ]


def test_ends_of_boosts_come_first_then_resizes_then_evictions() -> None:
    """Each in the order of need."""
    stuck = named(waits("Pending", "Infeasible"), "stuck")
    back = named(boosts.boosted(), "back")
    big = named(running(container("app", "50m/100Mi")), "big")
    found = Scene(
        [stuck, named(POD, "small"), big, back], mode=EITHER, vpa={"boost": boosts.BOOSTS}
    )
    assert queued(found) == [
        ("back", Action.UNBOOST),
        ("big", Action.RESIZE),
        ("small", Action.RESIZE),
        ("stuck", Action.EVICT),
    ]


def test_whoever_waits_for_a_place_stands_by() -> None:
    """In the queue of those that go, so that a failed call lets another pod go."""
    found = Scene(several(POD, 4), rules=UNPROVEN)
    assert [name for name, _ in queued(found)] == ["web-0", "web-1", "web-2", "web-3"]
    waiting = found.decisions()["web-3"]
    assert (waiting.action, waiting.change, waiting.reason) == (
        Action.WAIT,
        None,
        Reason.BUDGET_EXHAUSTED,
    )
    assert waiting.message == "StatefulSet/web wants 4 pods, 4 are up, 2 may be down"


def test_where_nobody_can_go_there_is_no_queue() -> None:
    """Standing by for nobody is pointless."""
    assert queued(Scene(several(POD, 2), replicas=9)) == []
    assert queued(Scene(several(POD, 2), rules=replace(UNPROVEN, min_replicas=3))) == []


def test_what_others_used_up_is_not_queued() -> None:
    """A budget of one disruption: the second pod is not even tried."""
    found = Scene(several(POD, 4), others=[make.budget_json(allowed=1)])
    assert queued(found) == [("web-0", Action.EVICT)]
    reasons = [decision.reason for decision in found.decisions().values()]
    assert reasons.count(Reason.EVICTED) == 1
    assert reasons.count(Reason.PDB_BLOCKED) == 3


def test_one_pod_at_a_time_may_be_at_most_one() -> None:
    """The message tells when tolerance allows none but one."""
    found = Scene(several(POD, 3), rules=replace(UNPROVEN, eviction_tolerance=0.1))
    assert found.decisions()["web-2"].message.endswith("3 are up, at most one may be down")


def test_the_most_urgent_goes() -> None:
    """A pod that ran out of memory before one that is merely too small."""
    pods = [*several(POD, 2), killed(named(running(container("app", "190m/190Mi")), "oom"))]
    found = Scene(pods, rules=OURS)
    assert found.decisions()["oom"].action is Action.EVICT


@pytest.mark.parametrize("mode", ["Recreate", EITHER])
def test_numbers_stand_behind_every_decision(mode: str) -> None:
    """Also behind those that wait."""
    for found in Scene(several(POD, 3), mode=mode).decisions().values():
        assert found.numbers is not None
        assert [(pair.container, pair.resource) for pair in found.numbers.pairs] == [
            ("app", "cpu"),
            ("app", "memory"),
        ]
        assert found.vpa == "web"


def test_canaries_are_told() -> None:
    """To whoever carries out: it goes first, and what should come back is known."""
    decision = Scene(several(POD, 4), rules=OURS).decision()
    assert decision.is_canary
    assert not Scene(several(POD, 4), rules=UNPROVEN).decision().is_canary
    resized = Scene(several(POD, 4), rules=OURS, mode=EITHER).decision()
    assert (resized.is_canary, resized.may_evict_instead) == (True, True)
    only = Scene(several(POD, 4), rules=OURS, mode="InPlace").decision()
    assert (only.is_canary, only.may_evict_instead) == (False, False)


def test_percentages_add_up() -> None:
    """Fifteen percent of cpu and of memory come before twenty of memory alone."""
    pods = [
        running(container("app", "85m/191Mi"), name="web-0"),
        running(container("app", "100m/200Mi"), name="web-1"),
    ]
    found = Scene(pods, [recommended("85m/230Mi 1m/1Mi 1/1Gi")]).decisions()
    assert {name: item.action for name, item in found.items()} == {
        "web-0": Action.WAIT,
        "web-1": Action.EVICT,
    }


@pytest.mark.parametrize(("there", "evicted"), [(3, 1), (2, 0)])
def test_at_least_one_may_go(there: int, evicted: int) -> None:
    """Of a whole owner, too small for any tolerance; the others are told so."""
    rules = replace(UNPROVEN, eviction_tolerance=0.1)
    found = Scene(several(POD, there), replicas=3, rules=rules)
    assert found.count(Action.EVICT) == evicted
    told = [item.message for item in found.decisions().values() if item.action is Action.WAIT]
    assert len(told) == there - evicted
    assert all("at most one may be down" in message for message in told)
