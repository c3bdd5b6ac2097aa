"""Controllers are read with their owner, selector and size, also from custom objects."""

from __future__ import annotations

import pytest
from hypothesis import given

from app.model.errors import BadObject
from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.workloads import (
    CustomKind,
    Rollout,
    ScalePaths,
    read_custom_kind,
    read_workload,
    scale_custom,
    scaled_workload,
)
from tests import make
from tests.junk import objects_like

FULL = make.workload_json(
    "StatefulSet/web",
    owner="example.com/v1/Gadget/g",
    containers=[make.container_json(cpu="1")],
    metadata={"generation": 5},
    spec={"updateStrategy": {"rollingUpdate": {"partition": 2}}},
    status={
        "observedGeneration": 4,
        "replicas": 3,
        "updatedReplicas": 2,
        "currentRevision": "web-1",
        "updateRevision": "web-2",
    },
)
SCALE = {
    "metadata": {"name": "g", "uid": "u", "resourceVersion": "7"},
    "spec": {"replicas": 4},
    "status": {"selector": "app=web,tier in (a,b)"},
}


def test_a_full_workload() -> None:
    """Everything that is looked at is read."""
    found = read_workload(FULL)
    assert found.namespace == "default"
    assert found.key == ObjectKey("", "StatefulSet", "web")
    assert found.owner is not None
    assert found.owner.key == ObjectKey("example.com", "Gadget", "g")
    assert found.replicas == 3
    assert found.rollout == Rollout(5, 4, 3, 2, "web-1", "web-2", 2)
    assert found.template == (make.container(cpu="1"),)
    assert found.template_labels == make.LABELS


def test_without_template() -> None:
    """Whoever needs neither template nor rollout does not keep them."""
    found = read_workload(FULL, with_template=False)
    assert found.rollout is None
    assert (found.template, found.template_labels) == ((), None)
    assert found.selector == read_workload(FULL).selector


PROBE: Json = {"httpGet": {"port": 80}}


@pytest.mark.parametrize("with_template", [True, False])
def test_unprobed_containers(with_template: bool) -> None:
    """Containers and native sidecars that no probe finds ready are known, template or not."""
    containers = [
        make.container_json("ready", readinessProbe=PROBE),
        make.container_json("started", startupProbe=PROBE),
        make.container_json("alive", livenessProbe=PROBE),
        make.container_json("none", readinessProbe=None),
    ]
    init = [
        make.container_json("proxy", restartPolicy="Always"),
        make.container_json("probed", restartPolicy="Always", startupProbe=PROBE),
        make.container_json("setup"),
    ]
    item = make.workload_json(containers=containers)
    item["spec"]["template"]["spec"]["initContainers"] = init
    found = read_workload(item, with_template=with_template)
    assert found.unprobed == ("alive", "none", "proxy")


def test_kind_may_be_known_already() -> None:
    """Objects of a list do not repeat what the list is of."""
    item = {key: FULL[key] for key in ("metadata", "spec")}
    found = read_workload(item, kind="Deployment", api_version="apps/v1")
    assert found.key == ObjectKey("", "Deployment", "web")
    assert found.rollout is not None
    assert found.rollout.replicas == 0


@pytest.mark.parametrize(
    "kind",
    ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob",
        "ReplicationController"],
)  # fmt: skip
def test_selectors(kind: str) -> None:
    """Each kind keeps its selector at its own place, and its template as well."""
    found = make.workload(f"{kind}/web", containers=[make.container_json("x")])
    assert found.key == ObjectKey("", kind, "web")
    assert str(found.selector) == "app=web"
    assert [container.name for container in found.template] == ["x"]
    assert found.template_labels == make.LABELS


def template_labels(labels: object) -> Json:
    """Return the spec of a CronJob whose pods have labels."""
    return {"jobTemplate": {"spec": {"template": {"metadata": {"labels": labels}}}}}


@pytest.mark.parametrize(
    ("kind", "spec", "is_everything"),
    [
        ("Deployment", {}, False),
        ("ReplicationController", {}, False),
        ("CronJob", {}, False),
        ("CronJob", template_labels(None), False),
        ("Deployment", {"selector": {}}, True),
        ("ReplicationController", {"selector": {}}, True),
        ("CronJob", template_labels({}), True),
    ],
)
def test_missing_selectors_differ_from_empty_ones(
    kind: str, spec: dict[str, object], is_everything: bool
) -> None:
    """A selector that is not there selects nothing; an empty one asks for nothing."""
    found = read_workload({"apiVersion": make.API_VERSIONS[kind], "kind": kind, "spec": spec})
    assert found.selector.matches({}) is is_everything
    assert found.selector.matches(make.LABELS) is is_everything


def test_the_first_controller_owns() -> None:
    """An owner that does not control does not count; of several the first does."""
    references = [
        make.owner_json("Job/a", controller=False),
        make.owner_json("Job/b"),
        make.owner_json("Job/c"),
    ]
    found = read_workload(make.with_value(FULL, "metadata.ownerReferences", references))
    assert found.owner is not None
    assert found.owner.name == "b"
    assert make.workload().owner is None


def test_daemon_sets_count_nodes() -> None:
    """The size of a DaemonSet is how many nodes should run it."""
    found = make.workload("DaemonSet/web", status={"desiredNumberScheduled": 9})
    assert (found.replicas, found.desired_scheduled) == (None, 9)


def test_a_scale_subresource() -> None:
    """A custom controller is known by its scale subresource."""
    found = scaled_workload("default", "example.com/v1", "Gadget", SCALE)
    assert found.key == ObjectKey("example.com", "Gadget", "g")
    assert found.namespace == "default"
    assert found.replicas == 4
    assert found.owner is None
    assert found.selector.matches({"app": "web", "tier": "a"})
    assert not found.selector.matches({"app": "web"})


def test_a_scale_without_selector_selects_nothing() -> None:
    """A custom controller that does not tell its pods has none."""
    found = scaled_workload("default", "example.com/v1", "Gadget", {})
    assert not found.selector.matches({})
    assert found.replicas is None


def test_a_wrong_selector_of_a_scale() -> None:
    """A selector that cannot be read is told with its place."""
    with pytest.raises(BadObject) as caught:
        scaled_workload("", "", "Gadget", make.with_value(SCALE, "status.selector", "a in (b"))
    assert caught.value.path == "status.selector"


PATHS = ScalePaths(".spec.size", ".status.labelSelector")
DEFINITION = {
    "spec": {
        "group": "example.com",
        "names": {"kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "subresources": {
                    "scale": {
                        "specReplicasPath": ".spec.size",
                        "labelSelectorPath": ".status.labelSelector",
                    }
                },
            },
            {"name": "v2", "subresources": {"scale": {"specReplicasPath": ".spec.size"}}},
            {"name": "v3", "subresources": {"status": {}}},
            {"name": "v4", "served": True},
            {"name": "v5", "served": False},
        ],
    }
}
GADGET = {
    "apiVersion": "example.com/v1",
    "kind": "Gadget",
    "metadata": {
        "name": "g",
        "uid": "u",
        "resourceVersion": "3",
        "ownerReferences": [make.owner_json("Job/x")],
    },
    "spec": {"size": 4},
    "status": {"labelSelector": "app=web"},
}


def test_a_definition() -> None:
    """Each version that is served says for itself whether and how it is scaled."""
    found = read_custom_kind(DEFINITION)
    assert found == CustomKind(
        "example.com",
        "Gadget",
        is_namespaced=True,
        scales={"v1": PATHS, "v2": ScalePaths(".spec.size", ""), "v3": None, "v4": None},
    )


@pytest.mark.parametrize(("scope", "expected"), [("Cluster", False), ("Namespaced", True)])
def test_scopes(scope: str, expected: bool) -> None:
    """A definition says whether its objects live in namespaces."""
    definition = make.with_value(DEFINITION, "spec.scope", scope)
    assert read_custom_kind(definition).is_namespaced is expected


def test_a_custom_object_shows_its_scale() -> None:
    """Size and selector come from where the definition says; owners do not come along."""
    found = scale_custom(GADGET, "default", PATHS)
    assert found.key == ObjectKey("example.com", "Gadget", "g")
    assert found.namespace == "default"
    assert found.replicas == 4
    assert found.owner is None
    assert found.selector.matches({"app": "web"})
    assert not found.selector.matches({})


def test_a_selector_that_is_not_there() -> None:
    """Who does not say which pods are his has none."""
    for path in ("", ".status.labelSelector.deeper"):
        found = scale_custom(GADGET, "default", ScalePaths(".spec.size", path))
        assert found.replicas == 4
        assert not found.selector.matches({"app": "web"})


@pytest.mark.parametrize("path", ["", ".spec.none", ".spec.size.deeper"])
def test_replicas_that_are_not_there(path: str) -> None:
    """Without a number of replicas an API server does not show a scale."""
    with pytest.raises(BadObject) as caught:
        scale_custom(GADGET, "default", ScalePaths(path, ".status.labelSelector"))
    assert (caught.value.path, caught.value.message) == (path[1:], "does not exist")


@given(objects_like(DEFINITION), objects_like(GADGET))
def test_any_custom_object_is_read_or_refused(definition: Json, item: Json) -> None:
    """Whatever is sent as a definition and an object of it, it is read or a bad object."""
    try:
        found = read_custom_kind(definition)
        scaled = [scale_custom(item, "default", paths) for paths in found.scales.values() if paths]
    except BadObject:
        return
    assert all(workload.namespace == "default" for workload in scaled)
