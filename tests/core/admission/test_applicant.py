"""Applicants: what counts of a pod, and nothing else."""

from __future__ import annotations

import pytest

from app.core.admission.applicant import read_applicant
from app.model.errors import BadObject
from tests import make

POD = make.pod_json(cpu="100m", init=[make.container_json("setup", restartPolicy="Always")])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("metadata.name", "other", id="the name"),
        pytest.param("metadata.labels", {"app": "other"}, id="labels, which matching sees"),
        pytest.param("metadata.annotations", None, id="no annotations, as before"),
        pytest.param("spec.containers[0].image", "other", id="an image"),
        pytest.param("spec.nodeName", "n", id="a node"),
        pytest.param("status", {"phase": "Running"}, id="a status"),
    ],
)
def test_signature_leaves_out(path: str, value: object) -> None:
    """Pods that differ in what sizing never looks at have one signature."""
    other = make.with_value(POD, path, value)
    assert read_applicant(other, "ns").signature == read_applicant(POD, "ns").signature


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("metadata.annotations", {}, id="annotations are there"),
        pytest.param("spec.containers[0].name", "b", id="a container's name"),
        pytest.param("spec.containers[0].resources", None, id="its resources"),
        pytest.param("spec.initContainers[0].restartPolicy", None, id="a sidecar"),
        pytest.param("spec.resources", {"limits": {"cpu": "1"}}, id="the pod's resources"),
    ],
)
def test_signature_holds(path: str, value: object) -> None:
    """Whatever changes sizes or patch changes the signature."""
    other = make.with_value(POD, path, value)
    assert read_applicant(other, "ns").signature != read_applicant(POD, "ns").signature


def test_signature_of_numbers_beyond_json() -> None:
    """Numbers that no API server sends are no reason to fail."""
    huge = make.with_value(POD, "spec.containers[0].resources.requests.cpu", 2**70)
    assert read_applicant(huge, "ns").signature != read_applicant(POD, "ns").signature


@pytest.mark.parametrize("path", ["metadata.labels", "spec.containers[0].resources"])
def test_depths_beyond_json(path: str) -> None:
    """What nests deeper than anything that counts is told, and breaks nothing."""
    deep: object = {}
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(BadObject, match="nested too deeply"):
        read_applicant(make.with_value(POD, path, deep), "ns")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("metadata.labels", {"app": "other"}, id="labels"),
        pytest.param("metadata.ownerReferences", [], id="owners"),
    ],
)
def test_origin_holds(path: str, value: object) -> None:
    """Whatever matching looks at changes the origin, and so does the namespace."""
    other = make.with_value(POD, path, value)
    assert read_applicant(other, "ns").origin != read_applicant(POD, "ns").origin
    assert read_applicant(POD, "other").origin != read_applicant(POD, "ns").origin
    assert read_applicant(other, "ns").signature == read_applicant(POD, "ns").signature


def read_all(item: make.Json) -> None:
    """Read all that counts of a pod."""
    applicant = read_applicant(item, "ns")
    assert applicant.labels is not None
    assert applicant.controller is not None


@pytest.mark.parametrize(
    ("path", "value", "wrong"),
    [
        pytest.param("metadata.name", 1, "metadata.name", id="name"),
        pytest.param("metadata.generateName", [], "metadata.generateName", id="generateName"),
        pytest.param("metadata.annotations", {"a": 1}, "metadata.annotations[a]", id="annotations"),
        pytest.param("metadata.labels", [], "metadata.labels", id="labels"),
        pytest.param("metadata.ownerReferences", {}, "metadata.ownerReferences", id="owners"),
        pytest.param("spec.containers", 5, "spec.containers", id="containers"),
    ],
)
def test_wrong_types_are_named(path: str, value: object, wrong: str) -> None:
    """What counts and has a wrong type is told with its path."""
    with pytest.raises(BadObject) as caught:
        read_all(make.with_value(POD, path, value))
    assert caught.value.path == wrong


def test_title() -> None:
    """A pod without a name is called after what it will be named from."""
    assert read_applicant(POD, "ns").title == "web-0"
    generated = make.with_value(POD, "metadata", {"generateName": "web-"})
    assert read_applicant(generated, "ns").title == "web-%"


def test_pod_holds_all_that_sizing_reads() -> None:
    """The pod of an applicant has the containers of the object, in the review's namespace."""
    pod = read_applicant(POD, "ns").pod()
    assert pod.namespace == "ns"
    assert [container.name for container in pod.containers] == ["app"]
    assert [container.restart_policy for container in pod.init_containers] == ["Always"]
