"""Controllers are read with their owner, their selector and their size."""

from __future__ import annotations

import pytest
from hypothesis import given

from app.model.errors import BadObject
from app.model.kinds import ObjectKey
from app.model.workloads import Rollout, read_workload, scaled_workload
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


def test_without_template() -> None:
    """Whoever needs neither template nor rollout does not keep them."""
    found = read_workload(FULL, with_template=False)
    assert found.rollout is None
    assert found.template == ()
    assert found.selector == read_workload(FULL).selector


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


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Deployment", {}),
        ("ReplicationController", {}),
        ("CronJob", {}),
        ("CronJob", {"jobTemplate": {"spec": {"template": {"metadata": {"labels": None}}}}}),
    ],
)
def test_no_selector_selects_nothing(kind: str, spec: dict[str, object]) -> None:
    """A controller that does not say which pods are its own has none."""
    found = read_workload({"apiVersion": make.API_VERSIONS[kind], "kind": kind, "spec": spec})
    assert not found.selector.matches({})
    assert not found.selector.matches(make.LABELS)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Deployment", {"selector": {}}),
        ("ReplicationController", {"selector": {}}),
        ("CronJob", {"jobTemplate": {"spec": {"template": {"metadata": {"labels": {}}}}}}),
    ],
)
def test_an_empty_selector_selects_everything(kind: str, spec: dict[str, object]) -> None:
    """An empty selector is there, and asks for nothing."""
    found = read_workload({"apiVersion": make.API_VERSIONS[kind], "kind": kind, "spec": spec})
    assert found.selector.matches({})


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


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("kind", 1),
        ("apiVersion", 1),
        ("metadata", []),
        ("metadata.name", 1),
        ("metadata.namespace", 1),
        ("metadata.generation", "5"),
        ("metadata.ownerReferences[0].kind", 1),
        ("spec", "x"),
        ("spec.replicas", "3"),
        ("spec.selector", []),
        ("spec.selector.matchLabels", "x"),
        ("spec.template", []),
        ("spec.template.spec", 1),
        ("spec.template.spec.containers", {}),
        ("spec.template.spec.containers[0].resources.requests[cpu]", "x"),
        ("spec.updateStrategy", 1),
        ("spec.updateStrategy.rollingUpdate", 1),
        ("spec.updateStrategy.rollingUpdate.partition", "2"),
        ("status", 1),
        ("status.replicas", "3"),
        ("status.updatedReplicas", 0.5),
        ("status.currentRevision", 1),
        ("status.desiredNumberScheduled", "9"),
    ],
)
def test_wrong_values(path: str, value: object) -> None:
    """What is wrong is told with its path."""
    with pytest.raises(BadObject) as caught:
        read_workload(make.with_value(FULL, path, value))
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("CronJob", "spec.jobTemplate"),
        ("CronJob", "spec.jobTemplate.spec"),
        ("CronJob", "spec.jobTemplate.spec.template"),
        ("CronJob", "spec.jobTemplate.spec.template.metadata.labels"),
        ("CronJob", "spec.jobTemplate.spec.template.spec.containers"),
        ("ReplicationController", "spec.selector"),
    ],
)
def test_wrong_values_of_other_kinds(kind: str, path: str) -> None:
    """Each kind tells its own paths."""
    with pytest.raises(BadObject) as caught:
        read_workload(make.with_value(make.workload_json(f"{kind}/x"), path, 1))
    assert caught.value.path == path


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


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", 1),
        ("spec.replicas", "4"),
        ("status.selector", {}),
        ("status.selector", "a in (b"),
        ("metadata.ownerReferences", {}),
    ],
)
def test_wrong_scales(path: str, value: object) -> None:
    """What is wrong in a scale subresource is told with its path."""
    with pytest.raises(BadObject) as caught:
        scaled_workload("", "", "Gadget", make.with_value(SCALE, path, value))
    assert caught.value.path == path


@given(objects_like(FULL) | objects_like(make.workload_json("CronJob/x")))
def test_anything_is_read_or_refused(item: make.Json) -> None:
    """Whatever is sent as a controller, it is one or a bad object."""
    try:
        found = read_workload(item)
    except BadObject:
        return
    assert found.selector.matches(make.LABELS) in {True, False}


@given(objects_like(SCALE))
def test_any_scale_is_read_or_refused(item: make.Json) -> None:
    """Whatever a scale subresource holds, it is a controller or a bad object."""
    try:
        found = scaled_workload("default", "example.com/v1", "Gadget", item)
    except BadObject:
        return
    assert found.key.kind == "Gadget"
