"""Lists that go on too late, and followers, who are told in the thread that moves the clock."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import pytest

from app.model.errors import Gone
from app.ports import NAMESPACES, PODS, SECRETS, Delta, PatchKind, Ref, Resource
from app.sandbox.reads import UNFINISHED_LISTS
from tests.cases import cases
from tests.sandbox.worlds import SteppedSandbox, pod


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
