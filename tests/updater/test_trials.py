"""Pods on trial: made as their owner would make them, and never an obstacle."""

from __future__ import annotations

import pytest

from app.model.errors import ClusterError, Invalid, Refused, Unavailable
from app.model.kinds import ObjectKey, owner_key
from app.ports import PODS, REPLICA_SETS
from app.sandbox.clock import SteppedClock
from app.sandbox.sandbox import Sandbox
from app.updater.trials import Trials
from tests import make
from tests.faults import Fault, Faults
from tests.sandbox.worlds import container, deployment
from tests.sandbox_objects import pods_in

POD = make.running(make.pod_json())


class Scene:
    """A Deployment in a cluster."""

    def __init__(self) -> None:
        self.sandbox = Sandbox(SteppedClock())
        self.sandbox.apply(deployment("web", container(), replicas=2))
        self.sandbox.advance(5)
        self.faults = Faults()
        self.trials = Trials(self.faults.before(self.sandbox.cluster))
        (found,) = self.sandbox.cluster.list(REPLICA_SETS, "default").items
        self.owner = owner_key("apps/v1", "ReplicaSet", found["metadata"]["name"])


def test_a_trial_is_a_pod_of_its_owner() -> None:
    """It has the labels, the owner and the containers of the next pod, and is not stored."""
    scene = Scene()
    found = scene.trials.created(scene.owner, POD)
    assert found is not None
    assert found.labels["app"] == "web"
    assert found.controller is not None
    assert found.controller.key == scene.owner
    assert found.name.startswith(scene.owner.name)
    assert [item.name for item in found.containers] == ["app"]
    assert len(pods_in(scene.sandbox, "default")) == 2


@pytest.mark.parametrize("error", [Refused("exceeded quota"), Invalid("no"), Unavailable("down")])
def test_a_trial_that_fails_tells_nothing(error: ClusterError) -> None:
    """Whatever was refused, it is not the webhook's fault."""
    scene = Scene()
    scene.faults.order(Fault(error, "create", PODS))
    assert scene.trials.created(scene.owner, POD) is None


@pytest.mark.parametrize(
    ("owner", "is_known"),
    [
        pytest.param(owner_key("example.com/v1", "Gadget", "web"), False, id="custom"),
        pytest.param(owner_key("apps/v1", "ReplicaSet", "gone"), False, id="gone"),
        pytest.param(owner_key("apps/v1", "Deployment", "web"), True, id="built in"),
    ],
)
def test_owners_without_a_template(owner: ObjectKey, is_known: bool) -> None:
    """Of a custom or missing owner nothing can be told; any built-in one has a template."""
    scene = Scene()
    assert (scene.trials.created(owner, POD) is not None) is is_known
