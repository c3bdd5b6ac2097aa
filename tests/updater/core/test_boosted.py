"""Pods under a boost: when they go back, what hinders them, what never happens to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.model.fields import Json
from app.model.patches import merge
from app.model.pods import UNBOOST_KEY_PREFIX
from app.updater.core.decisions import Action, PodChange, Reason
from app.updater.core.memory import Memory, Pause, PodMemory, Resized
from app.updater.core.patching import annotation_patch, resize_patch
from app.updater.core.plan import PlanOptions
from tests import make
from tests.cases import cases
from tests.make import NO_GATES
from tests.updater.core.boosts import (
    AT,
    BOOST,
    BOOSTS,
    BUSY,
    SECOND,
    UNBOOSTED,
    asks_for_less,
    boost,
    boosted,
    mark,
    scene,
)
from tests.updater.core.scenes import (
    EVICTED,
    HOUR,
    MINUTE,
    NOW,
    amounts,
    annotated,
    container,
    killed,
    pending,
    read,
    recommended,
    resize_condition,
    running,
    several,
    sidecar,
    with_status,
    written,
)


def test_a_boost_that_changed_nothing_is_only_unmarked() -> None:
    """No resize for a container that has what it goes back to."""
    pod = boosted(container("app", "100m/100Mi"))
    found = scene(pod, mode="Off").decision()
    assert found.action is Action.UNBOOST
    assert found.change is not None
    assert resize_patch(read(pod), found.change) == []
    patch = annotation_patch(read(pod), found.change)
    left = merge(pod, patch)["metadata"]["annotations"]
    assert "vpaCpuStartupBoost/app" not in left


def test_not_due_is_left_alone() -> None:
    """While a boost runs nothing is done, in no mode, however wrong the pod is."""
    for mode in ("Recreate", "InPlaceOrRecreate", "InPlace", "Off"):
        found = scene(boosted(), mode=mode, startup=boost(600))
        assert found.told() == BUSY
    assert found.decision().message == "boosted until 10:08:00"
    until = found.plan().namespaces["default"].until
    assert until is not None
    assert abs(until - (NOW + 8 * MINUTE)) < SECOND


def test_pending_pods_are_left_alone() -> None:
    """A pod that does not run yet cannot be over its start."""
    pod = boosted()
    pod["status"]["phase"] = "Pending"
    assert scene(pod).told() == BUSY
    assert scene(pending(boosted())).told() == BUSY


def test_all_due_pods_go_back_at_once() -> None:
    """Cpu that needs no restart takes no place."""
    assert scene(*several(boosted(), 2)).count(Action.UNBOOST) == 2
    assert scene(*several(boosted(), 4)).count(Action.UNBOOST) == 4


def test_a_missing_pod_does_not_hold_up_the_others() -> None:
    """The end of a boost needs no whole owner."""
    pods = [*several(boosted(), 2), pending(running(name="new"))]
    assert scene(*pods).told() == UNBOOSTED


def test_restarts_take_places() -> None:
    """Where cpu restarts a container, not all pods go at once."""
    pod = boosted(container("app", "300m/100Mi", resize={"cpu": "RestartContainer"}))
    assert scene(*several(pod, 4)).count(Action.UNBOOST) == 2
    alone = scene(pod, replicas=5)
    assert alone.told() == (Action.WAIT, Reason.BUDGET_EXHAUSTED)
    lost = replace(scene(pod), owner=make.workload_json("ReplicaSet/other"))
    assert lost.plan().decisions == ()


def test_a_resize_under_way_is_waited_for() -> None:
    """One after the other."""
    pod = boosted(conditions=[resize_condition("InProgress")])
    assert scene(pod).told() == (Action.WAIT, Reason.RESIZE_IN_PROGRESS)


def test_a_stale_webhook_does_not_matter() -> None:
    """Nobody is recreated."""
    around = PlanOptions(webhook_is_healthy=False)
    assert scene(boosted()).told(around) == UNBOOSTED


def aged(pod: Json, age: timedelta) -> Json:
    """Return the pod as one that started so long ago."""
    return pod | {"status": pod["status"] | {"startTime": make.time(age)}}


OF_OLD = aged(boosted(since=None), 7 * HOUR)  # never ready
FORGED = aged(asks_for_less(MINUTE, [resize_condition("Pending", "Deferred", ago=600)]), 7 * HOUR)
MORE_MEMORY, MORE_CPU = "200m/200Mi", "900m/100Mi"


@cases(
    "pod startup wanted mode expected",
    {
        "never ready": (OF_OLD, BOOSTS, MORE_MEMORY, "Recreate", EVICTED),
        "never ready, but young": (
            aged(boosted(since=None), HOUR),
            BOOSTS,
            MORE_MEMORY,
            "Recreate",
            BUSY,
        ),
        "for the boosted cpu": (OF_OLD, BOOSTS, MORE_CPU, "Recreate", BUSY),
        "for the cpu, as no pod is boosted any more": (
            OF_OLD,
            None,
            MORE_CPU,
            "Recreate",
            EVICTED,
        ),
        "for the cpu, as no pod is boosted any more, but its end is tried": (
            FORGED,
            None,
            MORE_CPU,
            "Recreate",
            UNBOOSTED,
        ),
        "within the VPA's time": (OF_OLD, boost(7200), MORE_MEMORY, "Recreate", BUSY),
        "in a mode that evicts none": (OF_OLD, BOOSTS, MORE_MEMORY, "Off", BUSY),
        "a resize back that never comes about": (
            FORGED,
            BOOSTS,
            MORE_MEMORY,
            "Recreate",
            EVICTED,
        ),
        "due again and again": (
            aged(boosted(since=MINUTE), 7 * HOUR),
            BOOSTS,
            MORE_MEMORY,
            "Recreate",
            EVICTED,
        ),
    },
)
def test_marks_keep_no_pod_for_ever(
    pod: Json,
    startup: Json | None,
    wanted: str,
    mode: str,
    expected: tuple[Action, Reason],
) -> None:
    """Six hours after the pod's start and the VPA's time it is evicted for what else is wrong."""
    pods = [pod, *several(running(container("app", wanted)), 4)[1:]]
    advice = [recommended(f"{wanted} = =")]
    found = scene(*pods, startup=startup, recommendation=advice, mode=mode)
    assert found.told() == expected


def test_an_end_that_is_due_comes_before_an_eviction() -> None:
    """However old the pod is when its VPA boosts no more, it goes back in place."""
    pods = several(aged(boosted(), 7 * HOUR), 4)
    found = scene(*pods, startup=None, recommendation=[recommended(f"{MORE_CPU} = =")])
    assert found.told() == UNBOOSTED


def test_a_pod_that_never_gets_ready_is_looked_at_again() -> None:
    """Its turn comes although neither pod nor VPA change."""
    found = scene(aged(boosted(since=None), HOUR)).plan().namespaces["default"]
    assert found.until == NOW + 5 * HOUR
    undated = boosted(since=None)
    del undated["status"]["startTime"]
    undated["metadata"].pop("creationTimestamp", None)
    assert scene(undated).told() == BUSY


@cases(
    "pod expected",
    {
        "accepted": (asks_for_less(), Reason.RESIZE_IN_PROGRESS),
        "deferred": (
            asks_for_less(conditions=[resize_condition("Pending", "Deferred")]),
            Reason.RESIZE_DEFERRED,
        ),
        "deferred for long": (
            asks_for_less(
                6 * MINUTE, conditions=[resize_condition("Pending", "Deferred", ago=400)]
            ),
            Reason.UNBOOST_STUCK,
        ),
        "infeasible": (
            asks_for_less(conditions=[resize_condition("Pending", "Infeasible")]),
            Reason.UNBOOST_STUCK,
        ),
        "error": (
            asks_for_less(conditions=[resize_condition("InProgress", "Error", "no")]),
            Reason.UNBOOST_STUCK,
        ),
        "in progress for long": (asks_for_less(ago=61 * MINUTE), Reason.UNBOOST_STUCK),
    },
)
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
def test_a_stuck_return_never_evicts(pod: Json, expected: Reason, mode: str) -> None:
    """Its replacement would be boosted and get stuck as well."""
    found = scene(*several(pod, 3), mode=mode)
    assert found.count(Action.EVICT) == 0
    assert found.told() == (Action.WAIT, expected)


def waits_for(
    requests: str, stage: str, ago: float, *, has: str = "300m/100Mi", tried: bool = False
) -> Json:
    """Return a pod that asks for something its node does not give; it is due for six minutes."""
    conditions = [resize_condition("InProgress" if stage == "Error" else "Pending", stage, ago=ago)]
    pod = boosted(
        container("app", requests),
        since=2 * 60 * MINUTE,
        more={UNBOOST_KEY_PREFIX + "app": make.time(timedelta(seconds=ago)) or ""}
        if tried
        else None,
        conditions=conditions if stage else (),
    )
    return with_status(pod, "app", resources={"requests": amounts(has)})


@cases(
    "pod told",
    {
        "young": (waits_for("300m/200Mi", "Deferred", 290), Reason.RESIZE_DEFERRED),
        "failing": (waits_for("300m/200Mi", "Error", 290), Reason.RESIZE_ERROR),
        "under way": (waits_for("300m/200Mi", "", 0), Reason.RESIZE_IN_PROGRESS),
    },
)
def test_what_others_asked_for_is_waited_for(pod: Json, told: Reason) -> None:
    """Somebody wants more memory, and the kubelet may yet give it."""
    found = scene(pod)
    assert found.told() == (Action.WAIT, told)
    since = found.plan().memory.pods["uid-web-0"].resizing_since
    assert since is not None


@cases(
    "pod wrote",
    {
        "deferred": (
            waits_for("300m/200Mi", "Deferred", 301),
            {"app.requests.cpu": "200m", "app.requests.memory": "100Mi"},
        ),
        "infeasible": (
            waits_for("300m/200Mi", "Infeasible", 1),
            {"app.requests.cpu": "200m", "app.requests.memory": "100Mi"},
        ),
        "deferred, and the smaller cpu with it": (
            waits_for("200m/200Mi", "Deferred", 301, tried=True),
            {"app.requests.memory": "100Mi"},
        ),
    },
)
def test_what_others_asked_for_in_vain_holds_no_boost(pod: Json, wrote: dict[str, str]) -> None:
    """A kubelet gives all or nothing; so what it cannot give is taken back for the boost to end."""
    pod["metadata"]["annotations"]["vpaMemoryRaisedAt/app"] = AT
    found = scene(pod, mode="InPlace").decision()
    assert found.action is Action.UNBOOST
    assert written(found) == wrote
    assert annotated(found)["vpaMemoryRaisedAt/app"] is None
    assert found.change is not None
    assert not found.change.is_disruptive


@pytest.mark.parametrize(
    ("stage", "ago", "told"),
    [
        ("Deferred", 290, Reason.RESIZE_DEFERRED),
        ("Deferred", 3590, Reason.UNBOOST_STUCK),
        ("Deferred", 3601, Reason.BOOST_OVER),
        ("Infeasible", 1, Reason.BOOST_OVER),
    ],
)
def test_a_boost_that_is_less_than_is_recommended(stage: str, ago: float, told: Reason) -> None:
    """The node has no room for more: after an hour it stays as it is, and is like any other pod."""
    pod = waits_for("400m/100Mi", stage, ago, tried=True)
    found = scene(*several(pod, 3), recommendation=[recommended("400m/100Mi = =")]).decision()
    assert found.reason is told
    if told is Reason.BOOST_OVER:
        assert written(found) == {"app.requests.cpu": "300m"}
        assert found.change is not None
        assert found.change.annotations == (
            (BOOST + "app", None),
            (UNBOOST_KEY_PREFIX + "app", None),
        )


def test_taking_back_rests_after_a_refusal() -> None:
    """It is tried again, with pauses."""
    pod = waits_for("200m/200Mi", "Deferred", 301, tried=True)
    pause = Pause(Reason.RESIZE_ERROR, "refused: no", 1, NOW + MINUTE)
    memory = Memory(pods={"uid-web-0": PodMemory("default", "web-0", pause=pause)})
    found = scene(pod, memory=memory).decision()
    assert (found.action, found.reason) == (Action.WAIT, Reason.UNBOOST_STUCK)
    assert found.until == pause.until


def test_a_return_that_arrived_is_unmarked() -> None:
    """When the kubelet reports the smaller size, both marks go and the pod is like any other."""
    pod = boosted(container("app", "200m/100Mi"), more={UNBOOST_KEY_PREFIX + "app": AT})
    found = scene(pod).decision()
    assert (found.action, found.message) == (Action.UNBOOST, "back from its boost")
    assert found.change == PodChange(
        (), ((BOOST + "app", None), (UNBOOST_KEY_PREFIX + "app", None))
    )


def test_a_return_follows_the_recommendation() -> None:
    """While it is stuck, a new recommendation is asked for instead."""
    conditions = [resize_condition("Pending", "Deferred")]
    found = scene(
        asks_for_less(conditions=conditions), recommendation=[recommended("150m/100Mi = =")]
    ).decision()
    assert written(found) == {"app.requests.cpu": "150m"}
    assert annotated(found) == {"vpaInPlaceUpdated": "true"}


def test_a_marked_pod_stays_marked_when_it_gets_unready() -> None:
    """It is brought back all the same, and not evicted for want of memory either."""
    pod = killed(boosted(since=None, more={UNBOOST_KEY_PREFIX + "app": AT}))
    found = scene(*several(pod, 3), recommendation=[recommended("200m/2Gi = =")])
    assert found.told() == UNBOOSTED
    tried = Memory(pods={"uid-web-0": PodMemory("default", "web-0", unboost_tried_at=NOW - MINUTE)})
    only_tried = killed(boosted(since=None))
    assert scene(*several(only_tried, 3), memory=tried).told() == BUSY


def test_refused_returns_pause_and_are_told() -> None:
    """The pod keeps its mark, waits, and is never evicted."""
    pause = Pause(Reason.RESIZE_ERROR, "refused: no", 3, NOW + MINUTE)

    def remembered(ago: timedelta) -> Memory:
        found = PodMemory("default", "web-0", pause=pause, unboost_tried_at=NOW - ago)
        return Memory(pods={"uid-web-0": found})

    assert scene(boosted(), memory=remembered(MINUTE)).told() == (
        Action.WAIT,
        Reason.RESIZE_ERROR,
    )
    assert scene(boosted(), memory=remembered(6 * MINUTE)).told() == (
        Action.WAIT,
        Reason.UNBOOST_STUCK,
    )
    for ago in (MINUTE, 6 * MINUTE):
        assert scene(boosted(), memory=remembered(ago)).decision().until == pause.until
    over = replace(scene(boosted(), memory=remembered(MINUTE)), now=NOW + MINUTE)
    assert over.told() == UNBOOSTED


def test_an_accepted_return_is_not_sent_twice() -> None:
    """The watch may lag behind the answer."""
    found = PodMemory("default", "web-0", resized=Resized(NOW, 2, "1"))
    memory = Memory(pods={"uid-web-0": found})
    assert scene(boosted(), memory=memory).told() == (Action.WAIT, Reason.RESIZE_IN_PROGRESS)


DISABLED = (Action.NONE, Reason.GATE_DISABLED)
LONG = timedelta(hours=7)


@cases(
    "pod vpa expected",
    {
        "only its boosted cpu is wrong": (boosted(), {}, DISABLED),
        "in mode Off": (boosted(), {"mode": "Off"}, DISABLED),
        "resized otherwise": (boosted(), {"mode": "InPlaceOrRecreate"}, DISABLED),
        "without a recommendation": (boosted(), {"advised": False}, DISABLED),
        "for long": (boosted(since=LONG), {}, DISABLED),
        "the VPA boosts no more": (boosted(), {"startup": None}, DISABLED),
        "the VPA boosts no more, for long": (
            boosted(since=LONG),
            {"startup": None},
            (Action.EVICT, Reason.OUTSIDE_BOUNDS),
        ),
        "its memory is wrong": (
            boosted(container("app", "300m/900Mi")),
            {},
            (Action.EVICT, Reason.OUTSIDE_BOUNDS),
        ),
    },
)
def test_without_the_gate_no_boost_ends(
    pod: Json, vpa: Mapping[str, Any], expected: tuple[Action, Reason]
) -> None:
    """With the gate off a boosted pod is reported, and its boosted cpu evicts it not."""
    same = [recommended("200m/100Mi = =")]
    found = replace(scene(*several(pod, 3), **{"recommendation": same, **vpa}), gates=NO_GATES)
    assert found.told() == expected


def test_without_the_gate_boosted_cpu_is_not_resized() -> None:
    """What a pod gets in place for its memory leaves its boosted cpu alone."""
    found = scene(*several(boosted(), 3), mode="InPlaceOrRecreate")
    assert written(replace(found, gates=NO_GATES).decision()) == {"app.requests.memory": "200Mi"}


def test_a_boosted_pod_that_runs_out_of_memory_is_helped() -> None:
    """It will never get ready, so it is given more memory; its cpu is left alone."""
    pod = killed(boosted(since=None))
    more = [recommended("200m/200Mi = =")]
    evicted = scene(*several(pod, 3), recommendation=more)
    assert evicted.told() == (Action.EVICT, Reason.OOM_KILLED)
    in_place = scene(*several(pod, 3), recommendation=more, mode="InPlaceOrRecreate").decision()
    assert written(in_place) == {"app.requests.memory": "200Mi"}
    removed = scene(*several(pod, 3), startup=None, mode="InPlaceOrRecreate").decision()
    assert written(removed) == {"app.requests.memory": "200Mi"}
    nothing = scene(*several(pod, 3), recommendation=[recommended("200m/100Mi = =")])
    assert nothing.told() == BUSY


def test_upscale_only_pods_go_back_too() -> None:
    """The end of a boost makes smaller whatever the mode says."""
    found = scene(boosted(), mode="UpscaleOnly", recommendation=[recommended("100m/100Mi = =")])
    assert written(found.decision()) == {"app.requests.cpu": "100m"}


def test_pods_without_marks_are_ordinary() -> None:
    """A VPA with a boost updates whoever is not boosted, in its mode."""
    pods = several(running(container("app", "100m/200Mi")), 2)
    found = scene(*pods, mode="InPlaceOrRecreate", recommendation=[recommended("300m/200Mi = =")])
    assert written(found.decision()) == {"app.requests.cpu": "300m"}
    assert scene(*pods, mode="Off").told() == (Action.NONE, Reason.MODE_OFF)


def test_a_boosted_sidecar_goes_back() -> None:
    """The boost of a sidecar ends in place, with that of the others."""
    marks = {"app": mark("100m/100Mi"), "proxy": mark("10m")}
    pod = boosted(container("app", "300m/100Mi"), marks=marks)
    pod["spec"]["initContainers"] = [sidecar("proxy", "30m")]
    advice = [recommended("200m/100Mi = ="), recommended("20m = =", "proxy")]
    found = scene(pod, recommendation=advice).decision()
    assert (found.action, found.reason) == UNBOOSTED
    assert written(found) == {"app.requests.cpu": "200m", "proxy.requests.cpu": "20m"}
