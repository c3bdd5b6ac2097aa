"""A snapshot is a moment: changes make another one and leave the older as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.errors import BadObject
from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.scalers import HPA_KIND, scaler_key
from app.model.snapshot import (
    EMPTY_VIEW,
    Collection,
    Replacement,
    Snapshot,
    in_turns,
    object_identity,
    object_reader,
    removal,
    replacement,
    without_broken_status,
)
from app.model.vpa import Vpa
from tests import make
from tests.cases import cases
from tests.junk import objects_like

WEB = ObjectKey("", "StatefulSet", "web")
NIGHTLY = ObjectKey("", "CronJob", "x")


def names(vpas: tuple[Vpa, ...]) -> list[str]:
    """Return the names of VPAs, in their order."""
    return [vpa.name for vpa in vpas]


def gone(collection: Collection, key: object, namespace: str = "default") -> Replacement:
    """Return the change that takes an object away."""
    return Replacement(collection, namespace, key, None)


def test_objects_are_found_where_they_belong() -> None:
    """Every collection keeps its objects by name, controllers by key."""
    pod, workload, vpa = make.pod(), make.workload(), make.vpa()
    limits, budget, node = make.limit_range(most={"cpu": "1"}), make.budget(), make.node()
    snapshot = make.snapshot(pod, workload, vpa, limits, budget, node)
    view = snapshot.of("default")
    assert view.pods == {"web-0": pod}
    assert view.workloads == {WEB: workload}
    assert view.vpas == {"web": vpa}
    assert view.limit_ranges == {"limits": limits}
    assert view.budgets == {"web": budget}
    assert snapshot.nodes == {"node-1": node}
    assert view.limits.container is not None
    assert view.limits.container.most("cpu") == make.quantity("1")
    assert list(snapshot.namespaces) == ["default"]


def test_single_objects_are_found() -> None:
    """An object is found by collection, namespace and key; nodes have no namespace."""
    pod, node = make.pod(), make.node()
    snapshot = make.snapshot(pod, node)
    assert snapshot.value(Collection.PODS, "default", "web-0") is pod
    assert snapshot.value(Collection.NODES, "", "node-1") is node
    assert snapshot.value(Collection.PODS, "other", "web-0") is None


def test_an_unknown_namespace_is_empty() -> None:
    """Nothing is known of a namespace that nobody spoke of."""
    assert Snapshot().of("nowhere") is EMPTY_VIEW
    assert EMPTY_VIEW.rivals(WEB) == ()


def test_an_older_snapshot_stays() -> None:
    """Whoever holds a snapshot keeps its moment."""
    before = make.snapshot(make.vpa("a"), make.pod())
    after = before.changed([gone(Collection.VPAS, "a"), make.change(make.vpa("b"))])
    assert names(before.of("default").rivals(WEB)) == ["a"]
    assert names(after.of("default").rivals(WEB)) == ["b"]
    assert after.of("default").pods is before.of("default").pods


def test_untouched_namespaces_are_shared() -> None:
    """A change in one namespace costs nothing in the others."""
    before = make.snapshot(make.vpa("a"), make.vpa("b", namespace="other"))
    after = before.changed([make.change(make.vpa("c", namespace="other"))])
    assert after.of("default") is before.of("default")


def test_removing_what_is_not_there_is_harmless() -> None:
    """An object may be taken away twice."""
    snapshot = make.snapshot(make.vpa()).changed(
        [gone(Collection.VPAS, "x"), gone(Collection.NODES, "n", "")]
    )
    assert list(snapshot.of("default").vpas) == ["web"]


def test_an_empty_namespace_is_forgotten() -> None:
    """Namespaces that come and go leave nothing behind."""
    snapshot = make.snapshot(make.vpa(), make.pod())
    snapshot = snapshot.changed([gone(Collection.VPAS, "web"), gone(Collection.PODS, "web-0")])
    assert snapshot.namespaces == {}
    assert snapshot.changed([gone(Collection.PODS, "web-0")]).namespaces == {}


def test_limits_follow_their_ranges() -> None:
    """What LimitRanges ask for together is known at once, and forgotten with them."""
    snapshot = make.snapshot(make.vpa(), make.limit_range(most={"cpu": "1"}))
    after = snapshot.changed([gone(Collection.LIMIT_RANGES, "limits")])
    assert after.of("default").limits.container is None


def test_the_strongest_vpa_comes_first() -> None:
    """Of VPAs with one target the oldest is first, then the first by name."""
    snapshot = make.snapshot(
        make.vpa("young", created=timedelta(hours=1)),
        make.vpa("b", created=timedelta(days=1)),
        make.vpa("a", created=timedelta(days=1)),
        make.vpa("elsewhere", target="StatefulSet/other"),
        make.vpa("nowhere", target=None),
    )
    assert names(snapshot.of("default").rivals(WEB)) == ["a", "b", "young"]


def test_rivals_share_the_group_too() -> None:
    """A VPA for a kind of the same name in another group is no rival."""
    foreign = make.vpa("foreign", target="example.com/v1/StatefulSet/web")
    snapshot = make.snapshot(make.vpa("own"), foreign)
    view = snapshot.of("default")
    assert names(view.rivals(WEB)) == ["own"]
    assert names(view.rivals(ObjectKey("example.com", "StatefulSet", "web"))) == ["foreign"]


def test_a_vpa_may_move_to_another_target() -> None:
    """A changed target leaves the old place empty."""
    snapshot = make.snapshot(make.vpa("a")).changed(
        [make.change(make.vpa("a", target="StatefulSet/other"))]
    )
    view = snapshot.of("default")
    assert view.rivals(WEB) == ()
    assert names(view.rivals(ObjectKey("", "StatefulSet", "other"))) == ["a"]
    assert set(view.targets) == {ObjectKey("", "StatefulSet", "other")}


CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["StatefulSet/web", "StatefulSet/other", None, "gone"]),
        st.integers(0, 3),
    ),
    max_size=6,
)


@given(st.lists(CHANGES, max_size=5))
def test_the_index_of_targets_never_lies(batches: list[list[tuple[str, str | None, int]]]) -> None:
    """However changes are batched, the index is what one would build from the VPAs alone."""
    snapshot = Snapshot()
    for batch in batches:
        snapshot = snapshot.changed(
            gone(Collection.VPAS, name)
            if target == "gone"
            else make.change(make.vpa(name, target=target, created=timedelta(days=age)))
            for name, target, age in batch
        )
    view = snapshot.of("default")
    assert view.targets == make.snapshot(*view.vpas.values()).of("default").targets
    for place, vpas in view.targets.items():
        assert list(vpas) == sorted(
            (vpa for vpa in view.vpas.values() if vpa.target and vpa.target.key == place),
            key=lambda vpa: vpa.precedence,
        )


SCALED = st.lists(
    st.tuples(
        st.sampled_from(["gone", "Deployment/x", "Deployment/y", "example.com/v1/Shop/z"]),
        st.sampled_from(["vpa", "hpa", "owned"]),
        st.sampled_from(["x", "y"]),
        st.sampled_from(["cpu", "memory"]),
    ),
    max_size=6,
)
GONE: Mapping[str, Callable[[str], Replacement]] = {
    "vpa": lambda name: gone(Collection.VPAS, name),
    "hpa": lambda name: gone(Collection.SCALERS, scaler_key(HPA_KIND, name)),
    "owned": lambda name: gone(Collection.WORKLOADS, ObjectKey("", "Deployment", name)),
}
COMES: Mapping[str, Callable[[str, str, str], Json | Vpa]] = {
    "vpa": lambda name, target, _: make.vpa(name, target=target),
    "hpa": lambda name, target, resource: make.hpa_json(
        make.metric_json(resource, 70), name=name, target=target
    ),
    "owned": lambda name, owner, _: make.workload_json(f"Deployment/{name}", owner=owner),
}


@given(st.lists(SCALED, max_size=5))
def test_what_scales_is_known_whatever_comes_first(
    batches: list[list[tuple[str, str, str, str]]],
) -> None:
    """However changes are mixed, each VPA knows what scales its target, or what that owns, now."""
    snapshot = Snapshot()
    known: dict[tuple[str, str], tuple[str, str]] = {}  # kind and name: target and resource
    for batch in batches:
        changes = []
        for target, kind, name, resource in batch:
            known.pop((kind, name), None)
            if target == "gone":
                changes.append(GONE[kind](name))
            else:
                known[kind, name] = target, resource
                changes.append(make.change(COMES[kind](name, target, resource)))
        snapshot = snapshot.changed(changes)
    view = snapshot.of("default")
    assert view.vpas.keys() == {name for kind, name in known if kind == "vpa"}
    for name, vpa in view.vpas.items():
        expected = []
        for kind, hpa in known:
            above, resource = known[kind, hpa]
            reached: set[str] = set()
            while kind == "hpa" and above not in reached:
                reached.add(above)
                above, _ = known.get(("owned", above.partition("/")[2]), (above, ""))
            if known["vpa", name][0] in reached:
                expected.append(resource)
        assert sorted(metric.resource for metric in vpa.scaled_by) == sorted(expected)
        assert vpa.target is not None
        assert any(vpa is rival for rival in view.rivals(vpa.target.key))


ALL = [
    pytest.param(
        make.hpa_json(), Collection.SCALERS, ObjectKey("autoscaling", HPA_KIND, "web"), id="HPA"
    ),
    pytest.param(
        make.scaled_object_json(),
        Collection.SCALERS,
        ObjectKey("keda.sh", "ScaledObject", "web"),
        id="ScaledObject",
    ),
    pytest.param(make.vpa_json(), Collection.VPAS, "web", id="VPA"),
    pytest.param(make.pod_json(), Collection.PODS, "web-0", id="pod"),
    pytest.param(make.limit_range_json(), Collection.LIMIT_RANGES, "limits", id="LimitRange"),
    pytest.param(make.node_json(), Collection.NODES, "node-1", id="node"),
    pytest.param(make.budget_json(), Collection.BUDGETS, "web", id="budget"),
    pytest.param(make.workload_json(), Collection.WORKLOADS, WEB, id="workload"),
    pytest.param(make.workload_json("CronJob/x"), Collection.WORKLOADS, NIGHTLY, id="CronJob"),
]


@pytest.mark.parametrize(("item", "collection", "key"), ALL)
def test_objects_come_and_go(item: Json, collection: Collection, key: object) -> None:
    """What brings an object into a snapshot is undone by its removal."""
    come = replacement(item)
    assert come is not None
    assert (come.collection, come.namespace, come.key) == (collection, "default", key)
    assert come.value is not None
    gone = removal(*object_identity(item))
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
    assert object_reader(api_version, kind) is None
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
        object_identity(make.with_value(make.pod_json(), path, 1))
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
def test_anything_is_placed_or_refused(item: Json) -> None:
    """Whatever comes, it has a place, has none, or is a bad object."""
    try:
        come = replacement(item)
    except BadObject:
        return
    assert come is None or come.value is not None


@cases(
    "first order",
    {
        "the first": (0, "a1 b1 c1 a2 c2 a3"),
        "the next": (1, "b1 c1 a1 c2 a2 a3"),
        "round again": (5, "c1 a1 b1 c2 a2 a3"),
    },
)
def test_turns(first: int, order: str) -> None:
    """Each namespace has one item before any has two; another one begins each time."""
    items = {"a": ["a1", "a2", "a3"], "b": ["b1"], "c": ["c1", "c2"]}
    assert " ".join(in_turns(items, first)) == order


def test_turns_of_none() -> None:
    """Where there is nothing, none has a turn."""
    assert list(in_turns({"a": []}, 3)) == []
    assert list(in_turns({}, 3)) == []
