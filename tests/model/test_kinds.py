"""What all objects share: keys tell controllers apart by kind and group together."""

from __future__ import annotations

import pytest

from app.model.kinds import (
    Condition,
    ObjectKey,
    OwnerReference,
    controller_of,
    group_of,
    owner_key,
    read_conditions,
    read_owners,
    target_key,
)
from tests import make


@pytest.mark.parametrize(
    ("api_version", "group"),
    [("v1", ""), ("", ""), ("apps/v1", "apps"), ("example.com/v1beta1", "example.com")],
)
def test_groups(api_version: str, group: str) -> None:
    """The group stands before the slash; the core group has none."""
    assert group_of(api_version) == group


@pytest.mark.parametrize(
    ("api_version", "kind", "of_owner", "of_target"),
    [
        ("apps/v1", "Deployment", "", ""),
        ("extensions/v1beta1", "Deployment", "", ""),
        ("extensions/v1beta1", "StatefulSet", "extensions", "extensions"),
        ("v1", "ReplicationController", "", ""),
        ("batch/v1beta1", "CronJob", "", ""),
        ("v1", "Deployment", "core", ""),
        ("", "Deployment", "", ""),
        ("example.com/v1", "Deployment", "example.com", "example.com"),
        ("batch.volcano.sh/v1", "Job", "batch.volcano.sh", "batch.volcano.sh"),
        ("example.com/v1", "Gadget", "example.com", "example.com"),
        ("v1", "Node", "core", "core"),
        ("v1", "Pod", "core", "core"),
    ],
)
def test_keys(api_version: str, kind: str, of_owner: str, of_target: str) -> None:
    """A foreign group makes another kind; people may leave a built-in kind's group away."""
    assert owner_key(api_version, kind, "x") == ObjectKey(of_owner, kind, "x")
    assert target_key(api_version, kind, "x") == ObjectKey(of_target, kind, "x")


@pytest.mark.parametrize(
    ("key", "built_in", "text"),
    [
        (ObjectKey("", "Job", "a"), True, "Job/a"),
        (ObjectKey("", "Gadget", "a"), False, "Gadget/a"),
        (ObjectKey("example.com", "Job", "a"), False, "Job.example.com/a"),
    ],
)
def test_built_in(key: ObjectKey, built_in: bool, text: str) -> None:
    """Only the seven controllers without a group are built in."""
    assert key.is_built_in is built_in
    assert str(key) == text


def test_owners_are_read() -> None:
    """Every reference is kept, and the last that claims control has it."""
    references = [
        make.owner_json("ReplicaSet/a"),
        make.owner_json("Job/b"),
        make.owner_json("example.com/v1/Gadget/c", controller=False),
    ]
    owners = read_owners({"ownerReferences": references})
    assert owners[0] == OwnerReference("apps/v1", "ReplicaSet", "a", "uid-a", True)
    assert [owner.key.name for owner in owners] == ["a", "b", "c"]
    controller = controller_of(owners)
    assert controller is not None
    assert controller.key == ObjectKey("", "Job", "b")


@pytest.mark.parametrize("metadata", [{}, {"ownerReferences": None}, {"ownerReferences": []}])
def test_no_owners(metadata: dict[str, object]) -> None:
    """An object without owners has no controller."""
    assert read_owners(metadata) == ()
    assert controller_of(()) is None


FULL = {
    "type": "Ready",
    "status": "False",
    "reason": "ContainersNotReady",
    "message": "wait",
    "lastTransitionTime": "2026-01-05T10:00:00Z",
    "observedGeneration": 2**40,
}


def test_conditions_keep_their_order() -> None:
    """Every condition is read, the first one first; nothing said is nothing."""
    assert read_conditions({"conditions": [FULL, {}]}) == (
        Condition("Ready", "False", "ContainersNotReady", "wait", make.NOW, 2**40),
        Condition("", ""),
    )
    assert read_conditions({}) == ()
