"""Which pods are resized, what is asked of the kubelet, and what happens where that is hopeless."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from app.model.fields import Json
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.memory import Memory, Pause, PodMemory, Resized
from app.updater.core.rules import UpdateRules
from tests import make
from tests.cases import cases
from tests.updater.core.resizes import (
    CALM,
    EITHER,
    ONLY,
    POD,
    RESTARTS,
    SKIPS,
    SMALL,
    remembering,
    scene,
    waits,
)
from tests.updater.core.scenes import (
    DEFERRED,
    EVICTED,
    IN_PROGRESS,
    MINUTE,
    NO_SLOT,
    NOW,
    OURS,
    REMEMBERED,
    RESIZED,
    TOO_FEW,
    UNPROVEN,
    Scene,
    amounts,
    container,
    pending,
    recommended,
    running,
    several,
    unscheduled,
    with_status,
)


@cases(
    "pods replicas tolerance expected",
    {
        "one of three is resized": (several(POD, 3), 3, 0.5, 1),
        "no place while one is pending": (
            [*several(POD, 2), pending(running(SMALL, name="new"))],
            3,
            0.5,
            0,
        ),
        "one of a whole owner": (several(POD, 3), 3, 0.1, 1),
    },
)
def test_resizes_take_places(
    pods: list[Json], replicas: int, tolerance: float, expected: int
) -> None:
    """Resizes share the budget with evictions."""
    found = scene(pods, replicas=replicas, rules=replace(UNPROVEN, eviction_tolerance=tolerance))
    assert found.count(Action.RESIZE) == expected
    assert found.count(Action.WAIT) == len(pods) - expected


@pytest.mark.parametrize("rules", [UNPROVEN, OURS, SKIPS])
@pytest.mark.parametrize("mode", [EITHER, ONLY])
@cases(
    "pod told",
    {
        "nothing restarts": (POD, RESIZED),
        "only another resource would restart": (
            running(container("app", "200m/100Mi", resize={"cpu": "RestartContainer"})),
            RESIZED,
        ),
        "a container restarts": (running(RESTARTS), TOO_FEW),
        "one of two containers restarts": (
            running(RESTARTS, container("second", "100m/100Mi")),
            TOO_FEW,
        ),
    },
)
def test_a_single_pod_is_resized_unless_that_restarts_it(
    pod: Json, told: tuple[Action, Reason], mode: str, rules: UpdateRules
) -> None:
    """A resize that restarts no container passes `minReplicas`; no eviction takes its place."""
    found = scene([pod], mode, rules=rules)
    assert found.told() == told
    assert not found.decision().may_evict_instead


@pytest.mark.parametrize(
    ("unready", "rules", "told"),
    [
        (5 * MINUTE, UNPROVEN, NO_SLOT),
        (5 * MINUTE, SKIPS, RESIZED),
        (11 * MINUTE, UNPROVEN, RESIZED),
    ],
)
def test_a_single_pod_that_is_not_ready_is_resized_when_it_counts_as_broken(
    unready: timedelta, rules: UpdateRules, told: tuple[Action, Reason]
) -> None:
    """The budget stands as for any other workload, unless resizes skip it."""
    assert scene([running(SMALL, ready=False, age=unready)], rules=rules).told() == told


@pytest.mark.parametrize("mode", [EITHER, ONLY])
@pytest.mark.parametrize("item", [SMALL, RESTARTS])
def test_with_enough_replicas_restarts_and_evictions_pass_too(item: Json, mode: str) -> None:
    """Where the VPA says that one pod is enough."""
    found = scene([running(item)], mode, min_replicas=1).decision()
    assert (found.action, found.reason) == RESIZED
    assert found.may_evict_instead is (mode == EITHER)


@cases(
    "pod told",
    {
        "deferred": (waits("Pending", "Deferred", ago=MINUTE), DEFERRED),
        "deferred for too long": (waits("Pending", "Deferred", ago=6 * MINUTE), TOO_FEW),
        "failing": (waits("InProgress", "Error", ago=MINUTE), TOO_FEW),
        "infeasible": (waits("Pending", "Infeasible"), (Action.RESIZE, Reason.RESIZE_INFEASIBLE)),
    },
)
def test_a_single_pod_that_the_node_does_not_resize_stays(
    pod: Json, told: tuple[Action, Reason]
) -> None:
    """The eviction that would follow is held back by `minReplicas`; a hopeless one is reverted."""
    assert scene([pod]).told() == told


def test_nor_is_a_single_pod_evicted_whose_node_refused_as_much_before() -> None:
    """The eviction instead waits for more replicas."""
    assert remembering(scene([POD]), "200m/200Mi").told() == TOO_FEW


def test_min_replicas_does_not_lift_the_budget() -> None:
    """Of four pods where ten are required half are resized at once, and none is evicted."""
    found = scene(several(POD, 4), min_replicas=10)
    assert found.count(Action.RESIZE) == 2
    assert found.decisions()["web-3"].reason is Reason.BUDGET_EXHAUSTED


def test_resizes_without_restart_can_skip_the_budget() -> None:
    """By flag."""
    many = scene(several(POD, 5), rules=replace(SKIPS, eviction_tolerance=0.1))
    assert many.count(Action.RESIZE) == 5


def test_restarts_take_places_even_so() -> None:
    """The budget stands for what restarts."""
    many = scene(several(running(RESTARTS), 5), rules=replace(SKIPS, eviction_tolerance=0.1))
    assert many.count(Action.RESIZE) == 1
    assert many.count(Action.WAIT) == 4


def test_a_pod_that_is_restarting_is_not_alive() -> None:
    """Its conditions may not say so yet."""
    restarting = with_status(
        running(container("app", "200m/200Mi", resize={"memory": "RestartContainer"})),
        "app",
        resources={"requests": amounts("100m/100Mi")},
    )
    pods = [restarting, *several(running(RESTARTS), 3)[1:]]
    assert scene(pods).count(Action.RESIZE) == 0


def test_a_pause_is_no_news_of_a_resize() -> None:
    """A pod that rests after a refusal and is in a resize is told to be in a resize."""
    pause = Pause(Reason.RESIZE_ERROR, "refused: no", 1, NOW + MINUTE)
    memory = Memory(pods={"uid-web-0": PodMemory("default", "web-0", pause=pause)})
    pods = [waits("InProgress", ago=MINUTE), *CALM]
    assert replace(scene(pods), memory=memory).told() == IN_PROGRESS


def test_pending_pods_are_not_resized() -> None:
    """A pod that does not run yet has nothing to resize."""
    pods = [pending(POD), *CALM]
    assert scene(pods).told() == (
        Action.WAIT,
        Reason.POD_PENDING,
    )


def test_requirements_do_not_hold_back_resizes() -> None:
    """They speak of evictions, and of resizes that restart something."""
    higher = [{"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}]
    spec = {"updatePolicy": {"updateMode": EITHER, "evictionRequirements": higher}}
    unmet = (Action.WAIT, Reason.REQUIREMENT_NOT_MET)

    def told(item: Json) -> Decision:
        pods = several(running(item), 3)
        return Scene(pods, [recommended("50m/200Mi = =")], vpa={"spec": spec}).decision()

    plain, disruptive = told(SMALL), told(RESTARTS)
    assert (plain.action, plain.may_evict_instead) == (Action.RESIZE, False)
    assert (disruptive.action, disruptive.reason) == unmet


def test_mode_in_place_keeps_the_budget() -> None:
    """Half of ten pods are resized at once."""
    assert scene(several(POD, 10), ONLY).count(Action.RESIZE) == 5


def test_an_accepted_resize_is_not_sent_again_before_it_is_seen() -> None:
    """The watch may lag behind the answer."""
    resized = Resized(NOW - timedelta(seconds=10), 2, "1")
    memory = Memory(pods={"uid-web-0": PodMemory("default", "web-0", resized=resized)})
    found = replace(scene(several(POD, 3)), memory=memory)
    assert found.told() == IN_PROGRESS
    assert found.decisions()["web-1"].reason is Reason.BUDGET_EXHAUSTED


def test_nothing_to_write_is_nothing_to_do() -> None:
    """What only the status lacks is not asked for twice."""
    pod = running(container("app", "200m/200Mi"))
    pod = with_status(pod, "app", resources={"requests": amounts("-/200Mi")})
    assert scene([pod, *CALM]).told() == (Action.NONE, Reason.NO_CHANGE)


def test_pods_without_a_node_are_resized_freely() -> None:
    """A pod that no node takes is simply made smaller."""
    big = unscheduled(running(container("app", "9/9Gi")))
    found = scene([big], replicas=1)
    assert found.told() == (Action.RESIZE, Reason.TOO_BIG_FOR_NODE)
    assert replace(found, mode="Recreate").told() == (Action.EVICT, Reason.TOO_BIG_FOR_NODE)
    assert replace(found, mode="UpscaleOnly").told() == (Action.WAIT, Reason.POD_PENDING)
    small = unscheduled(running(container("app", "100m/100Mi")))
    assert scene([small], replicas=1).told() == (Action.WAIT, Reason.POD_PENDING)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(EITHER, (Action.EVICT, Reason.OOM_KILLED)), (ONLY, (Action.WAIT, Reason.POD_PENDING))],
)
def test_pending_pods_that_run_out_of_memory_are_helped(
    mode: str, expected: tuple[Action, Reason]
) -> None:
    """A pod that never gets to run because it is killed is evicted where that is allowed."""
    pod = pending(POD)
    end = {
        "reason": "OOMKilled",
        "exitCode": 137,
        "startedAt": make.time(MINUTE),
        "finishedAt": make.time(timedelta()),
    }
    pod["status"]["containerStatuses"] = [{"name": "app", "state": {"terminated": end}}]
    assert scene([pod, *CALM], mode).told() == expected


def test_only_what_changes_can_restart() -> None:
    """A policy for memory does not matter when only cpu changes."""
    found = scene(several(running(RESTARTS), 5), rules=SKIPS)
    found = replace(found, recommendation=[recommended("200m/100Mi 200m/100Mi 1/1Gi")])
    assert found.count(Action.RESIZE) == 5


@cases(
    "remembered recommendation expected",
    {
        "the same again": ("1000m/1Gi", "1000m/1Gi = =", REMEMBERED),
        "half the cpu": ("2000m/2Gi", "1000m/2Gi = =", RESIZED),
        "more than was refused": ("1000m/1Gi", "2000m/2Gi = =", REMEMBERED),
        "less memory by little, more cpu": ("200m/512Mi", "300m/500Mi = =", RESIZED),
    },
)
def test_what_was_refused_is_not_asked_for_again(
    remembered: str, recommendation: str, expected: tuple[Action, Reason]
) -> None:
    """Only something smaller is worth another try."""
    found = replace(scene(several(POD, 3), ONLY), recommendation=[recommended(recommendation)])
    assert remembering(found, remembered).told() == expected


def test_where_eviction_is_allowed_it_stands_for_what_was_refused() -> None:
    """The same node is not asked again and again."""
    calm = several(running(container("app", "1000m/1Gi")), 3)[1:]
    found = replace(scene([POD, *calm]), recommendation=[recommended("1000m/1Gi = =")])
    assert remembering(found, "1000m/1Gi").told() == EVICTED


def test_the_qos_class_cannot_change() -> None:
    """A pod that asks for nothing can never be resized; evict it, or tell."""
    pod = running(container("app"))
    assert scene(several(pod, 3)).told() == (Action.EVICT, Reason.NO_REQUEST)
    assert scene(several(pod, 3), ONLY).told() == (Action.WAIT, Reason.RESIZE_INFEASIBLE)


@pytest.mark.parametrize(
    ("recommendation", "requests"),
    [
        ("200m/200Mi = =", {"cpu": "200m", "memory": "200Mi"}),
        ("200m/50Mi = =", {"cpu": "200m"}),
    ],
)
def test_upscale_only_in_place(recommendation: str, requests: Mapping[str, str]) -> None:
    """By flag: what has to grow is grown in place, the rest stays."""
    rules = replace(UNPROVEN, upscale_only_in_place=True)
    found = Scene(
        several(POD, 3), [recommended(recommendation)], mode="UpscaleOnly", rules=rules
    ).decision()
    assert found.action is Action.RESIZE
    assert found.may_evict_instead
    assert found.change is not None
    written = found.change.containers[0].requests
    assert {name: str(amount) for name, amount in written.items()} == dict(requests)


def test_upscale_only_leaves_what_shrinks() -> None:
    """A container with nothing to grow is not written."""
    pod = running(container("app", "100m/100Mi"), container("b", "1/1Gi"))
    found = Scene(
        several(pod, 3),
        [recommended("200m/200Mi = ="), recommended("500m/500Mi", "b")],
        mode="UpscaleOnly",
        rules=replace(UNPROVEN, upscale_only_in_place=True),
    ).decision()
    assert found.change is not None
    assert [change.container for change in found.change.containers] == ["app"]
