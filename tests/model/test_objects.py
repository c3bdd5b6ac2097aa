"""Any object is read by its kind and finds its place in a snapshot."""

from __future__ import annotations

import pytest
from hypothesis import given

from app.model.errors import BadObject
from app.model.kinds import ObjectKey
from app.model.objects import identity, reading, removal, replacement, without_broken_status
from app.model.snapshot import Collection, Snapshot
from tests import make
from tests.junk import objects_like

ALL = [
    pytest.param(make.vpa_json(), Collection.VPAS, "web", id="VPA"),
    pytest.param(make.pod_json(), Collection.PODS, "web-0", id="pod"),
    pytest.param(make.limit_range_json(), Collection.LIMIT_RANGES, "limits", id="LimitRange"),
    pytest.param(make.node_json(), Collection.NODES, "node-1", id="node"),
    pytest.param(make.budget_json(), Collection.BUDGETS, "web", id="budget"),
    pytest.param(
        make.workload_json(),
        Collection.WORKLOADS,
        ObjectKey("", "StatefulSet", "web"),
        id="workload",
    ),
    pytest.param(
        make.workload_json("CronJob/x"),
        Collection.WORKLOADS,
        ObjectKey("", "CronJob", "x"),
        id="CronJob",
    ),
]


@pytest.mark.parametrize(("item", "collection", "key"), ALL)
def test_objects_come_and_go(item: make.Json, collection: Collection, key: object) -> None:
    """What brings an object into a snapshot is undone by its removal."""
    come = replacement(item)
    assert come is not None
    assert (come.collection, come.namespace, come.key) == (collection, "default", key)
    assert come.value is not None
    gone = removal(*identity(item))
    assert gone == come._replace(value=None)
    assert Snapshot().changed([come]) != Snapshot()
    assert Snapshot().changed([come]).changed([gone]) == Snapshot()


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "ConfigMap"),
        ("example.com/v1", "Deployment"),
        ("example.com/v1", "Pod"),
        ("v1", "VerticalPodAutoscaler"),
        ("", ""),
    ],
)
def test_other_kinds_have_no_place(api_version: str, kind: str) -> None:
    """A kind that no snapshot holds is no error, also one that only has a known name."""
    assert reading(api_version, kind) is None
    assert replacement({"apiVersion": api_version, "kind": kind}) is None
    assert removal(api_version, kind, "default", "x") is None


def test_no_namespace_means_default() -> None:
    """An object from a file without a namespace lives where kubectl would put it."""
    come = replacement(make.pod_json(namespace=None))
    assert come is not None
    assert come.namespace == come.value.namespace == "default"


@pytest.mark.parametrize("path", ["apiVersion", "kind", "metadata.name", "metadata.namespace"])
def test_wrong_identities(path: str) -> None:
    """What is wrong is told with its path."""
    with pytest.raises(BadObject) as caught:
        identity(make.with_value(make.pod_json(), path, 1))
    assert caught.value.path == path


def test_a_broken_status_can_be_left_out() -> None:
    """What only a status spoils is read without it; what the rest spoils is not read."""
    item = make.with_value(make.vpa_json(cpu="1"), "status.conditions", 7)
    with pytest.raises(BadObject) as caught:
        replacement(item)
    come = replacement(without_broken_status(item, caught.value))
    assert come is not None
    assert (come.value.target.name, come.value.recommendation) == ("web", None)
    error = BadObject("spec.targetRef", "is wrong")
    with pytest.raises(BadObject) as again:
        without_broken_status(item, error)
    assert again.value is error


@given(objects_like(make.pod_json()) | objects_like(make.workload_json()))
def test_anything_is_placed_or_refused(item: make.Json) -> None:
    """Whatever comes, it has a place, has none, or is a bad object."""
    try:
        come = replacement(item)
    except BadObject:
        return
    assert come is None or come.value is not None
