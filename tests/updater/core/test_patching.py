"""Patches that resize a pod and mark what was done."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.fields import Json
from app.model.patches import apply, merge
from app.model.quantity import Quantity
from app.updater.core.decisions import ContainerChange, PodChange
from app.updater.core.patching import (
    annotation_patch,
    last_updated,
    memory_raised,
    raised_annotations,
    read_time,
    resize_patch,
    updated_annotations,
    without_raised_annotations,
)
from tests import make
from tests.cases import cases
from tests.updater.core.scenes import NOW, amounts, container, read, running, sidecar


def quantities(text: str) -> dict[str, Quantity]:
    """Read `cpu/memory`."""
    return {name: make.quantity(word) for name, word in amounts(text).items()}


def to(requests: str, limits: str = "-", index: int = 0) -> PodChange:
    """Return a change of one container."""
    return PodChange((ContainerChange(index, "app", quantities(requests), quantities(limits)),))


def operation(path: str, value: object) -> Json:
    """Return an operation on the first container's resources."""
    return {"op": "add", "path": f"/spec/containers/0/resources{path}", "value": value}


@pytest.mark.parametrize(
    ("item", "change", "expected"),
    [
        (
            container("app", "100m/100Mi"),
            to("200m/200Mi"),
            [operation("/requests/cpu", "200m"), operation("/requests/memory", "200Mi")],
        ),
        (
            container("app", "100m/100Mi", "300m/400Mi"),
            to("200m/200Mi", "600m/800Mi"),
            [
                operation("/requests/cpu", "200m"),
                operation("/requests/memory", "200Mi"),
                operation("/limits/cpu", "600m"),
                operation("/limits/memory", "800Mi"),
            ],
        ),
        (
            container("app"),
            to("200m"),
            [operation("", {}), operation("/requests", {}), operation("/requests/cpu", "200m")],
        ),
        (
            container("app", "-", "1"),
            to("200m"),
            [operation("/requests", {}), operation("/requests/cpu", "200m")],
        ),
        (container("app"), to("-"), [operation("", {})]),
        (container("app", "1"), to("-"), []),
    ],
)
def test_resize_patch(item: Json, change: PodChange, expected: list[Json]) -> None:
    """Only what is missing is created, only what is given is written; without any, nothing."""
    patch = resize_patch(read(running(item)), change)
    assert [operation for operation in patch if operation["op"] != "test"] == expected
    assert bool(patch) == bool(expected)


def test_odd_names_are_escaped_and_come_last() -> None:
    """A resource may hold a slash; order is cpu, memory, the others by name."""
    amounts_ = {name: Quantity.of_units(1) for name in ("b/x~y", "memory", "a", "cpu")}
    change = PodChange((ContainerChange(0, "app", amounts_, {}),))
    paths = [
        item["path"].rpartition("requests/")[2]
        for item in resize_patch(read(running(container("app", "1"))), change)
        if item["op"] == "add"
    ]
    assert paths == ["cpu", "memory", "a", "b~1x~0y"]


def test_patches_are_for_the_pod_that_was_looked_at() -> None:
    """Both hold for its uid alone, and containers are tested by name."""
    pod = read(running(container("app", "1")))
    test = {"op": "test", "path": "/metadata/uid", "value": "uid-web-0"}
    name = {"op": "test", "path": "/spec/containers/0/name", "value": "app"}
    assert resize_patch(pod, to("2"))[:2] == [test, name]
    metadata = {"uid": "uid-web-0", "annotations": {"a": "b", "c": None}}
    assert annotation_patch(pod, PodChange((), (("a", "b"), ("c", None)))) == {"metadata": metadata}


@pytest.mark.parametrize(
    ("annotations", "changes", "expected"),
    [
        (None, (), None),
        (None, (("a", "1"),), {"a": "1"}),
        ({"a": "0", "b/c": "x"}, (("a", "1"), ("b/c", None)), {"a": "1"}),
    ],
)
def test_annotation_patch(
    annotations: Mapping[str, str] | None,
    changes: tuple[tuple[str, str | None], ...],
    expected: Mapping[str, str] | None,
) -> None:
    """Annotations are set and removed, whatever others wrote meanwhile; no change is no patch."""
    item = running(annotations=annotations)
    patch = annotation_patch(read(item), PodChange((), changes))
    assert bool(patch) == bool(changes)
    meanwhile = merge(item, {"metadata": {"annotations": {"others": "x", "b/c": None}}})
    found = merge(meanwhile, patch)["metadata"]["annotations"]
    assert found == {"others": "x"} | dict(expected or {})


def test_marks_of_an_update() -> None:
    """The mark is upstream's; the time beside it is ours, and comes back as it was written."""
    marks = dict(updated_annotations(NOW))
    assert marks == {
        "vpaInPlaceUpdated": "true",
        "vpaInPlaceUpdatedAt": "2026-01-05T10:00:00Z",
    }
    assert dict(updated_annotations(None)) == {"vpaInPlaceUpdated": "true"}
    assert dict(updated_annotations(NOW, "web")) == marks | {"vpaInPlaceUpdatedBy": "web"}
    pod = make.pod(annotations=marks)
    assert last_updated(pod, NOW) == NOW


def test_a_time_to_come_is_none() -> None:
    """A stamp from a clock far ahead would keep hands off the pod for as long."""
    pod = make.pod(annotations=dict(updated_annotations(NOW)))
    assert last_updated(pod, NOW - timedelta(seconds=30)) == NOW
    assert last_updated(pod, NOW - timedelta(hours=1)) is None


@pytest.mark.parametrize(
    ("requests", "limits", "is_raised"),
    [
        ("200m", "-", False),
        ("-/1Gi", "-", False),
        ("-/512Mi", "-", False),
        ("-/2Gi", "-", True),
        ("-", "-/2Gi", True),
        ("200m/512Mi", "-/512Mi", False),
    ],
)
def test_marks_of_more_memory(requests: str, limits: str, is_raised: bool) -> None:
    """Only a change that gives a container more memory leaves the mark of it."""
    pod = read(running(container("app", "100m/1Gi", "-/1Gi"), container("b", "100m")))
    changes = (
        ContainerChange(1, "b", {"cpu": make.quantity("1")}, {}),
        ContainerChange(0, "app", quantities(requests), quantities(limits)),
    )
    marks = dict(raised_annotations(pod, changes, NOW))
    assert marks == ({"vpaMemoryRaisedAt/app": "2026-01-05T10:00:00Z"} if is_raised else {})
    marked = make.pod(annotations={"a": "b"} | {key: text or "" for key, text in marks.items()})
    assert memory_raised(marked, "app", NOW) == (NOW if is_raised else None)


@cases(
    "requests limits is_unmarked",
    {
        "less is requested again": ("-/512Mi", "-", True),
        "the limit is lower again": ("-", "-/512Mi", True),
        "cpu alone goes back": ("50m", "-", False),
        "a decrease is taken back": ("-/2Gi", "-/2Gi", False),
    },
)
def test_marks_of_memory_that_was_not_had(requests: str, limits: str, is_unmarked: bool) -> None:
    """Only a container whose memory goes back again loses its mark; those of others stay."""
    marks = {f"vpaMemoryRaisedAt/{name}": "2026-01-05T10:00:00Z" for name in ("app", "b")}
    sizes = (container("app", "100m/1Gi", "-/1Gi"), container("b", "100m/1Gi"))
    pod = read(running(*sizes, annotations=marks))
    changes = (
        ContainerChange(0, "app", quantities(requests), quantities(limits)),
        ContainerChange(1, "b", quantities("50m"), {}),
    )
    expected = {"vpaMemoryRaisedAt/app": None} if is_unmarked else {}
    assert dict(without_raised_annotations(pod, changes)) == expected
    assert dict(without_raised_annotations(read(running(*sizes)), changes)) == {}


def test_a_first_request_for_memory_is_more() -> None:
    """What had none gets more."""
    pod = read(running(container("app", "100m")))
    change = ContainerChange(0, "app", quantities("-/1Gi"), {})
    assert [key for key, _ in raised_annotations(pod, (change,), NOW)] == ["vpaMemoryRaisedAt/app"]


@pytest.mark.parametrize(
    "text", [None, "", "yesterday", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59-23:00"]
)
def test_times_that_are_none(text: str | None) -> None:
    """Garbage in an annotation counts as absent."""
    assert read_time(text) is None


def test_times_without_a_zone_are_utc() -> None:
    """As everywhere in Kubernetes."""
    assert read_time("2026-01-05T10:00:00") == NOW


CPU = st.integers(1, 10**6).map(Quantity.of_milli)
CHANGES = st.builds(
    lambda requests, limits: PodChange((ContainerChange(0, "app", requests, limits),)),
    st.dictionaries(st.sampled_from(["cpu", "memory", "x/y"]), CPU),
    st.dictionaries(st.sampled_from(["cpu", "memory"]), CPU),
)
CONTAINERS = st.sampled_from(
    [
        container("app"),
        container("app", "1"),
        container("app", "-", "1"),
        container("app", "1/1Gi", "1/1Gi"),
        make.container_json("app", resources={"claims": [{"name": "gpu"}]}),
        make.container_json("app", resources={}),
    ]
)


@given(CONTAINERS, CHANGES)
def test_patches_always_apply(item: Json, change: PodChange) -> None:
    """Whatever a container has, the patch brings what is wanted and loses nothing."""
    before = running(item)
    after = apply(before, resize_patch(read(before), change))
    has = after["spec"]["containers"][0].get("resources", {})
    wanted = change.containers[0]
    for word, amounts_ in (("requests", wanted.requests), ("limits", wanted.limits)):
        for name, amount in amounts_.items():
            assert has[word][name] == str(amount)
    for key, value in item.get("resources", {}).items():
        assert key in has
        assert isinstance(value, list) is False or has[key] == value


def test_a_sidecar_is_resized_where_it_stands() -> None:
    """The patch names the place among the init containers, ordinary ones not counted."""
    init = [container("setup", "9"), sidecar("proxy", "10m")]
    pod = read(running(container("app", "100m"), init=init))
    change = ContainerChange(1, "proxy", quantities("20m"), {})
    assert resize_patch(pod, PodChange((change,))) == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-web-0"},
        {"op": "test", "path": "/spec/initContainers/1/name", "value": "proxy"},
        {
            "op": "add",
            "path": "/spec/initContainers/1/resources/requests/cpu",
            "value": "20m",
        },
    ]
