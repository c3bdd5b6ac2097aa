"""Pods whose roles come from a Lease: the leader first where it grows, and last where pods go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from app.model.errors import BadObject
from app.model.fields import Json
from app.model.limits import NO_LIMITS
from app.model.pods import updates_annotation
from app.model.role_leases import LeaseStanding, LeaseState, PodRole, RoleLease
from app.model.snapshot import Collection, Replacement, Snapshot
from app.updater.core.decisions import Action, Reason, decision_json
from app.updater.core.memory import Infeasible, Memory, PodMemory
from app.updater.core.plan import PlanOptions, plan
from app.updater.core.pod_targets import OwnerTargets
from app.updater.core.proposals import PlanInputs, PodContext
from app.updater.core.role_changes import keeps_role, lowers, promotions, role_events, used_beyond
from app.updater.core.rules import UpdateRules
from tests import make
from tests.cases import cases
from tests.make import ALL_GATES
from tests.updater.core.scenes import (
    EVICTED,
    MINUTE,
    NO_SLOT,
    NOW,
    RESIZED,
    UNPROVEN,
    Scene,
    container,
    recommended,
    running,
    terminating,
    with_metadata,
)

ROLE = {"plumbline/role-lease": "role=web"}
HOUR_AGO = NOW - timedelta(hours=1)
SETTLING = (Action.WAIT, Reason.ROLE_SETTLING)
HOLDS = (Action.WAIT, Reason.HOLDS_LEASE)
QUIET = (Action.NONE, Reason.NO_CHANGE)


def pod(name: str = "web-0", requests: str = "100m/100Mi", **more: object) -> Json:
    """Return a running pod without any role label."""
    return running(container("app", requests), name=name, **more)  # type: ignore[arg-type]


def vpas(mode: str = "InPlaceOrRecreate", leader: str = "900m/900Mi") -> list[Json]:
    """Return the VPAs: leaders need much, followers little."""
    sizes = {"leader": leader, "follower": "100m/100Mi"}
    return [
        make.vpa_json(
            role,
            mode=mode,
            selector={"matchLabels": {"role": role}},
            annotations=ROLE,
            recommendations=[recommended(f"{size} = =")],
        )
        for role, size in sizes.items()
    ]


def leased(
    holder: str = "web-0",
    since: datetime | None = HOUR_AGO,
    state: LeaseState = LeaseState.HELD,
    *,
    is_unstable: bool = False,
    seen: datetime | None = None,
) -> Replacement:
    """Return the change of the Lease."""
    found = LeaseStanding(state, holder, since, is_unstable, seen_since=seen)
    return Replacement(Collection.LEASES, "default", "web", found)


def world(
    *pods: Json, lease: Replacement | None = None, mode: str = "InPlaceOrRecreate", **more: str
) -> Snapshot:
    """Return a snapshot of some pods, and of the Lease, which web-0 holds for an hour."""
    owner = make.workload_json(replicas=len(pods))
    found = make.snapshot(*pods, *vpas(mode, **more), owner)
    return found.changed([lease or leased()])


def scene(
    *pods: Json,
    lease: Replacement | None = None,
    mode: str = "InPlaceOrRecreate",
    rules: UpdateRules = UNPROVEN,
    memory: Memory | None = None,
) -> Scene:
    """Return the same as a scene."""
    whole = world(*pods, lease=lease, mode=mode)
    return Scene(pods, whole=whole, rules=rules, memory=memory or Memory())


REFUSED = {("app", "cpu"): make.quantity("900m")}
NO_ROOM = PodMemory("default", "web-0", infeasible=Infeasible(REFUSED, frozenset(), NOW, None))
FULL = Memory(pods={"uid-web-0": NO_ROOM})
FOLLOWERS = (pod("web-1"), pod("web-2"))
BIG = (pod("web-1", "900m/900Mi"), pod("web-2", "900m/900Mi"))


# --- nobody knows who leads

ALL_OTHERS: Json = {
    "matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["leader"]}]
}
NO_LEADER: Json = {"matchExpressions": [{"key": "role", "operator": "DoesNotExist"}]}


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
@pytest.mark.parametrize("selector", [ALL_OTHERS, NO_LEADER])
@cases(
    "lease annotation told",
    {
        "missing": (leased("", None, LeaseState.MISSING), "role=web", "Lease default/web does"),
        "no right": (leased("", None, LeaseState.FORBIDDEN), "role=web", "Lease default/web may"),
        "a stranger's": (
            leased("stranger_1"),
            "role=web",
            "Lease default/web is held by stranger_1",
        ),
        "not read yet": (None, "role=web", "Lease default/web is not read yet"),
        "an annotation that cannot be read": (
            leased(),
            "role",
            "annotation plumbline/role-lease: ",
        ),
        "two annotations that contradict each other": (
            leased(),
            "role=other",
            "VPAs of StatefulSet/web name different Leases",
        ),
    },
)
def test_a_pod_whose_role_is_unknown_is_nobodys(
    mode: str, selector: Json, lease: Replacement | None, annotation: str, told: str
) -> None:
    """No VPA takes it by not being the leader, so a leader is not made small."""
    leader, follower = vpas(mode)
    leader["metadata"]["annotations"] = {"plumbline/role-lease": annotation}
    follower["spec"]["selector"] = selector
    del follower["metadata"]["annotations"]
    third = {**leader, "metadata": {**leader["metadata"], "name": "z", "annotations": ROLE}}
    both = (leader, third) if annotation == "role=other" else (leader,)
    pods = (pod(requests="900m/900Mi"), *FOLLOWERS)
    whole = make.snapshot(*pods, *both, follower, make.workload_json(replicas=3))
    whole = whole if lease is None else whole.changed([lease])
    found = Scene(pods, whole=whole, rules=UNPROVEN).decisions()["web-0"]
    assert (found.vpa, found.action) == ("", Action.NONE)
    assert found.reason == Reason.ROLE_UNKNOWN
    assert found.message.startswith("it is not known which pod leads: ")
    assert told in found.message


def test_a_pod_with_a_role_label_needs_no_lease() -> None:
    """Where pods say themselves what they are it does not matter what a Lease says."""
    leader, follower = vpas()
    follower["spec"]["selector"] = ALL_OTHERS
    labels = {**make.LABELS, "role": "follower"}
    pods = [pod(f"web-{number}", "900m/900Mi", labels=labels) for number in range(3)]
    whole = make.snapshot(*pods, leader, follower, make.workload_json(replicas=3))
    found = Scene(pods, whole=whole, rules=UNPROVEN).decisions()["web-0"]
    assert (found.vpa, found.action) == ("follower", Action.RESIZE)


# --- promotion


@pytest.mark.parametrize("mode", ["Recreate", "UpscaleOnly", "InPlaceOrRecreate"])
def test_the_holder_is_resized_in_every_mode(mode: str) -> None:
    """A pod that acquired the Lease gets a leader's size in place, and it is said why it leads."""
    found = scene(pod(), *FOLLOWERS, mode=mode).decision()
    assert (found.action, found.reason) == RESIZED
    assert found.vpa == "leader"
    told = "leader, because Lease default/web is held by web-0 since 2026-01-05 09:00"
    assert decision_json(found)["role"] == told
    assert found.message.endswith("make another pod lead") == (mode != "InPlaceOrRecreate")


def test_followers_stay_as_they_were_created() -> None:
    """A follower is what its replacement would be, so it is evicted where its mode says so."""
    small = running(container("app", "10m/10Mi"), name="web-1")
    found = scene(pod(requests="900m/900Mi"), small, pod("web-2"), mode="Recreate").decisions()
    assert (found["web-1"].action, found["web-1"].reason) == EVICTED
    assert (found["web-0"].action, found["web-0"].reason) == QUIET


def test_the_holder_waits_for_no_slot() -> None:
    """Another pod may be down, as the former leader is when it crashed."""
    down = running(container("app", "10m/10Mi"), name="web-1", ready=False)
    small = running(container("app", "10m/10Mi"), name="web-2")
    found = scene(pod(), down, small).decisions()
    assert (found["web-0"].action, found["web-0"].reason) == RESIZED
    assert (found["web-2"].action, found["web-2"].reason) == NO_SLOT


def test_promotions_of_a_plan() -> None:
    """Only resizes of leaders are done apart from rounds, and none of them evicts instead."""
    small = running(container("app", "10m/10Mi"), name="web-1")
    plans = plan(world(pod(), small, pod("web-2")), UNPROVEN, ALL_GATES, Memory(), NOW)
    (queue,) = plans.queues
    assert {step.pod.name for step in queue.steps} == {"web-0", "web-1"}
    assert any(step.decision.may_evict_instead for step in queue.steps)
    (alone,) = promotions(plans.queues)
    assert [step.pod.name for step in alone.steps] == ["web-0"]
    assert not alone.steps[0].decision.may_evict_instead


def test_a_change_of_hands_is_assessed_again() -> None:
    """What was decided about a pod does not stand when only its role has changed."""
    before = world(pod(requests="900m/900Mi"), *FOLLOWERS)
    first = plan(before, UNPROVEN, ALL_GATES, Memory(), NOW)
    assert {one.reason for one in first.decisions} == {Reason.NO_CHANGE}
    after = before.changed([leased("web-1", NOW)])
    again = plan(after, UNPROVEN, ALL_GATES, Memory(), NOW, PlanOptions(before=first))
    assert [(one.vpa, one.reason) for one in again.decisions] == [
        ("follower", Reason.ROLE_SETTLING),
        ("leader", Reason.OUTSIDE_BOUNDS),
        ("follower", Reason.NO_CHANGE),
    ]


def test_who_begins_to_lead_under_the_same_vpa_is_assessed_again() -> None:
    """While all pods are sized as leaders the one that leads is known by its role alone."""
    pods = (pod(requests="900m/900Mi"), *BIG)
    before = world(*pods, lease=leased(is_unstable=True))
    first = plan(before, UNPROVEN, ALL_GATES, Memory(), NOW)
    after = before.changed([leased("web-1", NOW, is_unstable=True)])
    again = plan(after, UNPROVEN, ALL_GATES, Memory(), NOW, PlanOptions(before=first))
    assert {one.reason for one in again.decisions} == {Reason.NO_CHANGE}
    assert [one.role for one in again.decisions if "is held by" in one.role] == [
        "leader, because Lease default/web is held by web-1 since 2026-01-05 10:00"
    ]
    assert [one.pod for one in again.decisions if "is held by" in one.role] == ["web-1"]


def within_bounds(
    target: str = "400m/100Mi", since: datetime = NOW - MINUTE, memory: Memory | None = None
) -> Scene:
    """Return a scene in which the holder has a follower's size, which is within its bounds."""
    pods = (pod(age=timedelta(hours=1)), *FOLLOWERS)
    leader, follower = vpas("Recreate")
    leader["status"]["recommendation"]["containerRecommendations"] = [
        recommended(f"{target} 50m/50Mi 99/800Mi")
    ]
    whole = make.snapshot(*pods, leader, follower, make.workload_json(replicas=len(pods)))
    whole = whole.changed([leased(since=since, seen=NOW)])
    return Scene(pods, whole=whole, rules=UNPROVEN, memory=memory or Memory())


def test_a_promotion_within_bounds() -> None:
    """A pod that leads now does not wait until it is old enough, and is not evicted for it."""
    found = within_bounds().decision()
    assert (found.action, found.reason) == (Action.RESIZE, Reason.PROMOTED)
    assert found.message.startswith("within bounds, but it leads now: cpu 100m -> 400m (+300%)")
    assert not found.may_evict_instead


@cases(
    "scene",
    {
        "sized since it leads": (within_bounds(since=NOW - timedelta(days=1)),),
        "leaders need less": (within_bounds("50m/100Mi"),),
        "hardly more": (within_bounds("105m/100Mi"),),
        "its node had no room": (within_bounds("900m/100Mi", memory=FULL),),
    },
)
def test_no_promotion_within_bounds(scene: Scene) -> None:
    """Only what leads since it was sized, and needs more than it has, is resized at once."""
    assert scene.told()[0] is Action.NONE
    assert scene.told()[1] in (Reason.TOO_YOUNG, Reason.TOO_SMALL)


# --- demotion


@cases(
    "since expected",
    {
        "just now": (NOW, SETTLING),
        "nine minutes ago": (NOW - 9 * MINUTE, SETTLING),
        "ten minutes ago": (NOW - 10 * MINUTE, RESIZED),
        "nobody knows": (None, SETTLING),
    },
)
def test_a_former_leader_settles(since: datetime | None, expected: tuple[Action, Reason]) -> None:
    """It is made smaller when it has followed for ten minutes."""
    found = scene(BIG[0], pod(requests="900m/900Mi"), lease=leased(since=since)).decision()
    assert (found.action, found.reason) == expected
    if expected == SETTLING:
        until = (since or NOW) + 10 * MINUTE
        assert found.message.endswith(f"made smaller from {until:%H:%M:%S} on")
        assert found.until == until


@cases(
    "seen expected",
    {
        "seen first a minute ago": (NOW - MINUTE, SETTLING),
        "seen for ten minutes": (NOW - 10 * MINUTE, RESIZED),
    },
)
def test_clocks_of_holders_are_not_believed(
    seen: datetime, expected: tuple[Action, Reason]
) -> None:
    """What a Lease says of an hour ago may have been a minute ago, by a clock that is behind."""
    held = LeaseStanding(LeaseState.HELD, "web-0", HOUR_AGO, seen_since=seen)
    lease = Replacement(Collection.LEASES, "default", "web", held)
    found = scene(BIG[0], pod(requests="900m/900Mi"), lease=lease).decision()
    assert (found.action, found.reason) == expected
    assert found.role.endswith("since 2026-01-05 09:00")


def followed(*roles: PodRole) -> datetime | None:
    """Return until when a pod with some roles settles."""
    found = replace(make.pod(), roles=roles)
    targets = OwnerTargets(make.vpa(), None, NO_LIMITS, UNPROVEN)
    inputs = PlanInputs(UNPROVEN, ALL_GATES, Memory(), NOW)
    return PodContext(found, make.vpa(), targets, inputs, PodMemory("", "")).settles_until


def following(minutes: float, *, leads: bool = False) -> PodRole:
    """Return a role by a Lease that changed hands some minutes ago."""
    asked = RoleLease("role", "web")
    return PodRole(asked, "follower", leads, "", NOW - minutes * MINUTE)


@cases(
    "roles minutes",
    {
        "two Leases: the later one counts": ((following(9), following(2)), 8),
        "in the other order": ((following(2), following(9)), 8),
        "it leads by the later one": ((following(9), following(2, leads=True)), 1),
        "it leads by all": ((following(2, leads=True),), None),
        "none": ((), None),
    },
)
def test_pods_settle_by_their_last_change(
    roles: tuple[PodRole, ...], minutes: float | None
) -> None:
    """Every Lease by which a pod follows keeps its size; none by which it leads does."""
    assert followed(*roles) == (None if minutes is None else NOW + minutes * MINUTE)


def test_other_times_to_settle() -> None:
    """The time is a rule."""
    rules = replace(UNPROVEN, role_settles=timedelta())
    assert scene(BIG[0], pod(), lease=leased(since=NOW), rules=rules).told() == RESIZED


def test_growth_waits_for_nothing() -> None:
    """A follower that lacks memory gets it at once, and keeps the CPU of a leader for a while."""
    mixed = pod("web-1", "900m/10Mi")
    (_, found) = sorted(
        scene(mixed, pod(requests="900m/900Mi"), lease=leased(since=NOW)).plan().decisions,
        key=lambda one: one.vpa == "follower",
    )
    assert (found.action, found.reason) == RESIZED
    assert found.change is not None
    (change,) = found.change.containers
    assert {name: str(amount) for name, amount in change.requests.items()} == {"memory": "100Mi"}


def test_all_are_leaders_while_it_is_unstable() -> None:
    """Of a Lease that changes hands too often every pod gets a leader's size."""
    found = scene(pod(), *FOLLOWERS, lease=leased(is_unstable=True)).decisions()
    assert {one.vpa for one in found.values()} == {"leader"}


@cases(
    "pods expected",
    {
        "a follower shrinks": ([BIG[0], pod(requests="900m/900Mi")], True),
        "a follower grows": ([pod("web-1", "10m/10Mi"), pod(requests="900m/900Mi")], False),
        "a leader shrinks": ([pod(requests="2/2Gi"), pod("web-1")], False),
    },
)
def test_what_makes_smaller(pods: Sequence[Json], expected: bool) -> None:
    """Only where a pod that follows gets less its usage is asked for."""
    (queue,) = scene(*pods).plan().queues
    assert lowers(queue.steps[0]) is expected


def test_pods_without_a_role_are_made_smaller_as_ever() -> None:
    """Usage is asked for only where a Lease gives roles."""
    plain = Scene([pod(requests="900m/900Mi")], mode="InPlaceOrRecreate")
    (queue,) = plain.plan().queues
    assert not lowers(queue.steps[0])
    evicting = Scene([pod(requests="900m/900Mi"), pod("web-1")])
    assert not any(lowers(step) for queue in evicting.plan().queues for step in queue.steps)


def usage(**amounts: str) -> Json:
    """Return the metrics of a pod."""
    return {"containers": [{"name": "app", "usage": amounts}, {"name": "proxy", "usage": {}}]}


@cases(
    "metrics told",
    {
        "less": (usage(cpu="90m", memory="90Mi"), None),
        "as much": (usage(cpu="100m", memory="100Mi"), None),
        "more memory": (
            usage(cpu="90m", memory="800Mi"),
            "it follows, and still uses 800Mi memory, more than 100Mi",
        ),
        "nothing measured": ({}, None),
        "another container": ({"containers": [{"name": "x", "usage": {"cpu": "9"}}]}, None),
    },
)
def test_usage_speaks_against_it(metrics: Json, told: str | None) -> None:
    """A former leader keeps what it still uses."""
    (queue,) = scene(BIG[0], pod(requests="900m/900Mi")).plan().queues
    why = used_beyond(queue.steps[0], metrics)
    assert why == ((Reason.ROLE_SETTLING, told) if told else None)


def test_metrics_that_cannot_be_read() -> None:
    """Garbage is an error that names its place."""
    (queue,) = scene(BIG[0], pod(requests="900m/900Mi")).plan().queues
    with pytest.raises(BadObject):
        used_beyond(queue.steps[0], {"containers": [{"name": "app", "usage": {"cpu": []}}]})


# --- evictions


@cases(
    "others expected",
    {
        "alone": ([], HOLDS),
        "another one is ready": ([FOLLOWERS[0]], EVICTED),
        "another one is not ready": (
            [running(container("app", "100m/100Mi"), name="web-1", ready=False)],
            HOLDS,
        ),
        "another one is going": ([terminating(FOLLOWERS[0])], HOLDS),
    },
)
def test_the_holder_that_must_go(others: Sequence[Json], expected: tuple[Action, Reason]) -> None:
    """Where its node has no room the leader goes, if another pod can take over."""
    rules = replace(UNPROVEN, min_replicas=1)
    memory = Memory(pods={"uid-web-0": NO_ROOM})
    found = scene(pod(), *others, memory=memory, rules=rules).decision()
    assert (found.action, found.reason) == expected


def test_the_holder_goes_last() -> None:
    """While another pod of the workload can go the leader stays."""
    small = running(container("app", "10m/10Mi"), name="web-1")
    memory = Memory(pods={"uid-web-0": NO_ROOM})
    found = scene(pod(), small, pod("web-2"), memory=memory, mode="Recreate").decisions()
    assert (found["web-1"].action, found["web-1"].reason) == EVICTED
    assert (found["web-0"].action, found["web-0"].reason) == HOLDS
    assert found["web-0"].message == "it leads, and goes last: web-1 goes first"


def test_budgets_see_the_labels_of_the_cluster() -> None:
    """A PodDisruptionBudget knows no label that a Lease gives."""
    small = running(container("app", "10m/10Mi"), name="web-1")
    budget = make.budget_json(labels={"role": "follower"}, allowed=0)
    whole = world(pod(requests="900m/900Mi"), small, pod("web-2"), mode="Recreate")
    whole = whole.changed([make.change(budget)])
    found = Scene([pod(), small, pod("web-2")], whole=whole, rules=UNPROVEN).decisions()
    assert (found["web-1"].action, found["web-1"].reason) == EVICTED


def test_a_pod_created_as_a_leader_is_replaced_by_a_follower() -> None:
    """What the webhook wrote into a pod that was created while it was unstable says nothing."""
    marks = {"vpaUpdates": updates_annotation("leader", ["container 0: cpu request"])}
    old = with_metadata(pod(), annotations=marks)
    found = scene(old, *FOLLOWERS, mode="Recreate").decision()
    assert (found.action, found.reason) == RESIZED


# --- what VPAs are told


@cases(
    "lease told",
    {
        "a pod leads": (
            leased("web-1_4f"),
            "Now pod web-1 leads, because Lease default/web is held by web-1_4f",
        ),
        "none does": (
            leased("", None, LeaseState.VACANT),
            "Now no pod leads, because Lease default/web is not held",
        ),
        "no pod of ours": (
            leased("else"),
            "Now no pod leads, because Lease default/web is held by else",
        ),
    },
)
def test_role_events(lease: Replacement, told: str) -> None:
    """Each VPA that names the Lease is told who leads now."""
    other = make.change(make.vpa_json("other", target="StatefulSet/api"))
    view = world(pod(), *FOLLOWERS, lease=lease).changed([other]).of("default")
    found = list(role_events(view, "default", "web"))
    assert [(one.name, one.reason, one.message) for one in found] == [
        ("follower", "RoleChanged", told),
        ("leader", "RoleChanged", told),
    ]
    assert list(role_events(view, "default", "other")) == []


@cases(
    "labels roles keeps",
    {
        "the same": ({"role": "leader"}, (following(9),), True),
        "since another time": ({"role": "leader"}, (following(1),), True),
        "another label": ({"role": "follower"}, (following(9),), False),
        "it leads now, by the same label": (
            {"role": "leader"},
            (following(1, leads=True),),
            False,
        ),
    },
)
def test_a_plan_is_for_a_role(
    labels: dict[str, str], roles: tuple[PodRole, ...], keeps: object
) -> None:
    """What was planned for a follower is not done to a pod that leads meanwhile."""
    was = replace(make.pod(), labels={"role": "leader"}, roles=(following(9),))
    assert keeps_role(was, replace(was, labels=labels, roles=roles)) == keeps
