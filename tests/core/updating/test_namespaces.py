"""Pods of one namespace: whose they are, what is kept of the plan before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from app.core.updating.decisions import Action, Decision, Reason
from app.core.updating.memory import Memory, PodMemory
from app.core.updating.namespaces import Overlap, Total
from app.core.updating.plan import Around, Plan, plan
from app.core.updating.rules import UpdateRules
from app.model.gates import ALL_GATES
from app.model.kinds import ObjectKey
from app.model.lookups import Absent, LookedUp
from app.model.snapshot import Snapshot
from app.model.workloads import scaled_workload
from tests import make
from tests.core.updating.scenes import (
    NOW,
    UNPROVEN,
    UPSTREAM,
    container,
    named,
    recommended,
    running,
    several,
    with_switches,
)

Json = make.Json
POD = running(container("app", "100m/100Mi"))
FAR = [recommended("200m/200Mi = =")]
NEAR = [recommended("100m/100Mi = =")]
MINUTE = timedelta(minutes=1)


def vpa(name: str = "web", **more: object) -> Json:
    """Return a VPA that recommends more."""
    found = make.vpa_json(name, mode="Recreate", recommendations=FAR)
    for path, value in more.items():
        found = make.with_value(found, path, value)
    return found


def planned(
    *items: Json, rules: UpdateRules = UNPROVEN, looked_up: Mapping[str, LookedUp] | None = None
) -> Plan:
    """Return the plan for some objects."""
    around = Around(looked_up=looked_up or {})
    return plan(make.snapshot(*items), rules, ALL_GATES, Memory(), NOW, around)


def owners(*items: Json, rules: UpdateRules = UNPROVEN) -> dict[str, str]:
    """Return the VPA of each controlled pod."""
    return {found.pod: found.vpa for found in planned(*items, rules=rules).decisions}


SET = make.workload_json(replicas=1)
OLD = make.vpa_json("b", mode="Recreate", recommendations=FAR, created=timedelta(seconds=10))
YOUNG = make.vpa_json("a", mode="Recreate", recommendations=FAR, created=timedelta(seconds=5))


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param([SET, OLD, YOUNG, POD], {"web-0": "b"}, id="M1"),
        pytest.param([SET, make.vpa_json("b"), make.vpa_json("a"), POD], {"web-0": "a"}, id="M2"),
        pytest.param([SET, make.vpa_json(namespace="other"), POD], {}, id="M3"),
        pytest.param([SET, OLD, running(labels={"app": "other"})], {}, id="M4"),
        pytest.param([SET, OLD, running(owner="Node/node-1")], {}, id="M5"),
        pytest.param([OLD, POD], {}, id="M7"),
        pytest.param([SET, OLD, running(owner=None)], {}, id="M8"),
        pytest.param(
            [
                make.workload_json("Deployment/web"),
                make.workload_json("ReplicaSet/web", owner="Deployment/web"),
                make.vpa_json(target="v1/Deployment/web"),
                running(owner="ReplicaSet/web"),
            ],
            {"web-0": "web"},
            id="M9",
        ),
        pytest.param(
            [
                make.workload_json("Deployment/web"),
                make.workload_json("ReplicaSet/web", owner="Deployment/web"),
                make.vpa_json(target="ReplicaSet/web"),
                running(owner="ReplicaSet/web"),
            ],
            {},
            id="not the topmost",
        ),
        pytest.param([SET, make.vpa_json(target=None), POD], {}, id="no target"),
        pytest.param(
            [SET, make.vpa_json("gone", target="StatefulSet/gone"), OLD, POD],
            {"web-0": "b"},
            id="N13",
        ),
    ],
)
@pytest.mark.parametrize("rules", [UNPROVEN, UPSTREAM], ids=["ours", "upstream"])
def test_matching(items: list[Json], expected: dict[str, str], rules: UpdateRules) -> None:
    """The oldest VPA that points at the topmost controller has the pod."""
    assert owners(*items, rules=rules) == expected


def test_owners_that_do_not_control() -> None:
    """M11: a reference without `controller` is passed over; upstream dies of it."""
    pod = running()
    references = [make.owner_json("Node/x", controller=False), make.owner_json("StatefulSet/web")]
    pod["metadata"]["ownerReferences"] = references
    assert owners(SET, OLD, pod) == {"web-0": "b"}


ROLLOUT = running(container("app", "100m"), owner="example.com/v1/Rollout/web")
TO_ROLLOUT = make.vpa_json(
    target="example.com/v1/Rollout/web", mode="Recreate", recommendations=FAR
)
KEY = ObjectKey("example.com", "Rollout", "web")


def test_owners_that_have_to_be_looked_up() -> None:
    """M6: what cannot be scaled has no VPA; what is not known yet is asked for."""
    unknown = planned(ROLLOUT, TO_ROLLOUT)
    assert [(item.kind, item.name) for item in unknown.lookups] == [("Rollout", "web")]
    assert unknown.decisions == ()
    scale = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 5},
        "status": {"selector": "app=web"},
    }
    workload = scaled_workload("default", "example.com/v1", "Rollout", scale)
    pods = several(ROLLOUT, 5)
    known = planned(*pods, TO_ROLLOUT, looked_up={"default": {KEY: workload}})
    assert known.lookups == ()
    assert sum(found.action is Action.EVICT for found in known.decisions) == 2
    absent = planned(ROLLOUT, TO_ROLLOUT, looked_up={"default": {KEY: Absent()}})
    assert (absent.decisions, absent.lookups) == ((), ())


def test_the_topmost_owner_decides() -> None:
    """M10: a Deployment that something scalable owns is not for a VPA of the Deployment."""
    scale = {"metadata": {"name": "web"}, "spec": {}, "status": {"selector": "app=web"}}
    top = scaled_workload("default", "example.com/v1", "Rollout", scale)
    items = [
        make.workload_json("Deployment/web", owner="example.com/v1/Rollout/web"),
        make.workload_json("ReplicaSet/web", owner="Deployment/web"),
        running(owner="ReplicaSet/web"),
    ]
    looked_up = {"default": {KEY: top}}
    of_deployment = make.vpa_json(target="Deployment/web")
    assert planned(*items, of_deployment, looked_up=looked_up).decisions == ()
    assert len(planned(*items, TO_ROLLOUT, looked_up=looked_up).decisions) == 1


def test_one_lookup_for_many_pods() -> None:
    """Of one owner."""
    assert len(planned(*several(ROLLOUT, 5), TO_ROLLOUT).lookups) == 1


def by_role(role: str, mode: str = "Recreate") -> Json:
    """Return a VPA for the pods of a role."""
    return make.vpa_json(
        role, mode=mode, selector={"matchLabels": {"role": role}}, recommendations=FAR
    )


def of_role(name: str, role: str) -> Json:
    """Return a pod of a role."""
    return running(container("app", "100m/100Mi"), name=name, labels={"app": "web", "role": role})


def test_selectors_divide_pods_among_vpas() -> None:
    """SX-24 and SX-25: current labels decide; a pod that no selector lets in is told so."""
    pods = [of_role("web-0", "leader"), of_role("web-1", "follower"), of_role("web-2", "none")]
    items = [SET, by_role("leader"), by_role("follower"), *pods]
    assert owners(*items) == {"web-0": "leader", "web-1": "follower", "web-2": ""}
    last = planned(*items).decisions[2]
    assert (last.action, last.reason) == (Action.NONE, Reason.NO_SELECTOR_MATCH)
    promoted = [SET, by_role("leader"), by_role("follower"), of_role("web-1", "leader")]
    assert owners(*promoted) == {"web-1": "leader"}


def test_a_single_vpa_with_a_selector() -> None:
    """Pods are not taken for alike because the first one matched."""
    pods = [of_role("web-0", "leader"), of_role("web-1", "follower"), of_role("web-2", "leader")]
    assert owners(SET, by_role("leader"), *pods) == {
        "web-0": "leader",
        "web-1": "",
        "web-2": "leader",
    }


def test_idle_vpas() -> None:
    """An older VPA in mode Off does not shadow a younger one; one in mode Initial does."""
    off = make.vpa_json("off", mode="Off", recommendations=FAR)
    initial = make.vpa_json("initial", mode="Initial", recommendations=FAR)
    assert owners(SET, off, OLD, POD) == {"web-0": "b"}
    assert owners(SET, off, POD) == {"web-0": "off"}
    assert owners(SET, initial, OLD, POD) == {"web-0": "initial"}
    switched = with_switches(UNPROVEN, idle_vpas_step_aside=True)
    assert owners(SET, initial, OLD, POD, rules=switched) == {"web-0": "b"}
    boosts = make.vpa_json("off", mode="Off", boost=make.boost_json(factor=2))
    assert owners(SET, boosts, OLD, POD, rules=switched) == {"web-0": "off"}
    assert owners(SET, initial, off, POD, rules=switched) == {"web-0": "initial"}


def test_overlaps_are_told() -> None:
    """Of two active VPAs that claim the same pods, once for all of them."""
    pods = several(POD, 3)
    found = planned(SET, OLD, YOUNG, make.vpa_json("off", mode="Off"), *pods)
    assert found.overlaps == (Overlap("default", "b", "a"),)
    off = make.vpa_json("off", mode="Off"), make.vpa_json("out", mode="Off")
    assert planned(SET, *off, *pods).overlaps == ()


def test_pods_that_ended_are_nobodys() -> None:
    """A pod that succeeded is controlled no more."""
    over = POD | {"status": {"phase": "Succeeded"}}
    assert owners(SET, OLD, over) == {}


def test_namespaces_that_are_not_covered() -> None:
    """By flag."""
    ignoring = replace(UNPROVEN, ignored_namespaces=frozenset({"default"}))
    assert owners(SET, OLD, POD, rules=ignoring) == {}


def test_totals() -> None:
    """Pods per VPA, and how many could be updated if each were the only one."""
    pods = several(POD, 4)
    items = [make.workload_json(replicas=4), vpa(), *pods]
    assert planned(*items).totals == (Total("default", "web", "Recreate", 4, 4, 0),)
    in_place = make.vpa_json(mode="InPlaceOrRecreate", recommendations=FAR)
    assert planned(items[0], in_place, *pods).totals == (
        Total("default", "web", "InPlaceOrRecreate", 4, 0, 4),
    )
    missing = [make.workload_json(replicas=10), vpa(), *pods]
    assert planned(*missing).totals == (Total("default", "web", "Recreate", 4, 0, 0),)
    gone = named(POD, "gone")
    gone["metadata"]["deletionTimestamp"] = make.time(timedelta())
    assert planned(*items, gone).totals[0].pods == 4


# --- what is kept


QUIET = [make.workload_json(replicas=3), make.vpa_json(mode="Recreate", recommendations=NEAR)]


def again(
    before: Plan, snapshot: Snapshot, *, minutes: float = 1, rules: UpdateRules = UNPROVEN
) -> Plan:
    """Return the next plan, which may take over from the one before."""
    now = NOW + minutes * MINUTE
    found = plan(snapshot, rules, ALL_GATES, before.memory, now, Around(before=before))
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


def test_what_did_not_change_is_kept() -> None:
    """Of a namespace that changed: pods by resourceVersion, unless what they depend on changed."""
    pods = several(POD, 3)
    snapshot = make.snapshot(*QUIET, *pods)
    first = plan(snapshot, UNPROVEN, ALL_GATES, Memory(), NOW)
    read_again = snapshot.changed([make.change(pods[0])])
    assert kept(first, again(first, read_again)) == [True, True, True]
    newer = pods[0] | {"metadata": pods[0]["metadata"] | {"resourceVersion": "2"}}
    changed = snapshot.changed([make.change(newer)])
    assert kept(first, again(first, changed)) == [False, True, True]
    for item in (QUIET[0], QUIET[1], make.limit_range_json(default=make.amounts("1"))):
        changed = snapshot.changed([make.change(item)])
        assert kept(first, again(first, changed)) == [False, False, False]
    nameless = pods[0] | {"metadata": pods[0]["metadata"] | {"resourceVersion": ""}}
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
    assert Reason.EVICTED in {found.reason for found in later.decisions}
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
    scale = {"metadata": {"name": "web"}, "spec": {}, "status": {"selector": "app=web"}}
    workload = scaled_workload("default", "example.com/v1", "Rollout", scale)
    around = Around(before=first, looked_up={"default": {KEY: workload}})
    assert len(plan(snapshot, UNPROVEN, ALL_GATES, Memory(), NOW, around).decisions) == 5
