"""Which pods a VPA is for."""

from __future__ import annotations

from app.diagnosis.core.members import members
from app.model.kinds import ObjectKey
from app.model.snapshot import Snapshot
from app.model.workloads import Absent
from tests import make


def names(snapshot: Snapshot) -> dict[tuple[str, str], list[str]]:
    """Return the names of the pods by VPA."""
    found, _ = members(snapshot, {})
    return {key: [pod.name for pod in pods] for key, pods in found.items()}


def test_pods_of_vpas_in_every_mode() -> None:
    """Also a VPA that only recommends has pods; those that ended or go are not counted."""
    ended = make.pod_json(name="web-1", status={"phase": "Succeeded"})
    going = make.pod_json(name="web-2", metadata={"deletionTimestamp": make.time(make.NOW)})
    other = make.pod_json(name="db-0", owner="StatefulSet/db", labels={"app": "db"})
    pods = [make.pod_json(name="web-0"), ended, going, other]
    items = [make.vpa_json(mode="Off"), make.workload_json(), make.workload_json("StatefulSet/db")]
    assert names(make.snapshot(*items, *pods)) == {("default", "web"): ["web-0"]}


def test_selectors_part_the_pods() -> None:
    """Two VPAs on one workload have the pods that their selectors choose."""
    pods = [
        make.pod_json(name=f"web-{index}", labels={"app": "web", "role": role})
        for index, role in enumerate(["leader", "follower", "follower"])
    ]
    vpas = [
        make.vpa_json(role, selector={"matchLabels": {"role": role}})
        for role in ("leader", "follower")
    ]
    found = names(make.snapshot(*vpas, make.workload_json(), *pods))
    assert found == {("default", "leader"): ["web-0"], ("default", "follower"): ["web-1", "web-2"]}


def test_unknown_owners_are_asked_for_once() -> None:
    """Owners that are not known are named, and what was found of them is used."""
    pods = [make.pod_json(name=f"web-{index}", owner="Gadget/web") for index in range(2)]
    snapshot = make.snapshot(make.vpa_json(), *pods)
    _, (lookup,) = members(snapshot, {})
    assert lookup.key == ObjectKey("example.com", "Gadget", "web")
    assert members(snapshot, {"default": {lookup.key: Absent()}}) == ({}, ())


def test_namespaces_without_vpas_are_left_alone() -> None:
    """The owners of pods that no VPA can be for are not looked up."""
    snapshot = make.snapshot(make.pod_json(owner="Gadget/web"))
    assert members(snapshot, {}) == ({}, ())
