"""Whose the pods of an owner are."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.workloads import Absent, Workload
from app.updater.core.decisions import Action, Reason
from app.updater.core.owners import (
    OngoingRollout,
    Overlap,
    OwnerBudget,
    budget_of,
    desired_size,
    is_broken,
    is_live,
    is_unready,
    ongoing_rollout,
    required_replicas,
    went_down,
)
from tests import make
from tests.cases import cases
from tests.updater.core.owners import (
    FAR,
    KEY,
    OLD,
    POD,
    ROLLOUT,
    SET,
    TO_ROLLOUT,
    YOUNG,
    owners,
    planned,
    rollout,
)
from tests.updater.core.scenes import (
    NOW,
    OURS,
    container,
    named,
    pending,
    read,
    running,
    several,
    terminating,
    unscheduled,
    with_metadata,
)


@cases(
    "items expected",
    {
        "the older VPA wins": ([SET, OLD, YOUNG, POD], {"web-0": "b"}),
        "of the same age the first by name wins": (
            [SET, make.vpa_json("b"), make.vpa_json("a"), POD],
            {"web-0": "a"},
        ),
        "a VPA of another namespace": ([SET, make.vpa_json(namespace="other"), POD], {}),
        "labels that the owner does not select": ([SET, OLD, running(labels={"app": "other"})], {}),
        "a pod of a node": ([SET, OLD, running(owner="Node/node-1")], {}),
        "an owner that is not known": ([OLD, POD], {}),
        "a pod without an owner": ([SET, OLD, running(owner=None)], {}),
        "a ReplicaSet of a Deployment": (
            [
                make.workload_json("Deployment/web"),
                make.workload_json("ReplicaSet/web", owner="Deployment/web"),
                make.vpa_json(target="v1/Deployment/web"),
                running(owner="ReplicaSet/web"),
            ],
            {"web-0": "web"},
        ),
        "not the topmost": (
            [
                make.workload_json("Deployment/web"),
                make.workload_json("ReplicaSet/web", owner="Deployment/web"),
                make.vpa_json(target="ReplicaSet/web"),
                running(owner="ReplicaSet/web"),
            ],
            {},
        ),
        "no target": ([SET, make.vpa_json(target=None), POD], {}),
        "a VPA without a target beside": (
            [SET, make.vpa_json("gone", target="StatefulSet/gone"), OLD, POD],
            {"web-0": "b"},
        ),
    },
)
def test_matching(items: list[Json], expected: dict[str, str]) -> None:
    """The oldest VPA that points at the topmost controller has the pod."""
    assert owners(*items) == expected


def test_owners_that_do_not_control() -> None:
    """A reference without `controller` is passed over."""
    pod = running()
    references = [make.owner_json("Node/x", controller=False), make.owner_json("StatefulSet/web")]
    pod["metadata"]["ownerReferences"] = references
    assert owners(SET, OLD, pod) == {"web-0": "b"}


def test_owners_that_have_to_be_looked_up() -> None:
    """What cannot be scaled has no VPA; what is not known yet is asked for."""
    unknown = planned(ROLLOUT, TO_ROLLOUT)
    assert [(item.kind, item.name) for item in unknown.lookups] == [("Rollout", "web")]
    assert unknown.decisions == ()
    pods = several(ROLLOUT, 5)
    known = planned(*pods, TO_ROLLOUT, looked_up={"default": {KEY: rollout(5)}})
    assert known.lookups == ()
    assert sum(found.action is Action.EVICT for found in known.decisions) == 2
    absent = planned(ROLLOUT, TO_ROLLOUT, looked_up={"default": {KEY: Absent()}})
    assert (absent.decisions, absent.lookups) == ((), ())


def test_the_topmost_owner_decides() -> None:
    """A Deployment that something scalable owns is not for a VPA of the Deployment."""
    items = [
        make.workload_json("Deployment/web", owner="example.com/v1/Rollout/web"),
        make.workload_json("ReplicaSet/web", owner="Deployment/web"),
        running(owner="ReplicaSet/web"),
    ]
    looked_up = {"default": {KEY: rollout()}}
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


def key(text: str) -> ObjectKey:
    """Return the key of `Kind/name`; an unknown kind is of the group example.com."""
    kind, _, name = text.partition("/")
    return ObjectKey("" if kind in make.API_VERSIONS else "example.com", kind, name)


@pytest.mark.parametrize(
    ("owner", "workload", "live", "expected"),
    [
        ("ReplicaSet/web", make.workload("ReplicaSet/web", replicas=5), 3, 5),
        ("StatefulSet/web", make.workload("StatefulSet/web", replicas=5), 3, 5),
        ("ReplicationController/web", make.workload("ReplicationController/web"), 1, 3),
        ("ReplicaSet/web", make.workload("ReplicaSet/web", replicas=0), 3, None),
        ("ReplicaSet/web", make.workload("ReplicaSet/web", replicas=None), 3, None),
        ("ReplicaSet/web", None, 3, None),
        pytest.param(
            "DaemonSet/web",
            make.workload("DaemonSet/web", status={"desiredNumberScheduled": 10}),
            3,
            10,
            id="a DaemonSet by its status",
        ),
        ("DaemonSet/web", make.workload("DaemonSet/web"), 3, None),
        ("Job/web", make.workload("Job/web"), 5, 5),
        ("Job/web", None, 5, 5),
        pytest.param("Rollout/x", rollout(7), 5, 7, id="another kind by its scale"),
        ("Rollout/x", rollout(None), 5, 5),
        ("Rollout/x", rollout(0), 5, None),
        ("Rollout/x", None, 5, 5),
    ],
)
def test_configured_size(
    owner: str, workload: Workload | None, live: int, expected: int | None
) -> None:
    """Whoever owns pods says how many there should be; only jobs go by what there is."""
    found = desired_size(key(owner), workload, live)
    assert found.desired == expected
    assert bool(found.problem) == (expected is None)


@pytest.mark.parametrize(("said", "expected"), [(None, 2), (5, 5), (0, 0)])
def test_required_replicas(said: int | None, expected: int) -> None:
    """A VPA's own number comes before the flag."""
    assert required_replicas(make.vpa(min_replicas=said), OURS) == expected


BARE_POD = running()
OVER = BARE_POD | {"status": {"phase": "Succeeded"}}
UNREADY = running(ready=False, age=timedelta(minutes=5))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (BARE_POD, True),
        (pending(BARE_POD), True),
        (terminating(BARE_POD), False),
        (OVER, False),
        (unscheduled(BARE_POD), True),
    ],
)
def test_is_live(pod: Json, expected: bool) -> None:
    """Pods that end or ended do not count; those without a node do."""
    assert is_live(read(pod)) is expected


def test_who_is_up() -> None:
    """Running is by phase, ready by readiness; a pod that says nothing of it is ready."""
    silent = read(running() | {"status": {"phase": "Running"}})
    pods = [*map(read, several(BARE_POD, 3)), read(UNREADY), read(pending(BARE_POD)), silent]
    found = budget_of(pods, 6, 0.5)
    assert (found.running, found.ready) == (5, 4)
    assert is_unready(read(UNREADY))
    assert not is_unready(silent)


def test_own_actions_count_before_they_are_seen() -> None:
    """Pods that we evicted or restart are not up, whatever the watch still shows."""
    pods = [read(pod) for pod in several(BARE_POD, 4)]
    found = budget_of(pods, 4, 0.5, gone={"uid-web-0"}, disturbed={"uid-web-0", "uid-web-1"})
    assert (found.running, found.ready) == (3, 2)


@cases(
    "before after stopped unready",
    {
        "as it was": (BARE_POD, BARE_POD, 0, 0),
        "gone": (BARE_POD, named(BARE_POD, "other"), 1, 1),
        "replaced": (BARE_POD, with_metadata(BARE_POD, uid="x"), 1, 1),
        "on its way out": (BARE_POD, terminating(BARE_POD), 1, 1),
        "not running": (BARE_POD, pending(BARE_POD), 1, 1),
        "not ready": (BARE_POD, UNREADY, 0, 1),
        "up again": (UNREADY, BARE_POD, 0, 0),
        "unready before": (UNREADY, terminating(UNREADY), 1, 0),
    },
)
def test_went_down(before: Json, after: Json, stopped: int, unready: int) -> None:
    """What fell since a plan was made is missing from its budget."""
    now = {after["metadata"]["name"]: read(after)}
    same = read(named(BARE_POD, "same"))
    found = went_down([read(before), same], now | {"same": same})
    assert found == (["web-0"] * stopped, ["web-0"] * unready)


@pytest.mark.parametrize(
    ("ready", "since", "is_quick_oom", "expected"),
    [
        (True, 60, True, False),
        (False, 5, False, False),
        (False, 5, True, True),
        (False, 10, False, True),
    ],
)
def test_is_broken(ready: bool, since: int, is_quick_oom: bool, expected: bool) -> None:
    """A pod is broken if it is unready for long, or for want of memory."""
    pod = read(running(ready=ready, age=timedelta(minutes=since)))
    assert is_broken(pod, OURS, NOW, is_quick_oom=is_quick_oom) is expected


def test_an_undated_unready_pod_is_not_broken() -> None:
    """Without a time nobody knows how long."""
    pod = running(status={"conditions": [{"type": "Ready", "status": "False"}]})
    assert not is_broken(read(pod), OURS, NOW, is_quick_oom=False)


def deployment(**status: int) -> Json:
    """Return a Deployment of three at generation 2."""
    return make.workload_json(
        "Deployment/web", metadata={"generation": 2}, status={"observedGeneration": 2} | status
    )


def stateful(partition: int = 0, **status: object) -> Json:
    """Return a StatefulSet of three in the middle of an update."""
    return make.workload_json(
        spec={"updateStrategy": {"rollingUpdate": {"partition": partition}}},
        status={"observedGeneration": 1, "currentRevision": "a", "updateRevision": "b"} | status,
    )


REPLICA_SET = make.workload_json("ReplicaSet/web", owner="Deployment/web")


@pytest.mark.parametrize(
    ("owner", "parent", "told"),
    [
        (REPLICA_SET, deployment(updatedReplicas=3, replicas=3), ""),
        (
            REPLICA_SET,
            deployment(updatedReplicas=2, replicas=3),
            "2 of 3 pods are of the latest template",
        ),
        (
            REPLICA_SET,
            deployment(updatedReplicas=3, replicas=5),
            "2 pods of an older template are still there",
        ),
        (
            REPLICA_SET,
            deployment(observedGeneration=1),
            "its controller has not observed its latest change",
        ),
        (REPLICA_SET, make.workload_json("Deployment/web"), ""),
        (REPLICA_SET, None, ""),
        (stateful(updatedReplicas=1), None, "1 of 3 pods are of the latest template"),
        (stateful(updatedReplicas=3), None, ""),
        (stateful(partition=2, updatedReplicas=1), None, ""),
        (stateful(updatedReplicas=0, updateRevision="a"), None, ""),
        (make.workload_json("DaemonSet/web", status={"observedGeneration": 1}), None, ""),
    ],
)
def test_rolling(owner: Json, parent: Json | None, told: str) -> None:
    """A rollout goes on until all pods are of the latest template and the others are gone."""
    items = [owner] if parent is None else [owner, parent]
    view = make.snapshot(*items).of("default")
    found = ongoing_rollout(view.workloads[key(f"{owner['kind']}/web")], view)
    assert (found.message.partition(": ")[2] if found else "") == told


def test_what_has_no_owner_is_not_rolled_out() -> None:
    """Nor what has one that tells nothing; a replica count that is not said is one."""
    view = make.snapshot(REPLICA_SET).of("default")
    assert ongoing_rollout(None, view) is None
    assert ongoing_rollout(rollout(3), view) is None
    alone = make.workload(
        "Deployment/web", replicas=None, status={"observedGeneration": 1, "updatedReplicas": 0}
    )
    assert ongoing_rollout(alone, view) == OngoingRollout(
        "Deployment/web@1/0", "Deployment/web: 0 of 1 pods are of the latest template"
    )


def spent(budget: OwnerBudget, *, broken: bool = False) -> int:
    """Return how many pods can go one after another."""
    count = 0
    while budget.has_slot(broken=broken) and count < 200:
        budget = budget.after(1, broken=broken)
        count += 1
    return count


@cases(
    "desired running tolerance tolerated expected",
    {
        "3 of 3 up, 50% may be down": (3, 3, 0.5, 1, 1),
        "3 of 4 up, 50% may be down": (4, 3, 0.5, 2, 1),
        "3 of 3 up, 10% may be down": (3, 3, 0.1, 0, 1),
        "2 of 3 up, 10% may be down": (3, 2, 0.1, 0, 0),
        "2 of 3 up, 50% may be down": (3, 2, 0.5, 1, 0),
        "1 of 4 up, 50% may be down": (4, 1, 0.5, 2, 0),
        "1 of 1 up, 50% may be down": (1, 1, 0.5, 0, 1),
        "5 of 5 up, 80% may be down": (5, 5, 0.8, 4, 4),
        "5 of 5 up, 10% may be down": (5, 5, 0.1, 0, 1),
        "10 of 10 up, 50% may be down": (10, 10, 0.5, 5, 5),
        "8 of 10 up, 50% may be down": (10, 8, 0.5, 5, 3),
        "5 of 10 up, 50% may be down": (10, 5, 0.5, 5, 0),
        "3 of 3 up, 100% may be down": (3, 3, 1.0, 3, 3),
        "3 of 4 up, 10% may be down": (4, 3, 0.1, 0, 0),
        "17 of 20 up, 20% may be down": (20, 17, 0.2, 4, 1),
        "5 of 3 up, 50% may be down": (3, 5, 0.5, 1, 3),
        "5 of 0 up, 50% may be down": (0, 5, 0.5, 0, 5),
        "100 of 100 up, 29% may be down": (100, 100, 0.29, 28, 28),
    },
)
def test_worked_cases(
    desired: int, running: int, tolerance: float, tolerated: int, expected: int
) -> None:
    """The share that may be down is cut off, not rounded, and one of a whole owner may go."""
    budget = OwnerBudget(desired, tolerance, running, running)
    assert budget.tolerated == tolerated
    assert spent(budget) == spent(budget, broken=True) == expected


def test_whatever_goes_takes_a_place() -> None:
    """After one accepted resize one eviction is left."""
    assert spent(OwnerBudget(4, 0.5, 4, 4).after(1)) == 1


def test_what_did_not_go_gives_its_place_back() -> None:
    """A refused call leaves the budget as it was."""
    budget = OwnerBudget(10, 0.5, 10, 10)
    for broken in (False, True):
        assert budget.after(1, broken=broken).after(-1, broken=broken) == budget


def test_unready_pods_are_down_already() -> None:
    """Ten pods, five of them not ready: no ready one may go, but the broken ones may."""
    budget = OwnerBudget(10, 0.5, 10, ready=5)
    assert spent(budget) == 0
    assert spent(budget, broken=True) == 5


def test_all_broken_can_be_repaired_one_by_one() -> None:
    """An owner all of whose pods are broken is not lost."""
    assert spent(OwnerBudget(3, 0.5, 3, ready=0), broken=True) == 1
    assert spent(OwnerBudget(1, 0.5, 1, ready=0), broken=True) == 1


SIZES = st.integers(0, 30)


@given(SIZES, SIZES, SIZES, st.floats(0, 1), st.lists(st.booleans(), max_size=40))
def test_never_more_than_tolerated(
    desired: int, running: int, unready: int, tolerance: float, order: list[bool]
) -> None:
    """However ready and broken pods take turns, no more are down than tolerance or one allow."""
    unready = min(unready, running)
    budget = OwnerBudget(desired, tolerance, running, running - unready)
    ready, up, broken_left = running - unready, running, unready
    for broken in order:
        if broken and not broken_left:
            continue
        if not budget.has_slot(broken=broken):
            continue
        budget = budget.after(1, broken=broken)
        up -= 1
        ready -= not broken
        broken_left -= broken
        least = desired - max(budget.tolerated, 1)
        assert up >= least
        assert broken or ready >= least
