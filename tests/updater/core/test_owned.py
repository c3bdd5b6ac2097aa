"""Whose the pods of an owner are."""

from __future__ import annotations

import pytest

from app.model.workloads import Absent, scaled_workload
from app.updater.core.decisions import Action, Reason
from app.updater.core.owners import Overlap
from tests import make
from tests.updater.core.owners import (
    FAR,
    KEY,
    OLD,
    POD,
    ROLLOUT,
    SET,
    TO_ROLLOUT,
    YOUNG,
    Json,
    owners,
    planned,
)
from tests.updater.core.scenes import (
    container,
    running,
    several,
)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param([SET, OLD, YOUNG, POD], {"web-0": "b"}, id="the older VPA wins"),
        pytest.param(
            [SET, make.vpa_json("b"), make.vpa_json("a"), POD],
            {"web-0": "a"},
            id="of the same age the first by name wins",
        ),
        pytest.param(
            [SET, make.vpa_json(namespace="other"), POD], {}, id="a VPA of another namespace"
        ),
        pytest.param(
            [SET, OLD, running(labels={"app": "other"})],
            {},
            id="labels that the owner does not select",
        ),
        pytest.param([SET, OLD, running(owner="Node/node-1")], {}, id="a pod of a node"),
        pytest.param([OLD, POD], {}, id="an owner that is not known"),
        pytest.param([SET, OLD, running(owner=None)], {}, id="a pod without an owner"),
        pytest.param(
            [
                make.workload_json("Deployment/web"),
                make.workload_json("ReplicaSet/web", owner="Deployment/web"),
                make.vpa_json(target="v1/Deployment/web"),
                running(owner="ReplicaSet/web"),
            ],
            {"web-0": "web"},
            id="a ReplicaSet of a Deployment",
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
            id="a VPA without a target beside",
        ),
    ],
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
    """A Deployment that something scalable owns is not for a VPA of the Deployment."""
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
