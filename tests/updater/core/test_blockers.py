"""What holds a pod back although it needs an update."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.pods import updates_annotation
from app.updater.core.decisions import Action, Reason
from app.updater.core.memory import Memory, Pause, PodMemory, SeenRollout, unseen_pdb_key
from app.updater.core.plan import PlanOptions
from app.updater.core.rules import Prove
from tests import make
from tests.cases import cases
from tests.updater.core import boosts
from tests.updater.core.resizes import EITHER, POD, waits
from tests.updater.core.scenes import (
    EVICTED,
    MINUTE,
    NO_SLOT,
    NOW,
    OURS,
    TOO_FEW,
    UNPROVEN,
    Scene,
    container,
    killed,
    named,
    pending,
    recommended,
    running,
    several,
    with_metadata,
)

SMALL = container("app", "100m/100Mi")
BLOCKED = (Action.WAIT, Reason.PDB_BLOCKED)
STALE = PlanOptions(webhook_is_healthy=False)


# --- how many there are


@cases(
    "count missing tolerance expected",
    {
        "one of three while a fourth is missing": (3, 1, 0.5, 1),
        "half of ten": (10, 0, 0.5, 5),
        "more pods than are wanted": (5, -2, 0.5, 3),
    },
)
def test_evictions_in_one_round(count: int, missing: int, tolerance: float, expected: int) -> None:
    """As many pods go as the budget allows, the others stand by."""
    rules = replace(UNPROVEN, eviction_tolerance=tolerance)
    found = Scene(several(POD, count), rules=rules, replicas=count + missing)
    assert found.count(Action.EVICT) == expected
    assert found.count(Action.WAIT) == count - expected


def test_pending_pods_go_freely() -> None:
    """Three of four do not run yet: they may go, the running one may not."""
    pods = [POD, *(pending(running(SMALL, name=f"new-{number}")) for number in range(3))]
    found = Scene(pods)
    assert found.count(Action.EVICT) == 3
    assert found.told() == NO_SLOT


def test_too_few_pods() -> None:
    """An owner with fewer pods than required is left alone."""
    assert Scene([POD]).told() == TOO_FEW
    assert Scene([POD], min_replicas=1).told() == EVICTED
    many = replace(UNPROVEN, min_replicas=10)
    assert Scene(several(POD, 5), rules=many).told() == TOO_FEW
    pods = [POD, pending(running(SMALL, name="new"))]
    assert Scene(pods, replicas=2).told() == NO_SLOT


def test_boosts_do_not_lift_min_replicas() -> None:
    """One boosted pod does not free its whole group."""
    boosted = running(
        SMALL, name="web-1", ready=False, annotations={"vpaCpuStartupBoost/app": "{}"}
    )
    found = Scene([POD, boosted], min_replicas=3)
    assert found.told() == TOO_FEW


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (make.workload_json("ReplicaSet/web", replicas=0), Reason.OWNER_UNKNOWN),
        (make.workload_json("DaemonSet/web"), Reason.OWNER_UNKNOWN),
    ],
)
def test_unknown_sizes(owner: Json, reason: Reason) -> None:
    """An owner that does not say how many it wants loses none."""
    kind = owner["kind"]
    pods = several(running(SMALL, owner=f"{kind}/web"), 3)
    found = Scene(pods, owner=owner, vpa={"target": f"{kind}/web"})
    assert found.told() == (Action.WAIT, reason)
    in_place = replace(found, mode="InPlaceOrRecreate")
    assert in_place.told() == (Action.WAIT, reason)


# --- who is up


@pytest.mark.parametrize("ready", [True, False])
def test_an_owner_whose_pods_all_run_out_of_memory_is_repaired(ready: bool) -> None:
    """One by one, though none of them is ready."""
    pods = [
        killed(running(SMALL, name=f"web-{number}", ready=ready, age=MINUTE)) for number in range(3)
    ]
    found = Scene(pods)
    assert found.count(Action.EVICT) == 1
    assert found.decision().is_quick_oom


def test_broken_pods_go_without_taking_from_the_ready() -> None:
    """A pod that has been unready for long may go where a ready one may not."""
    sick = running(SMALL, name="sick", ready=False, age=timedelta(hours=1))
    pods = [*several(POD, 3), sick]
    found = Scene(pods)
    assert found.decisions()["sick"].action is Action.EVICT
    assert found.count(Action.EVICT) == 2


def test_own_actions_count_until_they_are_seen() -> None:
    """A pod whose eviction was accepted is gone, whatever the watch still shows."""
    gone = Memory(pods={"uid-web-0": PodMemory("default", "web-0", evicted=NOW)})
    found = Scene(several(POD, 3), memory=gone)
    assert found.told() == (Action.NONE, Reason.POD_TERMINATING)
    assert found.count(Action.EVICT) == 0
    late = replace(found, now=NOW + 3 * MINUTE)
    assert late.count(Action.EVICT) == 1


# --- several VPAs of one owner


def test_vpas_of_one_owner_share_its_budget() -> None:
    """Of a leader and four followers half may be down: two in all, whatever their VPAs."""
    pods = [
        running(
            SMALL,
            name=f"web-{number}",
            labels={"app": "web", "role": role},
            annotations={"vpaUpdates": updates_annotation(role, [])},
        )
        for number, role in enumerate(["leader", *["follower"] * 4])
    ]
    vpas = [
        make.vpa_json(
            role,
            mode="Recreate",
            selector={"matchLabels": {"role": role}},
            recommendations=[recommended("200m/200Mi = =")],
        )
        for role in ("leader", "follower")
    ]
    found = Scene(pods, whole=make.snapshot(*pods, *vpas, make.workload_json(replicas=5)))
    assert found.count(Action.EVICT) == 2
    assert found.told() == EVICTED


# --- rollouts, the webhook, PodDisruptionBudgets


def rolling(**status: int) -> tuple[Json, Json]:
    """Return a ReplicaSet and its Deployment with a status."""
    deployment = make.workload_json("Deployment/web", status={"observedGeneration": 1} | status)
    return make.workload_json("ReplicaSet/web", owner="Deployment/web"), deployment


def in_rollout(
    pod: Json, memory: Memory | None = None, mode: str = "Recreate", updated: int = 1
) -> Scene:
    """Return a scene in the middle of a rollout."""
    owner, deployment = rolling(updatedReplicas=updated, replicas=4)
    pods = several(with_metadata(pod, ownerReferences=[make.owner_json("ReplicaSet/web")]), 3)
    return Scene(
        pods,
        owner=owner,
        others=[deployment],
        mode=mode,
        rules=UNPROVEN,
        memory=memory or Memory(),
        vpa={"target": "Deployment/web"},
    )


def test_rollouts_are_waited_for() -> None:
    """For ten minutes; a pod that is out of memory and resizes that restart nothing do not wait."""
    waiting = (Action.WAIT, Reason.ROLLOUT_IN_PROGRESS)
    first = in_rollout(POD)
    assert first.told() == waiting
    memory = first.plan().memory
    place = ("default", ObjectKey("", "ReplicaSet", "web"))
    assert memory.rollouts == {place: SeenRollout("Deployment/web@1/1", NOW)}
    later = in_rollout(POD, memory)
    assert replace(later, now=NOW + 9 * MINUTE).told() == waiting
    assert replace(later, now=NOW + 10 * MINUTE).told() == EVICTED
    other = Memory(rollouts={place: SeenRollout("Deployment/web@0/1", NOW - timedelta(days=1))})
    assert in_rollout(POD, other).told() == waiting
    assert in_rollout(killed(POD)).told() == (Action.EVICT, Reason.OOM_KILLED)
    assert in_rollout(POD, mode="InPlaceOrRecreate").told()[0] is Action.RESIZE
    restarts = running(container("app", "100m/100Mi", resize={"cpu": "RestartContainer"}))
    assert in_rollout(restarts, mode="InPlaceOrRecreate").told() == waiting


def test_a_rollout_that_goes_on_is_waited_for_however_long_it_takes() -> None:
    """The ten minutes count from its latest step."""
    memory = in_rollout(POD).plan().memory
    later = NOW + 10 * MINUTE
    on = replace(in_rollout(POD, memory, updated=2), now=later)
    assert on.told() == (Action.WAIT, Reason.ROLLOUT_IN_PROGRESS)
    still = replace(on, memory=on.plan().memory, now=later + 10 * MINUTE)
    assert still.told() == EVICTED


def test_a_stale_webhook_holds_back_evictions_only() -> None:
    """UP-04: a recreated pod would be no better; a resize needs nobody."""
    stale = (Action.WAIT, Reason.LEASE_STALE)
    assert Scene(several(POD, 3)).told(STALE) == stale
    in_place = Scene(several(POD, 3), mode="InPlaceOrRecreate")
    found = in_place.decision(STALE)
    assert (found.action, found.may_evict_instead) == (Action.RESIZE, False)


def test_disruption_budgets_are_known_beforehand() -> None:
    """What a budget refuses is not tried."""
    ten = several(POD, 10)
    none = make.budget_json(allowed=0)
    assert Scene(ten, others=[none]).count(Action.EVICT) == 0
    assert Scene(ten, others=[none]).told() == BLOCKED
    three = Scene(ten, others=[make.budget_json(allowed=3)])
    assert three.count(Action.EVICT) == 3
    assert sum(found.reason is Reason.PDB_BLOCKED for found in three.plan().decisions) == 7
    elsewhere = make.budget_json(allowed=0, labels={"app": "other"})
    assert Scene(ten, others=[elsewhere]).count(Action.EVICT) == 5


def test_budgets_that_cannot_say_yes() -> None:
    """Two over one pod are an error of the server; one that was just changed knows nothing."""
    two = [make.budget_json(), make.budget_json("other")]
    found = Scene(several(POD, 3), others=two).decision()
    assert found.reason is Reason.PDB_BLOCKED
    assert found.message == "several PodDisruptionBudgets match the pod: other, web"
    changed = make.budget_json(observed=0)
    assert Scene(several(POD, 3), others=[changed]).told() == BLOCKED


def test_a_budget_that_refused_rests() -> None:
    """Its pause holds for all its pods."""
    pause = Pause(Reason.PDB_BLOCKED, "refused", 1, NOW + MINUTE)
    memory = Memory(pdb_pauses={("default", "web"): pause})
    found = Scene(several(POD, 3), others=[make.budget_json()], memory=memory)
    assert found.told() == BLOCKED
    assert replace(found, now=NOW + MINUTE).told() == EVICTED


def test_a_budget_that_is_not_seen_rests() -> None:
    """For want of a right perhaps: its pause holds for all pods of the owner that it guards."""
    pause = Pause(Reason.PDB_BLOCKED, "refused", 1, NOW + MINUTE)
    place = unseen_pdb_key("default", ObjectKey("", "StatefulSet", "web"))
    found = Scene(several(POD, 3), memory=Memory(pdb_pauses={place: pause}))
    assert found.told() == BLOCKED
    assert replace(found, now=NOW + MINUTE).told() == EVICTED
    assert replace(found, others=[make.budget_json()]).told() == EVICTED
    assert replace(found, pods=[pending(POD), *several(POD, 3)[1:]]).told() == EVICTED


def test_budgets_do_not_guard_what_does_not_run_or_is_broken() -> None:
    """The API server lets pending pods go; a broken one is worth the question."""
    none = make.budget_json(allowed=0)
    assert Scene([pending(POD), *several(POD, 3)[1:]], others=[none]).told() == EVICTED
    sick = running(SMALL, ready=False, age=timedelta(hours=1))
    assert Scene([sick, *several(POD, 3)[1:]], others=[none]).told() == EVICTED


def test_a_resize_may_not_become_an_eviction_that_is_blocked() -> None:
    """SX-28 and SX-29: what forbids an eviction also forbids it instead of a resize."""
    many = several(POD, 3)
    assert Scene(many, mode="InPlaceOrRecreate").decision().may_evict_instead
    blocked = Scene(many, mode="InPlaceOrRecreate", others=[make.budget_json(allowed=0)])
    assert not blocked.decision().may_evict_instead


def test_a_pause_of_the_pod_is_kept() -> None:
    """After a failed call a pod rests."""
    pause = Pause(Reason.EVICTION_ERROR, "refused: no", 1, NOW + MINUTE)
    memory = Memory(pods={"uid-web-0": PodMemory("default", "web-0", pause=pause)})
    found = Scene(several(POD, 3), memory=memory)
    assert found.told() == (Action.WAIT, Reason.EVICTION_ERROR)
    assert replace(found, now=NOW + MINUTE).told() == EVICTED


def test_dry_run_proves_like_a_canary() -> None:
    """The trial comes before the first pod goes, it does not stand for it."""
    rules = replace(OURS, prove=Prove.DRY_RUN)
    found = Scene(several(POD, 4), rules=rules)
    assert found.count(Action.EVICT) == 1
    assert found.decision().needs_proof


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
    assert (
        waiting.message == "web-0 and web-1 are being updated; "
        "only 2 of 4 pods of StatefulSet/web may be down at a time"
    )


def test_where_nobody_can_go_there_is_no_queue() -> None:
    """Standing by for nobody is pointless."""
    assert queued(Scene(several(POD, 2), replicas=9)) == []
    assert queued(Scene(several(POD, 2), rules=replace(UNPROVEN, min_replicas=3))) == []


def test_what_others_used_up_is_not_queued() -> None:
    """A budget of one disruption: the second pod is not even tried."""
    found = Scene(several(POD, 4), others=[make.budget_json(allowed=1)])
    assert queued(found) == [("web-0", Action.EVICT)]
    reasons = [decision.reason for decision in found.decisions().values()]
    assert reasons.count(Reason.OUTSIDE_BOUNDS) == 1
    assert reasons.count(Reason.PDB_BLOCKED) == 3


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
    assert decision.needs_proof
    assert not Scene(several(POD, 4), rules=UNPROVEN).decision().needs_proof
    resized = Scene(several(POD, 4), rules=OURS, mode=EITHER).decision()
    assert (resized.needs_proof, resized.may_evict_instead) == (True, True)
    only = Scene(several(POD, 4), rules=OURS, mode="InPlace").decision()
    assert (only.needs_proof, only.may_evict_instead) == (False, False)


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
    limit = "only 1 of 3 pods of StatefulSet/web may be down at a time"
    who = "web-0 is being updated" if there == 3 else "1 pod is not created yet"
    assert set(told) == {f"{who}; {limit}"}
