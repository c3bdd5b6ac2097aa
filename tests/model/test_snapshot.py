"""A snapshot is a moment: changes make another one and leave the older as it was."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from app.model.kinds import ObjectKey
from app.model.snapshot import EMPTY_VIEW, Collection, Replacement, Snapshot
from app.model.vpa import Vpa
from tests import make

WEB = ObjectKey("", "StatefulSet", "web")


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
            key=lambda vpa: vpa.strength,
        )
