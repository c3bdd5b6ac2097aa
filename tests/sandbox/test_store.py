"""Versions, who is told of changes, owners; lists that go on too late, and followers."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import pytest

from app.model.errors import Gone
from app.ports import NAMESPACES, PODS, SECRETS, Delta, Json, PatchKind, Ref, Resource
from app.sandbox.store import UNFINISHED_LISTS, Stale, Store, StoredChange
from tests.cases import cases
from tests.sandbox.worlds import SteppedSandbox, pod


def thing(name: str, uid: str = "", **spec: object) -> Json:
    """An object of no kind."""
    return {"metadata": {"name": name, "namespace": "ns", "uid": uid or name}, "spec": spec}


def test_each_change_has_a_version_of_its_own() -> None:
    """The counter is one for all collections, and every change is told to listeners."""
    store = Store()
    told: list[tuple[str, StoredChange]] = []
    store.listen(lambda collection, change: told.append((collection, change)))
    first = store.insert("a", thing("x"))
    second = store.insert("b", thing("y"))
    changed = store.replace("a", first, thing("x", size=1))
    store.remove("b", second)

    versions = [change.version for _, change in told]
    assert versions == list(range(versions[0], versions[0] + 4))
    assert [collection for collection, _ in told] == ["a", "b", "a", "b"]
    assert (told[2][1].before, told[2][1].after) == (first, changed)
    assert store.version == versions[-1]


def test_nobody_writes_over_what_they_did_not_read() -> None:
    """An object that changed or went since it was read is stale, and so is a name taken."""
    store = Store()
    first = store.insert("a", thing("x"))
    store.replace("a", first, thing("x", size=1))

    with pytest.raises(Stale):
        store.replace("a", first, thing("x", size=2))
    with pytest.raises(Stale):
        store.remove("a", first)
    with pytest.raises(Stale):
        store.insert("a", thing("x"))


def test_owners_are_indexed() -> None:
    """Dependents are found by the uid of their owner, as long as they name it."""
    store = Store()
    owned = thing("x")
    owned["metadata"]["ownerReferences"] = [{"uid": "o1"}, {"uid": "o2"}]
    item = store.insert("a", owned)
    other = thing("x")
    other["metadata"]["ownerReferences"] = [{"uid": "o2"}]
    assert store.owned_by("o1") == [("a", item)]
    item = store.replace("a", item, other)

    assert (store.owned_by("o1"), store.owned_by("o2")) == ([], [("a", item)])
    assert store.exists("x")
    store.remove("a", item)
    assert store.owned_by("o2") == []
    assert not store.exists("x")


def test_a_list_that_goes_on_too_late_is_gone() -> None:
    """A list that many others followed before it was read to its end is not kept."""
    cluster = SteppedSandbox().sandbox.cluster
    for number in range(3):
        cluster.create(Ref(SECRETS, "default"), {"metadata": {"name": f"s-{number}"}})
    page = cluster.list(SECRETS, limit=1)
    for _ in range(UNFINISHED_LISTS):
        cluster.list(SECRETS, limit=1)

    with pytest.raises(Gone, match="start a new list"):
        cluster.list(SECRETS, limit=1, continue_token=page.continue_token)


@cases(
    "resource asked",
    {
        "kind": (NAMESPACES, {}),
        "namespace": (SECRETS, {"namespace": "default"}),
        "labels": (SECRETS, {"label_selector": "app"}),
        "fields": (SECRETS, {"field_selector": "type=Opaque"}),
    },
)
def test_a_list_goes_on_as_it_began(resource: Resource, asked: dict[str, str]) -> None:
    """The token of a list is refused where something else is asked for."""
    cluster = SteppedSandbox().sandbox.cluster
    for name in ("one", "two"):
        cluster.create(Ref(SECRETS, "default"), {"metadata": {"name": name}})
    token = cluster.list(SECRETS, limit=1).continue_token

    with pytest.raises(Gone, match="start a new list"):
        cluster.list(resource, **asked, limit=1, continue_token=token)


class Heard:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []

    def __call__(self, news: Sequence[Delta], _whole: bool) -> None:
        """Note names, and whether the objects are there."""
        self.told += [(found.name, found.object is not None) for found in news]


def followed(world: SteppedSandbox, fields: str = "", namespace: str = "") -> Heard:
    """Follow the pods."""
    heard = Heard()
    world.sandbox.follow(PODS, namespace, fields, heard).start()
    return heard


def test_what_is_there_is_told_at_once() -> None:
    """A follower begins with all objects."""
    world = SteppedSandbox()
    world.run(pod("one"), pod("two"))

    assert followed(world).told == [("one", True), ("two", True)]


def test_news_come_a_moment_later() -> None:
    """What happens is told when the clock moves, not within the call that did it."""
    world = SteppedSandbox()
    heard = followed(world)
    world.sandbox.apply(pod("one"))
    within_the_call = list(heard.told)
    world.step(0.1)

    assert (within_the_call, heard.told[:1]) == ([], [("one", True)])


def test_an_object_that_fits_no_more_is_gone() -> None:
    """Fields decide at every change, as a watch does."""
    world = SteppedSandbox()
    world.run(pod("one"), seconds=30)
    heard = followed(world, "status.phase!=Succeeded")
    status = {"status": {"phase": "Succeeded"}}
    world.sandbox.cluster.patch(
        Ref(PODS, "default", "one", subresource="status"), status, kind=PatchKind.MERGE
    )
    world.step(0.1)

    assert heard.told == [("one", True), ("one", False)]


def test_other_namespaces_are_not_told() -> None:
    """A follower of one namespace hears of no other."""
    world = SteppedSandbox()
    heard = followed(world, namespace="shop")
    world.sandbox.apply(pod("one"), pod("two", metadata={"namespace": "shop"}))
    world.step(0.1)

    assert {name for name, _ in heard.told} == {"two"}


def test_who_stopped_hears_nothing() -> None:
    """After its end a follower is not called."""
    world = SteppedSandbox()
    heard = Heard()
    follower = world.sandbox.follow(PODS, "", "", heard)
    follower.start()
    world.sandbox.apply(pod("one"))
    follower.stop()
    world.step(1)

    assert heard.told == []


def test_who_stopped_is_not_kept() -> None:
    """After its end a follower, and all that it knows, is no longer part of the cluster."""
    world = SteppedSandbox()
    follower = world.sandbox.follow(PODS, "", "", Heard())
    follower.start()
    world.sandbox.apply(pod("one"))
    world.step(1)
    follower.stop()
    left = weakref.ref(follower)
    del follower

    assert left() is None
