"""Pods that are updated in place: what is done now, by us and by upstream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from app.core.updating.decisions import Action, Decision, Reason
from app.core.updating.infeasible import Infeasible
from app.core.updating.memory import Memory, PodMemory, Resized
from app.core.updating.rules import UpdateRules
from app.model.gates import NO_GATES
from tests import make
from tests.core.updating.scenes import (
    NOW,
    UNPROVEN,
    UPSTREAM,
    Scene,
    amounts,
    container,
    pending,
    recommended,
    resize_condition,
    running,
    several,
    unscheduled,
    with_status,
    with_switches,
)

Json = make.Json
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SMALL = container("app", "100m/100Mi")
RESTARTS = container("app", "100m/100Mi", resize={"memory": "RestartContainer"})
POD = running(SMALL)
CALM = several(running(container("app", "200m/200Mi")), 3)[1:]  # as recommended
EITHER, ONLY = "InPlaceOrRecreate", "InPlace"
SKIPS, SKIPS_UPSTREAM = (
    replace(rules, skip_disruption_budget=True) for rules in (UNPROVEN, UPSTREAM)
)

RESIZED = (Action.RESIZE, Reason.UPDATED)
EVICTED = (Action.EVICT, Reason.EVICTED)
TOO_FEW = (Action.WAIT, Reason.TOO_FEW_REPLICAS)
NO_PLACE = (Action.WAIT, Reason.BUDGET_EXHAUSTED)
IN_PROGRESS = (Action.WAIT, Reason.RESIZE_IN_PROGRESS)
DEFERRED = (Action.WAIT, Reason.RESIZE_DEFERRED)
REMEMBERED = (Action.WAIT, Reason.INFEASIBLE_REMEMBERED)


def asking(*conditions: Json, wanted: str = "200m/200Mi") -> Json:
    """Return a pod that asks for a new size and reports the old one."""
    pod = running(container("app", wanted), conditions=conditions)
    return with_status(pod, "app", resources={"requests": amounts("100m/100Mi")})


def scene(
    pods: Sequence[Json],
    mode: str = EITHER,
    *,
    rules: UpdateRules = UNPROVEN,
    seen: timedelta | None = None,
    replicas: int | None = None,
    min_replicas: int | None = None,
) -> Scene:
    """Return a scene whose first pod was first seen resizing so long ago."""
    sights = {} if seen is None else {("default", "web-0"): NOW - seen}
    return Scene(
        pods,
        mode=mode,
        rules=rules,
        replicas=replicas,
        memory=Memory(first_sights=sights),
        vpa={"min_replicas": min_replicas},
    )


both = pytest.mark.parametrize("rules", [UNPROVEN, UPSTREAM], ids=["ours", "upstream"])


def remembering(found: Scene, wanted: str) -> Scene:
    """Return the scene after its first pod was refused so much."""
    asked = {("app", name): make.quantity(text) for name, text in amounts(wanted).items()}
    past = Infeasible(asked, frozenset(), NOW - MINUTE, None)
    uid = found.pods[0]["metadata"]["uid"]
    return replace(found, memory=Memory(pods={uid: PodMemory("default", "web-0", infeasible=past)}))


# --- the budget


@both
@pytest.mark.parametrize(
    ("pods", "replicas", "tolerance", "expected"),
    [
        pytest.param(several(POD, 3), 3, 0.5, 1, id="I1"),
        pytest.param([*several(POD, 2), pending(running(SMALL, name="new"))], 3, 0.5, 0, id="I2"),
        pytest.param(several(POD, 3), 3, 0.1, 1, id="I3"),
    ],
)
def test_resizes_take_places(
    pods: list[Json], replicas: int, tolerance: float, expected: int, rules: UpdateRules
) -> None:
    """Resizes share the budget with evictions."""
    found = scene(pods, replicas=replicas, rules=replace(rules, eviction_tolerance=tolerance))
    assert found.count(Action.RESIZE) == expected
    assert found.count(Action.WAIT) == len(pods) - expected


@both
def test_a_single_pod_is_left_alone(rules: UpdateRules) -> None:
    """I4 and I5: unless its VPA says that one is enough."""
    assert scene([POD], rules=rules).told() == TOO_FEW
    assert scene([POD], rules=rules, min_replicas=1).told() == RESIZED


@pytest.mark.parametrize("rules", [SKIPS, SKIPS_UPSTREAM], ids=["ours", "upstream"])
def test_resizes_without_restart_can_skip_the_budget(rules: UpdateRules) -> None:
    """I6 and I8: by flag; an eviction instead stays out of the question for a single pod."""
    found = scene([POD], rules=rules).decision()
    assert (found.action, found.may_evict_instead) == (Action.RESIZE, False)
    many = scene(several(POD, 5), rules=replace(rules, eviction_tolerance=0.1))
    assert many.count(Action.RESIZE) == 5


def test_restarts_never_skip_min_replicas() -> None:
    """I7: upstream restarts the only pod there is."""
    pod = running(RESTARTS)
    assert scene([pod], rules=SKIPS).told() == TOO_FEW
    assert scene([pod], rules=SKIPS_UPSTREAM).told() == RESIZED


@pytest.mark.parametrize("rules", [SKIPS, SKIPS_UPSTREAM], ids=["ours", "upstream"])
def test_restarts_take_places_even_so(rules: UpdateRules) -> None:
    """I9: the budget stands for what restarts."""
    many = scene(several(running(RESTARTS), 5), rules=replace(rules, eviction_tolerance=0.1))
    assert many.count(Action.RESIZE) == 1
    assert many.count(Action.WAIT) == 4


def test_only_what_changes_can_restart() -> None:
    """A policy for memory does not matter when only cpu changes; to upstream it does."""
    found = scene(several(running(RESTARTS), 5), rules=SKIPS)
    found = replace(found, recommendation=[recommended("200m/100Mi 200m/100Mi 1/1Gi")])
    assert found.count(Action.RESIZE) == 5
    upstream = with_switches(SKIPS, patches_everything=True)
    assert replace(found, rules=upstream).count(Action.RESIZE) == 2


# --- resizes under way


def waits(kind: str, reason: str = "", message: str = "", ago: timedelta = timedelta()) -> Json:
    """Return a pod in a resize that began so long ago."""
    return asking(resize_condition(kind, reason, message, ago.total_seconds()))


MOMENT = timedelta(milliseconds=1)


@both
@pytest.mark.parametrize(
    ("kind", "reason", "ago", "expected"),
    [
        pytest.param("Pending", "Deferred", MOMENT, DEFERRED, id="I10"),
        pytest.param("Pending", "Deferred", 5 * MINUTE, DEFERRED, id="I11"),
        pytest.param("Pending", "Deferred", 10 * MINUTE, EVICTED, id="I12"),
        pytest.param("Pending", "Infeasible", MOMENT, EVICTED, id="I13"),
        pytest.param("Pending", "Whatever", MOMENT, EVICTED, id="I13 unknown"),
        pytest.param("InProgress", "", MOMENT, IN_PROGRESS, id="I15"),
        pytest.param("InProgress", "", 2 * HOUR, EVICTED, id="I15 late"),
        pytest.param("InProgress", "Error", MOMENT, EVICTED, id="I16"),
        pytest.param("InProgress", "Whatever", MOMENT, EVICTED, id="I16 unknown"),
    ],
)
def test_resizes_under_way(
    kind: str,
    reason: str,
    ago: timedelta,
    expected: tuple[Action, Reason],
    rules: UpdateRules,
) -> None:
    """A resize is waited for, for a time; then the pod is evicted."""
    pods = [waits(kind, reason, ago=ago), *CALM]
    assert scene(pods, seen=ago, rules=rules).told() == expected


@both
def test_evicting_a_stuck_pod_takes_a_place(rules: UpdateRules) -> None:
    """I14: with one of three pods missing a stuck one has to wait."""
    pods = [waits("Pending", "Infeasible"), CALM[0], pending(running(SMALL, name="new"))]
    found = scene(pods, rules=rules)
    assert (
        found.decisions()["web-0"].action is (Action.WAIT if rules is UPSTREAM else Action.RESIZE)
        or found.told() == NO_PLACE
    )


@both
def test_pending_pods_are_not_resized(rules: UpdateRules) -> None:
    """I17: a pod that does not run yet has nothing to resize."""
    pods = [pending(POD), *CALM]
    assert scene(pods, rules=rules).told() == (
        Action.WAIT,
        Reason.POD_PENDING,
    )


def test_a_second_resize_has_its_own_time() -> None:
    """I19: upstream counts from the first resize that it ever saw of a pod of that name."""
    pods = [waits("InProgress", ago=20 * timedelta(seconds=1)), *CALM]
    yesterday = timedelta(days=1)
    assert scene(pods, seen=yesterday).told() == IN_PROGRESS
    assert scene(pods, seen=yesterday, rules=UPSTREAM).told() == EVICTED


def test_time_counts_from_the_accepted_patch() -> None:
    """A newer request keeps the condition's old time, but its own time starts anew."""
    pod = waits("InProgress", ago=2 * HOUR)
    updated = {"vpaInPlaceUpdatedAt": make.time(MINUTE) or ""}
    pod["metadata"]["annotations"] = updated
    assert scene([pod, *CALM]).told() == IN_PROGRESS


def test_an_undated_resize_is_dated_at_its_first_sight() -> None:
    """What no condition dates is remembered by uid, and forgotten when it is over."""
    pods = [asking(), *CALM]
    first = scene(pods).plan()
    assert first.memory.pods["uid-web-0"].resizing_since == NOW
    later = replace(scene(pods), memory=first.memory, now=NOW + 61 * MINUTE)
    assert later.told() == EVICTED
    done = replace(scene(several(POD, 3)), memory=first.memory)
    assert done.plan().memory.pods == {}


def test_conditions_are_both_looked_at() -> None:
    """I34: a condition that does not hold hides none that does."""
    over = resize_condition("InProgress") | {"status": "False"}
    pod = asking(over, resize_condition("Pending", "Deferred"))
    pods = [pod, *CALM]
    assert scene(pods).told() == DEFERRED
    assert scene(pods, rules=UPSTREAM).told() == RESIZED


@both
def test_pending_comes_before_in_progress(rules: UpdateRules) -> None:
    """I35: a resize that waits for room is deferred, whatever else goes on."""
    pod = asking(resize_condition("InProgress"), resize_condition("Pending", "Deferred"))
    assert scene([pod, *CALM], rules=rules).told() == DEFERRED


@both
def test_other_modes_evict_out_of_a_stuck_resize(rules: UpdateRules) -> None:
    """I36: mode Recreate waits for a resize that somebody started, but not for ever."""
    pods = [waits("InProgress", ago=2 * HOUR), *CALM]
    found = replace(scene(pods, seen=2 * HOUR, rules=rules), mode=None)
    assert found.told() == EVICTED
    fresh = [waits("InProgress", ago=MINUTE), *CALM]
    assert replace(scene(fresh, seen=MINUTE, rules=rules), mode=None).told() == IN_PROGRESS


def test_requirements_do_not_hold_back_resizes() -> None:
    """I37: they speak of evictions, and of resizes that restart something."""
    higher = [{"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}]
    spec = {"updatePolicy": {"updateMode": EITHER, "evictionRequirements": higher}}
    unmet = (Action.WAIT, Reason.REQUIREMENT_NOT_MET)

    def told(item: Json, rules: UpdateRules) -> Decision:
        found = Scene(
            several(running(item), 3),
            [recommended("50m/200Mi = =")],
            rules=rules,
            vpa={"spec": spec},
        )
        return found.decision()

    plain = told(SMALL, UNPROVEN)
    assert (plain.action, plain.may_evict_instead) == (Action.RESIZE, False)
    for found in (
        told(RESTARTS, UNPROVEN),
        told(SMALL, UPSTREAM),
        told(SMALL, with_switches(UNPROVEN, requirements_gate_resizes=True)),
    ):
        assert (found.action, found.reason) == unmet


# --- mode InPlace


def test_infeasible_is_remembered_and_taken_back() -> None:
    """I20: upstream sends the same patch once more; we ask for what the pod has."""
    pods = [waits("Pending", "Infeasible", "no room"), *CALM]
    plan = scene(pods, ONLY).plan()
    found = plan.decisions[0]
    assert (found.action, found.reason) == (Action.RESIZE, Reason.RESIZE_INFEASIBLE)
    assert found.change is not None
    assert found.change.containers[0].requests == make.quantities(cpu="100m", memory="100Mi")
    assert plan.memory.pods["uid-web-0"].infeasible is not None
    upstream = scene(pods, ONLY, rules=UPSTREAM).plan()
    assert upstream.decisions[0].reason is Reason.UPDATED
    past = upstream.memory.pods["uid-web-0"].infeasible
    assert past is not None
    assert past.wanted[("app", "cpu")] == make.quantity("200m")


@both
@pytest.mark.parametrize(
    ("remembered", "recommendation", "expected"),
    [
        pytest.param("1000m/1Gi", "1000m/1Gi = =", REMEMBERED, id="I21"),
        pytest.param("2000m/2Gi", "1000m/2Gi = =", RESIZED, id="I22"),
        pytest.param("1000m/1Gi", "2000m/2Gi = =", REMEMBERED, id="I23"),
        pytest.param("200m/512Mi", "300m/500Mi = =", RESIZED, id="I24"),
    ],
)
def test_what_was_refused_is_not_asked_for_again(
    remembered: str, recommendation: str, expected: tuple[Action, Reason], rules: UpdateRules
) -> None:
    """Only something smaller is worth another try."""
    found = replace(
        scene(several(POD, 3), ONLY, rules=rules), recommendation=[recommended(recommendation)]
    )
    assert remembering(found, remembered).told() == expected


def test_a_byte_less_is_not_less() -> None:
    """What is a little lower would be refused as well; upstream tries it every time."""
    found = replace(
        scene(several(POD, 3), ONLY), recommendation=[recommended("999m/1Gi 999m/1Gi 999m/1Gi")]
    )
    assert remembering(found, "1000m/1Gi").told() == REMEMBERED
    upstream = with_switches(UNPROVEN, infeasible_until_lower=True)
    assert remembering(replace(found, rules=upstream), "1000m/1Gi").told() == RESIZED


def test_where_eviction_is_allowed_it_stands_for_what_was_refused() -> None:
    """I25: upstream asks the same node again and again."""
    calm = several(running(container("app", "1000m/1Gi")), 3)[1:]
    found = replace(scene([POD, *calm]), recommendation=[recommended("1000m/1Gi = =")])
    assert remembering(found, "1000m/1Gi").told() == EVICTED
    upstream = remembering(replace(found, rules=UPSTREAM), "1000m/1Gi")
    assert upstream.told() == RESIZED


@both
def test_without_a_recommendation_there_is_nothing_to_do(rules: UpdateRules) -> None:
    """I26: in no mode."""
    found = replace(scene(several(POD, 3), ONLY, rules=rules), vpa={"recommendations": None})
    assert found.told() == (Action.NONE, Reason.NO_RECOMMENDATION)


@pytest.mark.parametrize(
    ("kind", "reason", "ago", "ours"),
    [
        pytest.param("InProgress", "", 2 * HOUR, IN_PROGRESS, id="I27"),
        pytest.param("Pending", "Deferred", 30 * MINUTE, DEFERRED, id="I27 deferred"),
        pytest.param(
            "Pending",
            "Deferred",
            2 * HOUR,
            (Action.RESIZE, Reason.RESIZE_DEFERRED),
            id="I27 taken back",
        ),
        pytest.param("InProgress", "Error", MINUTE, (Action.WAIT, Reason.RESIZE_ERROR), id="I28"),
    ],
)
def test_mode_in_place_waits(
    kind: str, reason: str, ago: timedelta, ours: tuple[Action, Reason]
) -> None:
    """A resize under way is not sent again, and one without hope is taken back in the end."""
    pods = [waits(kind, reason, ago=ago), *CALM]
    assert scene(pods, ONLY).told() == ours
    assert scene(pods, ONLY, rules=UPSTREAM).told() == RESIZED


def test_mode_in_place_keeps_the_budget() -> None:
    """I29: upstream resizes all ten at once."""
    assert scene(several(POD, 10), ONLY).count(Action.RESIZE) == 5
    assert scene(several(POD, 10), ONLY, rules=UPSTREAM).count(Action.RESIZE) == 10


@both
def test_mode_in_place_keeps_min_replicas(rules: UpdateRules) -> None:
    """I30: a single pod waits, and the reason tells."""
    assert scene([POD], ONLY, rules=rules).told() == TOO_FEW


@both
def test_mode_in_place_needs_its_gate(rules: UpdateRules) -> None:
    """I33: without it nothing is done, and nothing is evicted."""
    found = replace(scene(several(POD, 3), ONLY, rules=rules), gates=NO_GATES)
    assert found.told() == (Action.NONE, Reason.GATE_DISABLED)


# --- what we do beyond


def test_something_else_replaces_a_resize_under_way() -> None:
    """A deferred wish is replaced when the recommendation has clearly moved."""
    pods = [asking(resize_condition("Pending", "Deferred"), wanted="900m/900Mi")]
    pods += CALM
    for mode in (EITHER, ONLY):
        found = scene(pods, mode).decision()
        assert (found.action, found.reason) == RESIZED
    assert scene(pods, rules=UPSTREAM, seen=MOMENT).told() == DEFERRED


def test_a_stuck_wish_that_is_not_needed_is_written_back() -> None:
    """When the pod has what is recommended, a hopeless wish for more is replaced."""
    pod = asking(resize_condition("Pending", "Infeasible"), wanted="900m/900Mi")
    pods = [pod, *CALM]
    found = replace(scene(pods), recommendation=[recommended("100m/100Mi = =")])
    decision = found.decision()
    assert (decision.action, decision.reason) == (Action.RESIZE, Reason.RESIZE_INFEASIBLE)
    assert decision.change is not None
    assert decision.change.containers[0].requests == make.quantities(cpu="100m", memory="100Mi")
    upstream = replace(found, rules=UPSTREAM)
    assert upstream.told() == (Action.NONE, Reason.TOO_SMALL)


def test_a_resize_under_way_that_is_not_needed_may_end() -> None:
    """What goes on without being needed is only told."""
    pods = [asking(resize_condition("InProgress")), *CALM]
    found = replace(scene(pods), recommendation=[recommended("100m/100Mi = =")])
    assert found.told() == IN_PROGRESS


def test_a_stuck_wish_that_is_as_recommended_stays() -> None:
    """Nothing can be written back where spec and recommendation agree."""
    pod = asking(resize_condition("Pending", "Deferred"), wanted="101m/101Mi")
    found = replace(scene([pod, *CALM]), recommendation=[recommended("101m/101Mi 1m/1Mi 1/1Gi")])
    assert found.told() == (Action.NONE, Reason.TOO_SMALL)


def test_a_blocked_eviction_takes_the_wish_back() -> None:
    """A deferred pod that may not be evicted does not hold the scheduler's room for ever."""
    pod = waits("Pending", "Deferred", "no room", 2 * HOUR)
    found = scene([pod], replicas=1)
    decision = found.decision()
    assert (decision.action, decision.reason) == (Action.RESIZE, Reason.RESIZE_DEFERRED)
    assert "taken back, for it may not be evicted" in decision.message
    remembered = found.plan().memory.pods["uid-web-0"]
    assert remembered.infeasible is not None
    again = replace(scene([POD], replicas=1), memory=found.plan().memory)
    assert again.told() == TOO_FEW


def test_an_accepted_resize_is_not_sent_again_before_it_is_seen() -> None:
    """The watch may lag behind the answer."""
    resized = Resized(NOW - timedelta(seconds=10), 2, "1")
    memory = Memory(pods={"uid-web-0": PodMemory("default", "web-0", resized=resized)})
    found = replace(scene(several(POD, 3)), memory=memory)
    assert found.told() == IN_PROGRESS
    assert found.decisions()["web-1"].reason is Reason.BUDGET_EXHAUSTED


def test_the_qos_class_cannot_change() -> None:
    """A pod that asks for nothing can never be resized; evict it, or tell."""
    pod = running(container("app"))
    assert scene(several(pod, 3)).told() == EVICTED
    assert scene(several(pod, 3), ONLY).told() == (Action.WAIT, Reason.RESIZE_INFEASIBLE)
    assert scene(several(pod, 3), rules=UPSTREAM).told() == RESIZED


def test_nothing_to_write_is_nothing_to_do() -> None:
    """What only the status lacks is not asked for twice."""
    pod = running(container("app", "200m/200Mi"))
    pod = with_status(pod, "app", resources={"requests": amounts("-/200Mi")})
    assert scene([pod, *CALM]).told() == (Action.NONE, Reason.NO_CHANGE)


def test_pods_without_a_node_are_resized_freely() -> None:
    """A pod that no node takes is simply made smaller."""
    big = unscheduled(running(container("app", "9/9Gi")))
    found = scene([big], replicas=1)
    assert found.told() == RESIZED
    assert scene([big], rules=UPSTREAM).told() == (Action.WAIT, Reason.POD_PENDING)
    assert replace(found, mode="Recreate").told() == EVICTED
    assert replace(found, mode="UpscaleOnly").told() == (Action.WAIT, Reason.POD_PENDING)
    small = unscheduled(running(container("app", "100m/100Mi")))
    assert scene([small], replicas=1).told() == (Action.WAIT, Reason.POD_PENDING)


@pytest.mark.parametrize(
    ("mode", "expected"), [(EITHER, EVICTED), (ONLY, (Action.WAIT, Reason.POD_PENDING))]
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
