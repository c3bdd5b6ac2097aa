"""Pods of one namespace: how many there are, what is kept of the plan before."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from app.model.snapshot import Snapshot
from app.model.workloads import scaled_workload
from app.updater.core.decisions import Decision, Reason
from app.updater.core.memory import Memory, PodMemory
from app.updater.core.plan import Plan, PlanOptions, VpaCounts, plan
from app.updater.core.rules import UpdateRules
from tests import make
from tests.make import ALL_GATES
from tests.updater.core.owners import (
    FAR,
    KEY,
    MINUTE,
    NEAR,
    OLD,
    POD,
    ROLLOUT,
    SET,
    TO_ROLLOUT,
    owners,
    planned,
    vpa,
)
from tests.updater.core.scenes import (
    NOW,
    UNPROVEN,
    container,
    named,
    recommended,
    running,
    several,
)


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
    around = PlanOptions(before=first, looked_up={"default": {KEY: workload}})
    assert len(plan(snapshot, UNPROVEN, ALL_GATES, Memory(), NOW, around).decisions) == 5
