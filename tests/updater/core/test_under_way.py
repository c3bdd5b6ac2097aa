"""Pods in a resize: what is done now."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.model.fields import Json
from app.updater.core.decisions import Action, Reason
from app.updater.core.plan import PlanOptions
from tests import make
from tests.cases import cases
from tests.updater.core.resizes import (
    CALM,
    EITHER,
    MOMENT,
    ONLY,
    POD,
    SMALL,
    asking,
    remembering,
    scene,
    waits,
)
from tests.updater.core.scenes import (
    DEFERRED,
    EVICTED,
    HOUR,
    IN_PROGRESS,
    MINUTE,
    NO_SLOT,
    NOW,
    RESIZED,
    TOO_FEW,
    UNPROVEN,
    amounts,
    container,
    named,
    pending,
    recommended,
    resize_condition,
    running,
    several,
    with_status,
    written,
)


def with_condition(pod: Json, kind: str, status: str) -> Json:
    """Return the pod with the status of one condition replaced."""
    conditions = [
        item | {"status": status, "lastTransitionTime": make.time(MINUTE)}
        if item["type"] == kind
        else item
        for item in pod["status"]["conditions"]
    ]
    return pod | {"status": pod["status"] | {"conditions": conditions}}


BACK = {"app.requests.cpu": "100m", "app.requests.memory": "100Mi"}
REVERTED = (Action.RESIZE, Reason.RESIZE_DEFERRED)
FAILING = (Action.WAIT, Reason.RESIZE_ERROR)


@cases(
    "mode kind reason ago expected",
    {
        "deferred just now": (EITHER, "Pending", "Deferred", MOMENT, DEFERRED),
        "for five minutes": (EITHER, "Pending", "Deferred", 5 * MINUTE, DEFERRED),
        "for ten minutes": (EITHER, "Pending", "Deferred", 10 * MINUTE, EVICTED),
        "infeasible": (EITHER, "Pending", "Infeasible", MOMENT, EVICTED),
        "pending, unknown": (EITHER, "Pending", "Whatever", MOMENT, EVICTED),
        "in progress": (EITHER, "InProgress", "", MOMENT, IN_PROGRESS),
        "late": (EITHER, "InProgress", "", 2 * HOUR, EVICTED),
        "failing": (EITHER, "InProgress", "Error", MOMENT, EVICTED),
        "unknown": (EITHER, "InProgress", "Whatever", MOMENT, EVICTED),
        "InPlace: late": (ONLY, "InProgress", "", 2 * HOUR, IN_PROGRESS),
        "InPlace: deferred": (ONLY, "Pending", "Deferred", 30 * MINUTE, DEFERRED),
        "InPlace: reverted": (ONLY, "Pending", "Deferred", 2 * HOUR, REVERTED),
        "InPlace: failing": (ONLY, "InProgress", "Error", MINUTE, FAILING),
    },
)
def test_resizes_under_way(
    mode: str, kind: str, reason: str, ago: timedelta, expected: tuple[Action, Reason]
) -> None:
    """A resize is waited for, for a time; then the pod is evicted, or the resize reverted."""
    assert scene([waits(kind, reason, ago=ago), *CALM], mode).told() == expected


def test_evicting_a_stuck_pod_takes_a_place() -> None:
    """With one of three pods missing a stuck one has to wait."""
    pods = [waits("Pending", "Infeasible"), CALM[0], pending(running(SMALL, name="new"))]
    assert scene(pods).told() == NO_SLOT


def may_restart(pod: Json, count: int) -> list[Json]:
    """Return so many pods in the same resize, each of which may restart for it."""
    (box,) = pod["spec"]["containers"]
    policies = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    spec = pod["spec"] | {"containers": [box | {"resizePolicy": policies}]}
    return several(pod | {"spec": spec}, count)


LONG, LONGER = waits("Pending", "Deferred", ago=HOUR), waits("Pending", "Deferred", ago=2 * HOUR)
HOPELESS = waits("Pending", "Infeasible")
OTHERS = [named(CALM[0], "x"), named(CALM[1], "y")]


@cases(
    "pods replicas mode gone back",
    {
        "the only one": (may_restart(LONG, 1), 1, EITHER, 1, 0),
        "one of two": ([*may_restart(LONG, 1), CALM[0]], 2, EITHER, 1, 0),
        "one of three": ([*may_restart(LONG, 1), *CALM], 3, EITHER, 1, 0),
        "one of three, another is missing": ([*may_restart(LONG, 1), CALM[0]], 3, EITHER, 0, 0),
        "two of four": ([*may_restart(LONG, 2), *OTHERS], 4, EITHER, 2, 0),
        "three of four": ([*may_restart(LONG, 3), OTHERS[0]], 4, EITHER, 0, 0),
        "all, for an hour": (may_restart(LONGER, 3), 3, EITHER, 0, 3),
        "the only one, which is not ready": (
            may_restart(with_condition(LONG, "Ready", "False"), 1),
            1,
            EITHER,
            0,
            0,
        ),
        "Recreate, the only one": (may_restart(LONG, 1), 1, "Recreate", 1, 0),
        "Recreate, all": (may_restart(LONG, 3), 3, "Recreate", 0, 0),
        "Recreate, all, for an hour": (may_restart(LONGER, 3), 3, "Recreate", 0, 3),
        "no node ever does it": (may_restart(HOPELESS, 3), 3, EITHER, 1, 0),
    },
)
def test_what_may_restart_holds_its_slot(
    pods: list[Json], replicas: int, mode: str, gone: int, back: int
) -> None:
    """A stuck pod that counts as down goes with its own slot; without one it is taken back."""
    found = scene(pods, mode, replicas=replicas, min_replicas=1)
    assert (found.count(Action.EVICT), found.count(Action.RESIZE)) == (gone, back)


def test_recreate_takes_nothing_back_that_is_blocked() -> None:
    """Somebody else asked for the resize, and it takes no slot from other pods."""
    pods = may_restart(HOPELESS, 1)
    assert scene(pods, "Recreate", replicas=1).told() == TOO_FEW


def test_time_counts_from_the_accepted_patch() -> None:
    """A newer request keeps the condition's old time, but its own time starts anew."""
    pod = waits("InProgress", ago=2 * HOUR)
    updated = {"vpaInPlaceUpdatedAt": make.time(MINUTE) or ""}
    pod["metadata"]["annotations"] = updated
    assert scene([pod, *CALM]).told() == IN_PROGRESS


def test_a_resize_from_the_future_is_dated_at_its_first_sight() -> None:
    """Neither a mark nor a condition that is yet to come keeps a stuck pod for ever."""
    pod = waits("Pending", "Deferred", ago=timedelta(days=-1))
    pod["metadata"]["annotations"] = {"vpaInPlaceUpdatedAt": "2999-01-01T00:00:00Z"}
    first = scene([pod, *CALM]).plan()
    later = replace(scene([pod, *CALM]), memory=first.memory, now=NOW + timedelta(minutes=6))
    assert later.told() == EVICTED


def test_an_undated_resize_is_dated_at_its_first_sight() -> None:
    """What no condition dates is remembered by uid, and forgotten when it is over."""
    pods = [asking(), *CALM]
    first = scene(pods).plan()
    assert first.memory.pods["uid-web-0"].resizing_since == NOW
    later = replace(scene(pods), memory=first.memory, now=NOW + 61 * MINUTE)
    assert later.told() == EVICTED
    done = replace(scene(several(POD, 3)), memory=first.memory)
    assert done.plan().memory.pods == {}


def test_other_modes_evict_out_of_a_stuck_resize() -> None:
    """Mode Recreate waits for a resize that somebody started, but not for ever."""
    pods = [waits("InProgress", ago=2 * HOUR), *CALM]
    found = replace(scene(pods), mode=None)
    assert found.told() == EVICTED
    fresh = [waits("InProgress", ago=MINUTE), *CALM]
    assert replace(scene(fresh), mode=None).told() == IN_PROGRESS


def test_infeasible_is_remembered_and_taken_back() -> None:
    """The pod is asked to be what it is, and the same is not tried again."""
    pods = [waits("Pending", "Infeasible", "no room"), *CALM]
    plan = scene(pods, ONLY).plan()
    found = plan.decisions[0]
    assert (found.action, found.reason) == (Action.RESIZE, Reason.RESIZE_INFEASIBLE)
    assert written(found) == BACK
    assert plan.memory.pods["uid-web-0"].infeasible is not None


def test_something_else_replaces_a_resize_under_way() -> None:
    """A deferred wish is replaced when the recommendation has clearly moved."""
    pods = [asking(resize_condition("Pending", "Deferred"), wanted="900m/900Mi")]
    pods += CALM
    for mode in (EITHER, ONLY):
        found = scene(pods, mode).decision()
        assert (found.action, found.reason) == RESIZED


def test_a_stuck_wish_that_is_not_needed_is_written_back() -> None:
    """When the pod has what is recommended, a hopeless wish for more is replaced."""
    pod = asking(resize_condition("Pending", "Infeasible"), wanted="900m/900Mi")
    pods = [pod, *CALM]
    found = replace(scene(pods), recommendation=[recommended("100m/100Mi = =")])
    decision = found.decision()
    assert (decision.action, decision.reason) == (Action.RESIZE, Reason.RESIZE_INFEASIBLE)
    assert written(decision) == BACK


def test_a_resize_under_way_that_is_not_needed_may_end() -> None:
    """What goes on without being needed is only told."""
    pods = [asking(resize_condition("InProgress")), *CALM]
    found = replace(scene(pods), recommendation=[recommended("100m/100Mi = =")])
    assert found.told() == IN_PROGRESS


@pytest.mark.parametrize("mode", [EITHER, ONLY])
def test_a_stuck_wish_that_is_as_recommended_stays_for_a_while(mode: str) -> None:
    """Then it is taken back, be it worth so little: the scheduler holds the room for it."""
    pod = asking(resize_condition("Pending", "Deferred"), wanted="101m/101Mi")
    wide = [recommended("101m/101Mi 1m/1Mi 1/1Gi")]
    found = replace(scene([pod, *CALM], mode), recommendation=wide)
    found = replace(found, whole=found.snapshot())
    assert found.told() == (Action.NONE, Reason.TOO_SMALL)
    first = found.plan()
    later = replace(found, now=NOW + 61 * MINUTE).decision(PlanOptions(before=first))
    assert (later.action, later.reason) == REVERTED
    assert written(later) == BACK


def test_a_young_pod_in_a_stuck_resize_is_looked_at_when_it_is_old_enough() -> None:
    """Which may be before the wish would be taken back."""
    deferred = resize_condition("Pending", "Deferred")
    pod = running(
        container("app", "150m/150Mi"), age=12 * HOUR - 10 * MINUTE, conditions=[deferred]
    )
    pod = with_status(pod, "app", resources={"requests": amounts("100m/100Mi")})
    calm = several(running(container("app", "150m/150Mi")), 3)[1:]
    found = scene([pod, *calm])
    found = replace(found, recommendation=[recommended("150m/150Mi 1m/1Mi 1/1Gi")])
    found = replace(found, whole=found.snapshot())
    assert found.told() == (Action.NONE, Reason.TOO_YOUNG)
    later = replace(found, now=NOW + 10 * MINUTE)
    assert later.told(PlanOptions(before=found.plan())) == (Action.EVICT, Reason.OUTDATED)


@pytest.mark.parametrize(
    ("ago", "told"),
    [
        (HOUR, (Action.NONE, Reason.NOT_UPSCALE)),
        (HOUR + MINUTE, REVERTED),
    ],
)
def test_a_wish_to_grow_that_is_not_needed_any_more(
    ago: timedelta, told: tuple[Action, Reason]
) -> None:
    """In mode UpscaleOnly less is never asked for, but what a pod has not got is taken back."""
    found = replace(
        scene([waits("Pending", "Deferred", ago=ago), *CALM]),
        mode="UpscaleOnly",
        recommendation=[recommended("50m/50Mi = =")],
        rules=replace(UNPROVEN, upscale_only_in_place=True),
    )
    assert found.told() == told


def test_a_moving_recommendation_keeps_no_wish_deferred_for_ever() -> None:
    """Each newer wish is waited for anew, but after an hour of that there is none."""
    for ago, told in ((HOUR, RESIZED), (HOUR + MINUTE, DEFERRED)):
        pod = asking(
            resize_condition("Pending", "Deferred", ago=ago.total_seconds()), wanted="180m/180Mi"
        )
        updated = {"vpaInPlaceUpdatedAt": make.time(MINUTE) or ""}
        pod["metadata"]["annotations"] = updated
        assert scene([pod, *CALM]).told() == told
    late = replace(scene([pod, *CALM]), now=NOW + 5 * MINUTE)
    assert late.told() == EVICTED


def test_a_wish_in_a_stage_that_we_do_not_know_is_replaced_at_any_time() -> None:
    """It is never taken back, so what is wanted now would never be asked for in mode InPlace."""
    unknown = resize_condition("Pending", "Whatever", ago=2 * HOUR.total_seconds())
    pod = asking(unknown, wanted="900m/900Mi")
    assert scene([pod, *CALM], ONLY).told() == RESIZED


@pytest.mark.parametrize(
    ("ago", "updated", "wrote"),
    [
        (HOUR, MINUTE, "102m"),
        (2 * HOUR, MINUTE, None),
        (2 * HOUR, HOUR + MINUTE, "100m"),
    ],
)
def test_nor_does_one_that_moves_by_little(
    ago: timedelta, updated: timedelta, wrote: str | None
) -> None:
    """What is not needed is replaced for an hour, then waited for, and taken back in the end."""
    condition = resize_condition("Pending", "Deferred", ago=ago.total_seconds())
    pod = asking(condition, wanted="103m/100Mi")
    pod["metadata"]["annotations"] = {"vpaInPlaceUpdatedAt": make.time(updated) or ""}
    found = replace(scene([pod, *CALM]), recommendation=[recommended("102m/100Mi 1m/1Mi 1/1Gi")])
    change = found.decision().change
    assert (None if change is None else str(change.containers[0].requests["cpu"])) == wrote


def test_an_undated_wish_that_is_not_needed_is_dated_at_its_first_sight() -> None:
    """So that it can be taken back in time."""
    condition = resize_condition("Pending", "Deferred")
    del condition["lastTransitionTime"]
    pod = asking(condition, wanted="101m/101Mi")
    found = replace(scene([pod, *CALM]), recommendation=[recommended("101m/101Mi 1m/1Mi 1/1Gi")])
    later = replace(found, memory=found.plan().memory, now=NOW + 61 * MINUTE)
    assert later.told() == REVERTED


def test_a_wish_that_is_not_needed_says_when_it_is_taken_back() -> None:
    """The decision names the moment at which the plan looks at the pod again."""
    condition = resize_condition("Pending", "Deferred", ago=HOUR.total_seconds() / 2)
    pod = asking(condition, wanted="101m/101Mi")
    found = replace(scene([pod, *CALM]), recommendation=[recommended("101m/101Mi 1m/1Mi 1/1Gi")])
    until = found.plan().namespaces["default"].until
    assert until is not None
    assert abs(until - (NOW + HOUR / 2)) <= timedelta(seconds=1)
    assert found.decision().until == until


@pytest.mark.parametrize("mode", [EITHER, "UpscaleOnly"])
def test_a_blocked_eviction_takes_the_wish_back(mode: str) -> None:
    """A deferred pod that may not be evicted does not hold the scheduler's room for ever."""
    pod = waits("Pending", "Deferred", "no room", 2 * HOUR)
    rules = replace(UNPROVEN, upscale_only_in_place=True)
    found = scene([pod], mode, rules=rules, replicas=1)
    decision = found.decision()
    assert (decision.action, decision.reason) == REVERTED
    assert "reverted, because the pod may not be evicted" in decision.message
    remembered = found.plan().memory.pods["uid-web-0"]
    assert remembered.infeasible is not None
    again = replace(found, pods=[POD], memory=found.plan().memory)
    assert again.told() == TOO_FEW


def test_what_was_refused_does_not_replace_a_resize_under_way() -> None:
    """Something else is wanted, but the node refused as much before."""
    pods = [asking(resize_condition("Pending", "Deferred"), wanted="300m/300Mi"), *CALM]
    found = replace(scene(pods), recommendation=[recommended("900m/900Mi = =")])
    assert remembering(found, "900m/900Mi").told() == DEFERRED


def test_only_what_is_not_there_yet_is_taken_back() -> None:
    """Containers that have what they ask for, or report nothing, are left out."""
    pod = running(
        container("app", "200m/200Mi"),
        container("b", "1/1Gi"),
        container("c", "1/1Gi"),
        conditions=[resize_condition("Pending", "Infeasible")],
    )
    pod = with_status(pod, "app", resources={"requests": amounts("100m/100Mi")})
    statuses = [item for item in pod["status"]["containerStatuses"] if item["name"] != "c"]
    pod["status"]["containerStatuses"] = statuses
    found = scene([pod, *CALM], ONLY).decision()
    assert written(found) == BACK
