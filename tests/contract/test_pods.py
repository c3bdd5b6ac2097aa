"""Pods as an API server takes them in: defaults, checks, what may change."""

from __future__ import annotations

import pytest

from app.model.errors import Invalid, NotFound
from app.ports import PODS, Json
from tests.cases import cases
from tests.contract.building import container, pod, resources
from tests.contract.space import Space


def first(item: Json) -> Json:
    """The first container of a pod."""
    found: Json = item["spec"]["containers"][0]
    return found


def test_defaults(space: Space) -> None:
    """A pod is created Pending, with a generation and all that it left out."""
    created = space.create(PODS, pod())
    spec = created["spec"]

    assert created["status"]["phase"] == "Pending"
    assert created["metadata"]["generation"] == 1
    assert (spec["restartPolicy"], spec["priority"]) == ("Always", 0)
    assert first(created)["resources"] == {}
    assert first(created)["terminationMessagePath"] == "/dev/termination-log"


def test_limits_make_requests(space: Space) -> None:
    """A limit without a request is a request too."""
    asked = resources({"cpu": "100m"}, {"cpu": "1", "memory": "1Gi"})
    created = space.create(PODS, pod("pod", container(resources=asked)))

    assert first(created)["resources"]["requests"] == {"cpu": "100m", "memory": "1Gi"}


@cases(
    "resource written read",
    {
        "decimal point": ("cpu", "0.5", "500m"),
        "whole cores": ("cpu", "1000m", "1"),
        "finer than a millicore is rounded up": ("cpu", "150500u", "151m"),
        "a number": ("cpu", 2, "2"),
        "largest suffix": ("memory", "1024Mi", "1Gi"),
        "exponent": ("memory", "1e9", "1e9"),
        "decimal suffix": ("memory", "1500M", "1500M"),
    },
)
def test_amounts_are_written_one_way(
    space: Space, resource: str, written: object, read: str
) -> None:
    """Quantities come back in their canonical form."""
    asked = {"requests": {resource: written}}
    created = space.create(PODS, pod("pod", container(resources=asked)))

    assert first(created)["resources"]["requests"] == {resource: read}


BOTH = {"cpu": "1", "memory": "1Gi"}


@cases(
    "requests limits expected",
    {
        "nothing asked": ({}, {}, "BestEffort"),
        "only requests": ({"cpu": "1"}, {}, "Burstable"),
        "only cpu": ({"cpu": "1"}, {"cpu": "1"}, "Burstable"),
        "limits of both": ({}, BOTH, "Guaranteed"),
        "more than asked for": (BOTH, BOTH | {"cpu": "2"}, "Burstable"),
    },
)
def test_quality_of_service(
    space: Space, requests: dict[str, str], limits: dict[str, str], expected: str
) -> None:
    """The class follows from requests and limits."""
    asked = resources(requests, limits)
    created = space.create(PODS, pod("pod", container(resources=asked)))

    assert created["status"]["qosClass"] == expected


def asking(requests: str, limits: str = "") -> list[Json]:
    """A container that asks for so much cpu."""
    return [container(resources=resources({"cpu": requests}, {"cpu": limits} if limits else None))]


@pytest.mark.parametrize(
    ("containers", "status", "message"),
    [
        (asking("2", "1"), 422, "must be less than or equal to cpu limit of 1"),
        (asking("-1"), 422, "must be greater than or equal to 0"),
        (asking("much"), 400, "quantities must match the regular expression"),
        ([container(), container()], 422, "Duplicate value"),
        ([container("No Name")], 422, "RFC 1123 label"),
    ],
    ids=["request above limit", "negative", "no quantity", "twins", "container's name"],
)
def test_bad_pods(space: Space, containers: list[Json], status: int, message: str) -> None:
    """What no kubelet could run is refused."""
    with pytest.raises(Invalid, match=message) as refused:
        space.create(PODS, pod("pod", *containers))

    assert refused.value.status == status


def test_pods_hardly_change(space: Space) -> None:
    """Labels and images may change; resources may not, by this door."""
    space.create(PODS, pod("pod", container(resources=resources({"cpu": "1"}))))
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "other:2"}]
    changed = space.patch(PODS, "pod", image)
    wanted = [{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "2"}]
    labels = {"metadata": {"labels": {"new": "label"}}}
    labelled = space.merge(PODS, "pod", labels)

    with pytest.raises(Invalid, match="pod updates may not change fields other than"):
        space.patch(PODS, "pod", wanted)
    assert first(changed)["image"] == "other:2"
    assert labelled["metadata"]["labels"]["new"] == "label"
    assert [item["metadata"]["generation"] for item in (changed, labelled)] == [2, 2]


def test_status_of_pods(space: Space) -> None:
    """A write of the status of a pod may say that it runs; the spec stays."""
    created = space.create(PODS, pod())
    ready = {"type": "Ready", "status": "True"}
    patch = {"spec": {"priority": 5}, "status": {"phase": "Running", "conditions": [ready]}}
    patched = space.merge(PODS, "pod", patch, "status")

    assert patched["status"]["phase"] == "Running"
    assert patched["spec"] == created["spec"]
    assert patched["metadata"]["generation"] == 1


def test_unscheduled_pods_go_at_once(space: Space) -> None:
    """There is nothing to end of a pod that has no node."""
    space.create(PODS, pod())
    space.delete(PODS, "pod")

    with pytest.raises(NotFound):
        space.get(PODS, "pod")
