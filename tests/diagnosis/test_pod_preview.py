"""A running pod is sized as the webhook would size it, if it were created now."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import orjson
import pytest

from app.diagnosis.pod_preview import PodPreviewer
from app.model.errors import ClusterError, NotFound, Refused, Unavailable
from app.model.fields import Json
from app.model.gates import FeatureGates
from app.model.pods import BOOST_KEY_PREFIX
from app.ports import (
    DEPLOYMENTS,
    LIMIT_RANGES,
    PODS,
    VPAS,
    Cluster,
    ListPage,
    PatchKind,
    Ref,
    Resource,
)
from tests import make
from tests.faults import Fault
from tests.runtime.asking import Desk
from tests.sandbox.worlds import deployment, snapshot_of
from tests.sandbox_objects import pods_in
from tests.updater.stage import NoOwners, Stage, vpa

BOOST = {"cpu": {"type": "Factor", "factor": 3, "durationSeconds": 60}}


@pytest.fixture
def desk() -> Desk:
    """One Deployment, its pod, its VPA after a round."""
    found = Desk()
    found.rounds(1)
    return found


def path(desk: Desk) -> str:
    """Return where the pod is told of."""
    return f"/v1/namespaces/default/pods/{pods_in(desk.sandbox)[0]['metadata']['name']}"


def told(desk: Desk, query: str = "") -> Json:
    """Return what is told of the pod."""
    return desk.answer(path(desk) + query)


def change(desk: Desk, resource: Resource, name: str, body: Json) -> None:
    """Change an object."""
    desk.sandbox.cluster.patch(Ref(resource, "default", name), body, kind=PatchKind.MERGE)


def test_a_pod_is_sized(desk: Desk) -> None:
    """What it has, what it would get, and from which recommendation."""
    found = told(desk)
    (container,) = found["containers"]
    assert (found["reason"], found["vpa"], found["owner"]) == ("Sized", "web", "Deployment/web")
    assert found["computedAt"] == "2026-01-05T10:01:00Z"
    assert container["now"] == {
        "requests": {"cpu": "100m", "memory": "100Mi"},
        "limits": {"cpu": "1", "memory": "200Mi"},
    }
    assert container["gets"] == {
        "requests": {"cpu": "247m", "memory": "250Mi"},
        "limits": {"cpu": "2470m", "memory": "500Mi"},
    }
    assert container["recommendation"]["target"] == container["gets"]["requests"]
    assert container["recommendation"]["evidence"]["samples"] == 1


def test_the_template_counts(desk: Desk) -> None:
    """The pod as its controller would create it, not as it was once created."""
    resources = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "300m"}}
    containers = [{"name": "app", "image": "app", "resources": resources}]
    desk.sandbox.cluster.patch(
        Ref(DEPLOYMENTS, "default", "web"),
        [{"op": "replace", "path": "/spec/template/spec/containers", "value": containers}],
    )
    (container,) = told(desk)["containers"]
    assert container["gets"]["limits"] == {"cpu": "741m"}
    assert container["gets"]["requests"] == {"cpu": "247m", "memory": "250Mi"}


def test_limit_ranges_count(desk: Desk) -> None:
    """What the namespace allows holds, and is told."""
    desk.apply(make.limit_range_json(most={"cpu": "200m"}))
    (container,) = told(desk)["containers"]
    assert container["gets"]["requests"]["cpu"] == "20m"
    assert container["gets"]["limits"]["cpu"] == "200m"
    assert container["notes"] == ["cpu capped to fit Max in container LimitRange"]


def test_a_boost_is_told(desk: Desk) -> None:
    """What a pod gets for its start is marked as such."""
    change(desk, VPAS, "web", {"spec": {"startupBoost": BOOST}})
    (container,) = told(desk)["containers"]
    assert container["isBoosted"]
    assert container["gets"]["requests"]["cpu"] == "741m"
    assert container["recommendation"]["target"]["cpu"] == "247m"


def test_a_boost_that_is_on_does_not_count(desk: Desk) -> None:
    """What a pod has for its start alone is not what its author asked for."""
    pod = pods_in(desk.sandbox)[0]
    original = pod["spec"]["containers"][0]["resources"]
    boosted = {**original, "requests": {**original["requests"], "cpu": "900m"}}
    metadata = {
        **{key: pod["metadata"][key] for key in ("labels", "ownerReferences")},
        "name": "boosted",
        "annotations": {f"{BOOST_KEY_PREFIX}app": orjson.dumps(original).decode()},
    }
    containers = [{**pod["spec"]["containers"][0], "resources": boosted}]
    desk.apply({**pod, "metadata": metadata, "spec": {"containers": containers}})
    desk.faults.order(Fault(NotFound("gone"), "get", DEPLOYMENTS, times=1))
    (container,) = desk.answer("/v1/namespaces/default/pods/boosted")["containers"]
    assert container["now"]["requests"]["cpu"] == "900m"
    assert container["gets"]["limits"]["cpu"] == "2470m"


def test_its_story(desk: Desk) -> None:
    """Asked why, each resource is followed from what it had to what it gets."""
    assert "story" not in told(desk)["containers"][0]
    story = told(desk, "?explain=true")["containers"][0]["story"]
    assert story["cpu"] == {
        "had": {"request": "100m", "limit": "1"},
        "recommended": "247m",
        "gets": {"request": "247m", "limit": "2470m"},
        "aboutLimit": "keeps its ratio to the request",
    }


@pytest.mark.parametrize(
    ("spec", "reason", "is_told"),
    [
        ({"updatePolicy": {"updateMode": "Off"}}, "ModeOff", False),
        ({"updatePolicy": {"updateMode": "Initial"}}, "Sized", True),
        ({"targetRef": {"name": "other"}}, "NoVPAForOwner", False),
    ],
)
def test_pods_that_stay_as_they_are(desk: Desk, spec: Json, reason: str, is_told: bool) -> None:
    """Where no VPA acts, the pod would get what it has, and the reason is the webhook's."""
    change(desk, VPAS, "web", {"spec": spec})
    found = told(desk, "?explain=true")
    (container,) = found["containers"]
    assert found["reason"] == reason
    assert (container["recommendation"] is not None) == is_told
    assert (found["vpa"], found["computedAt"] is not None) == ("web" if is_told else "", is_told)
    assert (container["gets"] == container["now"]) != is_told


def test_pods_without_anything(desk: Desk) -> None:
    """A pod without controller, containers without resources: told as they are."""
    item = make.pod_json({"name": "app", "image": "app"}, name="bare", owner=None)
    desk.apply(item)
    found = desk.answer("/v1/namespaces/default/pods/bare")
    assert (found["reason"], found["owner"]) == ("NoController", "")
    assert found["containers"][0]["gets"] == {"requests": {}, "limits": {}}


def test_pending_pods_are_told(desk: Desk) -> None:
    """Those are asked about most, though rounds do not follow them."""
    resources = {"requests": {"cpu": "1000"}}
    desk.apply(
        make.pod_json(
            {"name": "app", "image": "app", "resources": resources}, name="huge", owner=None
        )
    )
    desk.sandbox.advance(5)
    pod = desk.sandbox.cluster.get(Ref(PODS, "default", "huge"))
    assert pod["status"]["phase"] == "Pending"
    assert desk.ask("/v1/namespaces/default/pods/huge").status_code == 200


@pytest.mark.parametrize(
    ("verb", "resource", "error", "status"),
    [
        ("get", PODS, Unavailable("down"), 503),
        ("list", LIMIT_RANGES, Refused("forbidden"), 503),
        ("get", DEPLOYMENTS, Unavailable("down"), 503),
        ("get", DEPLOYMENTS, NotFound("gone"), 200),
    ],
)
def test_faults(
    desk: Desk, verb: str, resource: Resource, error: ClusterError, status: int
) -> None:
    """What cannot be read is said; a controller that went leaves the pod as it is."""
    where = path(desk)
    desk.faults.order(Fault(error, verb, resource, times=1))
    answer = desk.ask(where)
    assert answer.status_code == status
    if status == 503:
        assert str(error) in answer.json()["detail"]
        assert answer.json()["object"] == f"Pod {where.removeprefix('/v1/namespaces/')}".replace(
            "/pods/", "/"
        )


class Odd:
    """A cluster whose lists hold something that cannot be read, and come in pages."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, verb: str) -> Callable[..., object]:
        return cast("Callable[..., object]", getattr(self._cluster, verb))

    def list(self, *_: object, continue_token: str = "", **__: object) -> ListPage:
        """Return one of two pages."""
        if continue_token:
            return ListPage([make.limit_range_json(most={"cpu": "200m"})], "1")
        broken = make.limit_range_json(make.limits_json(most={"cpu": "much"}), name="broken")
        return ListPage([broken], "1", "more")


def test_a_broken_limit_range_is_left_out(desk: Desk) -> None:
    """As the webhook leaves it out; the others hold, on whichever page they are."""
    around = desk.around
    cluster = cast("Cluster", Odd(desk.cluster))
    preview = PodPreviewer(cluster, around.owners, around.clock, FeatureGates())
    name = pods_in(desk.sandbox)[0]["metadata"]["name"]
    (container,) = preview("default", name, snapshot_of(desk.sandbox)).containers
    assert container.gets["limits"]["cpu"] == "200m"


class Broken(Odd):
    """A cluster with a pod that cannot be."""

    def get(self, *_: object, **__: object) -> Json:
        """Return it."""
        found = make.pod_json(name="web-0")
        found["spec"]["containers"] = "none"
        return found


def test_an_unreadable_pod_is_named() -> None:
    """With the field that cannot be read."""
    desk = Desk()
    desk.authorities._cluster = cast("Cluster", Broken(desk.cluster))
    answer = desk.ask("/v1/namespaces/default/pods/web-0")
    assert answer.status_code == 500
    assert answer.json()["object"] == "Pod default/web-0"
    assert answer.json()["field"] == "spec.containers"
    assert answer.json()["detail"].startswith("Pod default/web-0: spec.containers")


@pytest.mark.parametrize(
    ("spec", "limits", "recommendation"),
    [
        pytest.param({}, None, "300m/300Mi = =", id="plain"),
        pytest.param({"startupBoost": BOOST}, None, "300m/300Mi = =", id="boost"),
        pytest.param({}, {"cpu": "2", "memory": "400Mi"}, "300m/300Mi = =", id="limit range"),
        pytest.param(
            {"resourcePolicy": {"containerPolicies": [
                {"containerName": "app", "controlledValues": "RequestsOnly"}
            ]}}, None, "2500m/150Mi = =", id="requests only",
        ),
        pytest.param(
            {"resourcePolicy": {"containerPolicies": [
                {"containerName": "app", "maxAllowed": {"cpu": "200m"}}
            ]}}, None, "300m/300Mi = =", id="policy",
        ),
    ],
)  # fmt: skip
def test_the_next_pod_gets_it(spec: Json, limits: Json | None, recommendation: str) -> None:
    """What is told of a pod is what the one that takes its place gets of the webhook."""
    stage = Stage()
    if limits is not None:
        stage.apply(make.limit_range_json(most=limits))
    stage.apply(deployment("web"), vpa(mode="Initial", spec=spec))
    stage.run(30)
    stage.recommend(recommendation)
    stage.run(90)
    cluster, clock = stage.sandbox.cluster, stage.clock
    preview = PodPreviewer(cluster, NoOwners(), clock, stage.settings.deciding.gates)
    (before,) = stage.pods()
    name = before["metadata"]["name"]
    (told,) = preview("default", name, snapshot_of(stage.sandbox)).containers
    cluster.delete(Ref(PODS, "default", name))
    stage.run(5)

    (after,) = stage.pods()
    resources = after["spec"]["containers"][0]["resources"]
    assert told.gets == resources
    assert told.now != resources


@pytest.mark.parametrize(("native_sidecars", "expected"), [(True, "150m"), (False, "10m")])
def test_sidecars(native_sidecars: bool, expected: str) -> None:
    """What a native sidecar would get is told too; other init containers are not told of."""
    stage = Stage()
    found = deployment("web")
    small = {"requests": {"cpu": "10m"}}
    found["spec"]["template"]["spec"]["initContainers"] = [
        {"name": "setup", "image": "i", "resources": small},
        {"name": "proxy", "image": "i", "resources": small, "restartPolicy": "Always"},
    ]
    stage.apply(found, vpa(mode="Initial"))
    stage.run(30)
    stage.recommend("150m = = for proxy")
    gates = stage.settings.deciding.gates
    preview = PodPreviewer(
        stage.sandbox.cluster, NoOwners(), stage.clock, gates, native_sidecars=native_sidecars
    )
    (before,) = stage.pods()
    told = preview("default", before["metadata"]["name"], snapshot_of(stage.sandbox)).containers
    assert [one.name for one in told] == ["app", "proxy"]
    assert told[1].now["requests"]["cpu"] == "10m"
    assert told[1].gets["requests"]["cpu"] == expected
