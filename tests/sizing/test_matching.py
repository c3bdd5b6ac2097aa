"""The right VPA controls a pod, or none, and it is said why."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.pods import read_pod
from app.model.snapshot import EMPTY_VIEW
from app.model.workloads import (
    NOTHING_LOOKED_UP,
    Absent,
    Failed,
    LookedUp,
    Lookup,
    LookupResult,
    Workload,
    scaled_workload,
)
from app.sizing.matching import LookupNeeded, Match, MatchReason, match_pod, selects, topmost
from tests import make
from tests.cases import cases

ROBOT = "example.com/v1/Robot/r2"
ROBOT_KEY = ObjectKey("example.com", "Robot", "r2")
LEADER: Json = {"matchLabels": {"role": "leader"}}
BOOST = make.boost_json(factor=2)

DEPLOYMENT = make.workload_json("Deployment/web")
REPLICA_SET = make.workload_json("ReplicaSet/web-1", owner="Deployment/web")
POD = make.pod_json(owner="ReplicaSet/web-1")
CHAIN = (DEPLOYMENT, REPLICA_SET)
BYSTANDER = make.owner_json("ReplicaSet/web-1", controller=False)

vpa = partial(make.vpa_json, target="Deployment/web")


def match(
    *objects: Json,
    pod: Json = POD,
    looked_up: LookedUp = NOTHING_LOOKED_UP,
    boosts: bool = True,
    with_off: bool = False,
) -> Match | LookupNeeded:
    """Match a pod of the Deployment, unless said, against what is known."""
    view = make.snapshot(*objects).of("default")
    return match_pod(read_pod(pod), view, looked_up, boosts=boosts, with_off=with_off)


def told(found: Match | LookupNeeded) -> str:
    """Return the VPA's name, or the reason why there is none."""
    assert isinstance(found, Match)
    return found.vpa.name if found.vpa else found.reason


def robot(selector: str = "app=web", owner: str | None = None) -> Workload:
    """Return a custom controller as its scale subresource tells of it."""
    owners = None if owner is None else [make.owner_json(owner)]
    scale = {
        "metadata": {"name": "r2", "uid": "uid-r2", "ownerReferences": owners},
        "spec": {"replicas": 1},
        "status": {"selector": selector},
    }
    return scaled_workload("default", "example.com/v1", "Robot", scale)


@cases(
    "objects pod expected",
    {
        "nobody owns the pod": ([vpa()], make.pod_json(owner=None), "NoController"),
        "an owner that does not control": (
            [vpa()],
            make.pod_json(metadata={"ownerReferences": [BYSTANDER]}),
            "NoController",
        ),
        "the topmost is meant": ([vpa("v"), *CHAIN], POD, "v"),
        "not what stands between": ([vpa(target="ReplicaSet/web-1"), *CHAIN], POD, "NoVPAForOwner"),
        "a CronJob by the labels of its template": (
            [
                vpa("v", target="CronJob/nightly"),
                make.workload_json("CronJob/nightly"),
                make.workload_json("Job/nightly-1", owner="CronJob/nightly"),
            ],
            make.pod_json(owner="Job/nightly-1"),
            "v",
        ),
        "a mirror pod": ([vpa()], make.pod_json(owner="Node/node-1"), "OwnedByNode"),
        "a node further up": (
            [vpa(), make.workload_json("Deployment/web", owner="Node/n"), REPLICA_SET],
            POD,
            "OwnedByNode",
        ),
        "a circle": (
            [
                vpa(),
                make.workload_json("ReplicaSet/web-1", owner="ReplicaSet/web-2"),
                make.workload_json("ReplicaSet/web-2", owner="ReplicaSet/web-1"),
            ],
            POD,
            "OwnershipCycle",
        ),
        "the only one is Off": ([vpa(mode="Off"), *CHAIN], POD, "ModeOff"),
        "Off with a boost": ([vpa("v", mode="Off", boost=BOOST), *CHAIN], POD, "v"),
        "Off with an empty boost for a container": (
            [vpa("v", mode="Off", policies=[make.policy_json(boost={})]), *CHAIN],
            POD,
            "v",
        ),
        "Initial": ([vpa("v", mode="Initial"), *CHAIN], POD, "v"),
        "UpscaleOnly": ([vpa("v", mode="UpscaleOnly"), *CHAIN], POD, "v"),
        "no update policy": (
            [vpa("v", mode="Recreate", spec={"updatePolicy": None}), *CHAIN],
            POD,
            "v",
        ),
        "the target does not select the pod": (
            [vpa(), make.workload_json("Deployment/web", labels={"app": "other"}), REPLICA_SET],
            POD,
            "NoTargetSelectorMatch",
        ),
        "the VPA lives elsewhere": ([vpa(namespace="other"), *CHAIN], POD, "NoVPAInNamespace"),
        "no target": ([vpa(target=None), *CHAIN], POD, "NoVPAForOwner"),
        "the VPA itself does not select the pod": (
            [vpa(selector=LEADER), *CHAIN],
            POD,
            "NoVPASelectorMatch",
        ),
        "the VPA itself selects the pod": (
            [vpa("v", selector=LEADER), *CHAIN],
            make.pod_json(owner="ReplicaSet/web-1", labels={"app": "web", "role": "leader"}),
            "v",
        ),
        "an empty selector": ([vpa("v", selector={}), *CHAIN], POD, "v"),
    },
)
def test_match(objects: list[Json], pod: Json, expected: str) -> None:
    """A pod is controlled through its topmost controller, and both selectors must agree."""
    assert told(match(*objects, pod=pod)) == expected


@cases(
    "looked_up expected",
    {
        "it cannot be scaled: the Deployment is meant": (Absent(), "v"),
        "it can: the Deployment no longer counts": (robot(), "NoVPAForOwner"),
        "nobody knows": (Failed("no answer"), "OwnerUnknown"),
    },
)
def test_custom_owner(looked_up: LookupResult, expected: str) -> None:
    """A custom controller above a Deployment counts if it can be scaled."""
    deployment = make.workload_json("Deployment/web", owner=ROBOT)
    found = match(vpa("v"), deployment, REPLICA_SET, looked_up={ROBOT_KEY: looked_up})
    assert told(found) == expected


@cases(
    "looked_up expected",
    {
        "scalable": (robot(), "v"),
        "selects others": (robot("app=other"), "NoTargetSelectorMatch"),
        "selects nothing": (robot(""), "NoTargetSelectorMatch"),
        "not scalable": (Absent(), "NoScalableOwner"),
        "owned itself": (robot(owner="ReplicaSet/web-1"), "NoVPAForOwner"),
    },
)
def test_custom_target(looked_up: LookupResult, expected: str) -> None:
    """A custom controller is a target if it can be scaled and is the topmost."""
    objects = [vpa("v", target=ROBOT), *CHAIN]
    found = match(*objects, pod=make.pod_json(owner=ROBOT), looked_up={ROBOT_KEY: looked_up})
    assert told(found) == expected


def wanting(kind: str, name: str) -> Lookup:
    """Return the look-up of a controller of group apps."""
    return Lookup("default", "apps/v1", kind, name, ObjectKey("", kind, name))


@cases(
    "objects wanted",
    {
        "the ReplicaSet is not known yet": ([vpa()], wanting("ReplicaSet", "web-1")),
        "nor the Deployment above it": ([vpa(), REPLICA_SET], wanting("Deployment", "web")),
    },
)
def test_look_up(objects: list[Json], wanted: Lookup) -> None:
    """What the snapshot does not hold is asked for, not guessed."""
    assert match(*objects) == LookupNeeded(wanted)


def test_looked_up_is_used() -> None:
    """What was looked up stands in for what the snapshot lacks."""
    looked_up = {
        ObjectKey("", "ReplicaSet", "web-1"): make.workload(
            "ReplicaSet/web-1", owner="Deployment/web"
        )
    }
    assert told(match(vpa("v"), DEPLOYMENT, looked_up=looked_up)) == "v"


def test_absent_built_in_owner() -> None:
    """An owner that does not exist leaves the pod alone."""
    looked_up = {ObjectKey("", "ReplicaSet", "web-1"): Absent()}
    found = match(vpa(), DEPLOYMENT, looked_up=looked_up)
    assert found == Match(MatchReason.OWNER_UNKNOWN, "ReplicaSet/web-1 does not exist")


def test_nothing_is_looked_up_without_need() -> None:
    """A namespace without VPAs costs no look-up."""
    assert told(match_pod(read_pod(POD), EMPTY_VIEW, {}, boosts=True)) == "NoVPAInNamespace"


@pytest.mark.parametrize(
    ("api_version", "expected"), [("v1", "v"), ("example.com/v1", "NoVPAForOwner")]
)
def test_group_of_target(api_version: str, expected: str) -> None:
    """A built-in target is meant by kind and group; a missing group means the built-in."""
    found = vpa("v")
    found["spec"]["targetRef"]["apiVersion"] = api_version
    assert told(match(found, *CHAIN)) == expected


def test_namesake_of_another_group() -> None:
    """A third-party Job is not the built-in one of the same name."""
    key = ObjectKey("batch.volcano.sh", "Job", "train")
    pod = make.pod_json(owner="batch.volcano.sh/v1alpha1/Job/train")
    objects = [vpa(target="Job/train"), make.workload_json("Job/train")]
    found = match(*objects, pod=pod)
    assert isinstance(found, LookupNeeded)
    assert found.lookup.key == key
    assert told(match(*objects, pod=pod, looked_up={key: Absent()})) == "NoScalableOwner"


OLD, NEW = timedelta(days=10), timedelta(days=5)


@cases(
    "vpas winner weaker",
    {
        "the older": ([vpa("a", created=NEW), vpa("b", created=OLD)], "b", ["a"]),
        "the name": ([vpa("b", created=OLD), vpa("a", created=OLD)], "a", ["b"]),
        "what only boosts comes after what is active": (
            [vpa("old", created=OLD, mode="Off", boost=BOOST), vpa("new", created=NEW)],
            "new",
            ["old"],
        ),
        "Off takes no part": (
            [vpa("old", created=OLD, mode="Off"), vpa("new", created=NEW)],
            "new",
            [],
        ),
        "what selects others takes no part": (
            [vpa("old", created=OLD, selector=LEADER), vpa("new", created=NEW)],
            "new",
            [],
        ),
        "three": (
            [vpa("c", created=NEW), vpa("b", created=OLD), vpa("a", created=NEW)],
            "b",
            ["a", "c"],
        ),
    },
)
def test_strongest(vpas: list[Json], winner: str, weaker: list[str]) -> None:
    """Of several VPAs the oldest active one controls the pod, and the others are named."""
    found = match(*vpas, DEPLOYMENT, REPLICA_SET)
    assert isinstance(found, Match)
    assert found.vpa is not None
    assert found.vpa.name == winner
    assert [other.name for other in found.weaker] == weaker
    assert all(name in found.message for name in (winner, *weaker))


@cases(
    "boosts with_off expected",
    {
        "boosts on": (True, False, "v"),
        "boosts off": (False, False, "ModeOff"),
        "whoever asks wants Off ones too": (False, True, "v"),
    },
)
def test_off_with_boost(boosts: bool, with_off: bool, expected: str) -> None:
    """With boosts switched off a boost lets no VPA in mode Off take part."""
    objects = [vpa("v", mode="Off", boost=BOOST), *CHAIN]
    assert told(match(*objects, boosts=boosts, with_off=with_off)) == expected


def test_topmost_includes_itself() -> None:
    """A controller that nobody owns is the topmost."""
    view = make.snapshot(DEPLOYMENT).of("default")
    owner = read_pod(make.pod_json(owner="Deployment/web")).controller
    assert owner is not None
    found = topmost(owner, "default", view, NOTHING_LOOKED_UP)
    assert isinstance(found, Workload)
    assert found.key == owner.key


def test_absent_selector_selects() -> None:
    """A VPA without a selector takes every pod of its target."""
    assert selects(None, make.pod())
