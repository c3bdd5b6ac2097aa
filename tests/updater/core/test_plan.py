"""The plan as a whole: what holds for whatever the cluster looks like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from random import Random
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.model.fields import Json
from app.model.kinds import Condition
from app.model.snapshot import Snapshot
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.memory import Memory, PodMemory
from app.updater.core.plan import Plan, PlanOptions, Unplannable, VpaCounts, plan
from app.updater.core.proof import Breaker, Breakers
from app.updater.core.rules import UpdateRules
from tests import make
from tests.cases import cases
from tests.make import ALL_GATES
from tests.updater.core.boosts import boost, boosted
from tests.updater.core.owners import (
    FAR,
    KEY,
    NEAR,
    OLD,
    POD,
    ROLLOUT,
    SET,
    TO_ROLLOUT,
    group,
    owners,
    planned,
    rollout,
    vpa,
)
from tests.updater.core.resizes import asking
from tests.updater.core.scenes import (
    MINUTE,
    NOW,
    OURS,
    UNPROVEN,
    Scene,
    container,
    killed,
    named,
    pending,
    read,
    recommended,
    resize_condition,
    running,
    several,
    terminating,
    unscheduled,
    with_metadata,
)

# --- any cluster


def variants() -> list[Json]:
    """Return pods in every state that matters."""
    small, right = container("app", "100m/100Mi"), container("app", "200m/200Mi")
    plain = running(small)
    return [
        plain,
        running(right),
        running(container("app", "150m/150Mi"), age=timedelta(hours=1)),
        running(small, ready=False),
        running(container("app")),
        running(small, owner=None),
        running(small, owner="ReplicaSet/unknown"),
        terminating(plain),
        pending(plain),
        unscheduled(plain),
        unscheduled(running(container("app", "9/9Gi"))),
        killed(running(small)),
        asking(),
        asking(resize_condition("Pending", "Deferred", ago=3600 * 3)),
        asking(resize_condition("Pending", "Infeasible")),
        asking(resize_condition("InProgress", "Error")),
        boosted(),
        boosted(since=None),
        boosted(marks={"app": "garbage"}),
        boosted(container("app", "200m/100Mi"), more={"vpaCpuUnboostPending/app": "garbage"}),
    ]


STATES = variants()
MODES = ["Recreate", "InPlaceOrRecreate", "InPlace", "UpscaleOnly", "Off", "Initial", "Odd", None]
RULES = [OURS, UNPROVEN, replace(OURS, skip_disruption_budget=True, min_replicas=1)]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Json], UpdateRules]:
    """Return the objects of a cluster, and rules."""
    chosen = draw(st.lists(st.integers(0, len(STATES) - 1), max_size=9))
    pods = [named(STATES[state], f"web-{number}") for number, state in enumerate(chosen)]
    vpa = make.vpa_json(
        mode=draw(st.sampled_from(MODES)),
        boost=draw(st.sampled_from([None, boost(), boost(600)])),
        recommendations=draw(st.sampled_from([None, [], [recommended("200m/200Mi = =")]])),
    )
    owner = make.workload_json(replicas=draw(st.sampled_from([None, 0, 1, 3, 9])))
    budget = make.budget_json(allowed=draw(st.integers(0, 3)), observed=draw(st.integers(0, 1)))
    others = draw(st.lists(st.sampled_from([owner, vpa, budget]), unique_by=id))
    return [*pods, *others], draw(st.sampled_from(RULES))


@given(clusters())
@settings(max_examples=150)
def test_every_controlled_pod_gets_one_decision(found: tuple[list[Json], UpdateRules]) -> None:
    """Whatever state it is in; those that are not controlled get none."""
    items, rules = found
    kinds = Counter(item["kind"] for item in items)
    planned = plan(make.snapshot(*items), rules, ALL_GATES, Memory(), NOW)
    decided = [decision.pod for decision in planned.decisions]
    is_controlled = kinds["StatefulSet"] and kinds["VerticalPodAutoscaler"]
    owned = [
        item["metadata"]["name"]
        for item in items
        if item["kind"] == "Pod"
        and [owner["name"] for owner in item["metadata"].get("ownerReferences", ())] == ["web"]
    ]
    assert decided == (sorted(owned) if is_controlled else [])
    for decision in planned.decisions:
        is_resize = decision.action in (Action.RESIZE, Action.UNBOOST)
        assert (decision.change is not None) is is_resize
        assert decision.message


@given(clusters(), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_the_order_of_objects_does_not_matter(
    found: tuple[list[Json], UpdateRules], random: Random
) -> None:
    """The same cluster gives the same plan, however it was listed."""
    items, rules = found
    shuffled = list(items)
    random.shuffle(shuffled)
    plans = [
        plan(make.snapshot(*order), rules, ALL_GATES, Memory(), NOW) for order in (items, shuffled)
    ]
    assert plans[0].decisions == plans[1].decisions
    assert plans[0].queues == plans[1].queues
    assert plans[0].memory == plans[1].memory


@given(clusters(), st.lists(st.integers(0, len(STATES) - 1), max_size=4), st.integers(-800, 800))
@settings(max_examples=150)
def test_what_is_taken_over_is_what_would_be_decided(
    found: tuple[list[Json], UpdateRules], changes: Sequence[int], minutes: int
) -> None:
    """A plan that starts from the one before is the plan that starts from nothing."""
    items, rules = found
    before = plan(make.snapshot(*items), rules, ALL_GATES, Memory(), NOW)
    snapshot: Snapshot = make.snapshot(*items)
    for position, state in enumerate(changes):
        pod = named(STATES[state], f"web-{position}")
        pod["metadata"]["resourceVersion"] = "2"
        snapshot = snapshot.changed([make.change(pod)])
    now = NOW + timedelta(minutes=minutes)
    fresh = plan(snapshot, rules, ALL_GATES, before.memory, now)
    again = plan(snapshot, rules, ALL_GATES, before.memory, now, PlanOptions(before=before))
    assert again.decisions == fresh.decisions
    assert again.memory == fresh.memory
    assert again.totals == fresh.totals


# --- parts of a plan


def test_some_pods_alone() -> None:
    """Only those are decided about; the others still count for their owner."""
    pods = several(boosted(), 3)
    found = Scene(pods, mode="Off", vpa={"boost": boost()})
    only = frozenset({("default", "web-1"), ("other", "web-9"), ("default", "web-9")})
    part = found.plan(PlanOptions(only=only))
    assert [(item.pod, item.action) for item in part.decisions] == [("web-1", Action.UNBOOST)]
    assert part.is_partial
    whole = found.plan(PlanOptions(before=part))
    assert len(whole.decisions) == 3


def test_namespaces_come_in_order() -> None:
    """By name, and pods by name within."""
    items: list[Json] = []
    for namespace in ("b", "a"):
        items.append(make.workload_json(namespace=namespace))
        items.append(make.vpa_json(namespace=namespace, mode="Off"))
        for name in ("web-2", "web-10"):
            pod = running(name=name)
            pod["metadata"]["namespace"] = namespace
            items.append(pod)
    found = plan(make.snapshot(*items), OURS, ALL_GATES, Memory(), NOW)
    assert [(item.namespace, item.pod) for item in found.decisions] == [
        ("a", "web-10"),
        ("a", "web-2"),
        ("b", "web-10"),
        ("b", "web-2"),
    ]


def test_when_few_evictions_are_left_each_namespace_is_the_first_at_times() -> None:
    """One in which all are refused takes them not from the others for ever."""
    names = [f"team-{letter}" for letter in "abcdefghij"]
    items: list[Json] = []
    for namespace in names:
        items.append(make.workload_json(namespace=namespace, replicas=2))
        advice = [recommended("200m/200Mi = =")]
        items.append(make.vpa_json(namespace=namespace, mode="Recreate", recommendations=advice))
        for pod in several(running(container("app", "100m/100Mi")), 2):
            pod["metadata"] |= {"namespace": namespace, "uid": f"{namespace}-{len(items)}"}
            items.append(pod)
    snapshot = make.snapshot(*items)
    opened = Memory(breakers=Breakers(Breaker(is_open=True)))
    gone: list[str] = []
    for minute in range(30):
        now = NOW + minute * MINUTE
        found = plan(snapshot, OURS, ALL_GATES, opened, now).decisions
        assert [item.namespace for item in found] == sorted(names * 2)
        gone += [item.namespace for item in found if item.action is Action.EVICT]
    assert (len(gone), sorted(set(gone))) == (30, names)


def test_the_most_urgent_queues_come_first() -> None:
    """Whatever their owners are called."""
    sizes = {"a": "190m/200Mi", "b": "20m/200Mi", "c": "100m/200Mi"}
    groups = [group(name, *[running(container("app", sizes[name]))] * 2) for name in sizes]
    found = planned(*chain.from_iterable(groups))
    assert [queue.owner.name for queue in found.queues] == ["b", "c", "a"]


def test_a_namespace_that_spoils_the_plan_is_named() -> None:
    """So that it can be left out."""
    pods = several(running(container("app", "1/1Gi")), 2)
    items = [*pods, make.workload_json(replicas=2), make.vpa_json(cpu="2")]
    impossible = replace(read(named(pods[0], "web-9")), conditions=cast("tuple[Condition]", None))
    snapshot = make.snapshot(*items, impossible)
    with pytest.raises(Unplannable) as caught:
        plan(snapshot, OURS, ALL_GATES, Memory(), NOW)
    assert caught.value.namespace == "default"
    around = PlanOptions(without=frozenset({"default"}))
    assert plan(snapshot, OURS, ALL_GATES, Memory(), NOW, around).decisions == ()


def test_namespaces_that_are_not_covered() -> None:
    """By flag."""
    ignoring = replace(UNPROVEN, ignored_namespaces=frozenset({"default"}))
    assert owners(SET, OLD, POD, rules=ignoring) == {}


def test_totals() -> None:
    """Pods per VPA, and how many could be updated if each were the only one."""
    pods = several(POD, 4)
    items = [make.workload_json(replicas=4), vpa(), *pods]
    assert planned(*items).totals == (VpaCounts("default", "web", "Recreate", 4, 4, 0),)
    in_place = make.vpa_json(mode="InPlaceOrRecreate", recommendations=FAR)
    assert planned(items[0], in_place, *pods).totals == (
        VpaCounts("default", "web", "InPlaceOrRecreate", 4, 0, 4),
    )
    missing = [make.workload_json(replicas=10), vpa(), *pods]
    assert planned(*missing).totals == (VpaCounts("default", "web", "Recreate", 4, 0, 0),)
    assert planned(*items, terminating(named(POD, "gone"))).totals[0].pods == 4


# --- what is kept


QUIET = [make.workload_json(replicas=3), make.vpa_json(mode="Recreate", recommendations=NEAR)]


def again(
    before: Plan, snapshot: Snapshot, *, minutes: float = 1, rules: UpdateRules = UNPROVEN
) -> Plan:
    """Return the next plan, which may take over from the one before."""
    now = NOW + minutes * MINUTE
    found = plan(snapshot, rules, ALL_GATES, before.memory, now, PlanOptions(before=before))
    alone = plan(snapshot, rules, ALL_GATES, before.memory, now)
    assert found.decisions == alone.decisions
    assert found.totals == alone.totals
    assert found.memory == alone.memory
    return found


def kept(before: Plan, after: Plan) -> list[bool]:
    """Tell of each decision whether it is the very same as before."""
    old: dict[str, Decision] = {found.uid: found for found in before.decisions}
    return [old.get(found.uid) is found for found in after.decisions]


def test_a_quiet_namespace_is_taken_over_whole() -> None:
    """Nothing is computed where nothing changed."""
    snapshot = make.snapshot(*QUIET, *several(POD, 3))
    before = planned(*QUIET, *several(POD, 3))
    first = plan(snapshot, UNPROVEN, ALL_GATES, Memory(), NOW)
    second = again(first, snapshot)
    assert second.namespaces["default"] is first.namespaces["default"]
    assert before.decisions == first.decisions
    other = again(first, snapshot, rules=replace(UNPROVEN, min_replicas=1))
    assert other.namespaces["default"] is not first.namespaces["default"]


def test_a_quiet_namespace_with_pods_that_no_selector_matches_is_taken_over() -> None:
    """What is decided about them holds until something changes, too."""
    selector = {"matchLabels": {"role": "leader"}}
    vpa = make.vpa_json(mode="Recreate", selector=selector, recommendations=NEAR)
    leader = with_metadata(POD, labels=make.LABELS | {"role": "leader"})
    snapshot = make.snapshot(make.workload_json(replicas=3), vpa, leader, *several(POD, 3)[1:])
    first = plan(snapshot, UNPROVEN, ALL_GATES, Memory(), NOW)
    assert [found.reason for found in first.decisions] == [
        Reason.NO_CHANGE,
        Reason.NO_SELECTOR_MATCH,
        Reason.NO_SELECTOR_MATCH,
    ]
    assert again(first, snapshot).namespaces["default"] is first.namespaces["default"]


@cases(
    "lease labels reason told",
    {
        "no Lease is read": (
            [],
            {},
            Reason.ROLE_UNKNOWN,
            "it is not known which pod leads: Lease default/web is not read yet",
        ),
        "nobody that is known holds it": (
            [make.lease_json("api-1_4f5c")],
            {},
            Reason.ROLE_UNKNOWN,
            "it is not known which pod leads: Lease default/web is held by api-1_4f5c, which names "
            "no pod of the workload",
        ),
        "a real label of neither": (
            [],
            {"role": "witness"},
            Reason.NO_SELECTOR_MATCH,
            "no selector matches the pod's labels: VPA web",
        ),
    },
)
def test_pods_whose_role_is_not_known(
    lease: list[Json], labels: dict[str, str], reason: Reason, told: str
) -> None:
    """No VPA takes them, and the reason is what is wrong with the Lease, not with the labels."""
    found = by_lease(*lease, labels=labels)
    assert [one.reason for one in found] == [reason] * 3
    assert {one.message for one in found} == {told}


def test_a_follower_that_no_vpa_takes() -> None:
    """It is told that it follows, and why."""
    leader, *followers = by_lease(make.lease_json("web-0_4f5c"))
    assert (leader.vpa, [one.vpa for one in followers]) == ("web", ["", ""])
    why = "follower, because Lease default/web is held by web-0_4f5c since 2026-01-05 09:00"
    assert {one.role for one in followers} == {why}


def by_lease(*others: Json, labels: Mapping[str, str] | None = None) -> Sequence[Decision]:
    """Return what is decided about pods of a VPA that is for the leader alone."""
    vpa = make.vpa_json(
        mode="Recreate",
        annotations={"plumbline/role-lease": "role=web"},
        selector={"matchLabels": {"role": "leader"}},
        recommendations=NEAR,
    )
    pods = several(with_metadata(POD, labels={**make.LABELS, **(labels or {})}), 3)
    return planned(make.workload_json(replicas=3), vpa, *pods, *others).decisions


def test_what_did_not_change_is_kept() -> None:
    """Of a namespace that changed: pods by resourceVersion, unless what they depend on changed."""
    pods = several(POD, 3)
    snapshot = make.snapshot(*QUIET, *pods)
    first = plan(snapshot, UNPROVEN, ALL_GATES, Memory(), NOW)
    read_again = snapshot.changed([make.change(pods[0])])
    assert kept(first, again(first, read_again)) == [True, True, True]
    newer = with_metadata(pods[0], resourceVersion="2")
    changed = snapshot.changed([make.change(newer)])
    assert kept(first, again(first, changed)) == [False, True, True]
    for item in (QUIET[0], QUIET[1], make.limit_range_json(default=make.amounts("1"))):
        changed = snapshot.changed([make.change(item)])
        assert kept(first, again(first, changed)) == [False, False, False]
    nameless = with_metadata(pods[0], resourceVersion="")
    bare = make.snapshot(*QUIET, nameless)
    unversioned = plan(bare, UNPROVEN, ALL_GATES, Memory(), NOW)
    assert kept(unversioned, again(unversioned, make.snapshot(*QUIET, nameless))) == [False]


def test_what_depends_on_time_is_kept_until_then() -> None:
    """A pod that is too young today is old enough tomorrow."""
    young = [
        make.workload_json(replicas=2),
        make.vpa_json(mode="Recreate", recommendations=[recommended("150m/150Mi 1m/1Mi 1/1Gi")]),
        *several(running(container("app", "100m/100Mi"), age=timedelta(hours=11)), 2),
    ]
    snapshot = make.snapshot(*young)
    first = plan(snapshot, UNPROVEN, ALL_GATES, Memory(), NOW)
    assert {found.reason for found in first.decisions} == {Reason.TOO_YOUNG}
    assert again(first, snapshot, minutes=59).namespaces == first.namespaces
    later = again(first, snapshot, minutes=60)
    assert Reason.OUTDATED in {found.reason for found in later.decisions}
    touched = snapshot.changed([make.change(make.budget_json())])
    assert kept(first, again(first, touched, minutes=59)) == [True, True]
    assert kept(first, again(first, touched, minutes=60)) == [False, False]


def test_what_is_remembered_is_looked_at_anew() -> None:
    """A pod of which something is remembered is never taken over."""
    snapshot = make.snapshot(*QUIET, *several(POD, 3))
    first = plan(snapshot, UNPROVEN, ALL_GATES, Memory(), NOW)
    evicted = Memory(pods={"uid-web-0": PodMemory("default", "web-0", evicted=NOW)})
    second = again(replace(first, memory=evicted), snapshot)
    assert kept(first, second) == [False, True, True]
    assert second.decisions[0].reason is Reason.POD_TERMINATING
    third = again(second, snapshot, minutes=3)
    assert third.decisions[0].reason is Reason.NO_CHANGE


def test_an_answered_lookup_is_heard() -> None:
    """What was looked up meanwhile changes a namespace that did not."""
    pods = several(ROLLOUT, 5)
    snapshot = make.snapshot(*pods, TO_ROLLOUT)
    first = plan(snapshot, UNPROVEN, ALL_GATES, Memory(), NOW)
    around = PlanOptions(before=first, looked_up={"default": {KEY: rollout()}})
    assert len(plan(snapshot, UNPROVEN, ALL_GATES, Memory(), NOW, around).decisions) == 5
