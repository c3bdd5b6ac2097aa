"""Watches of an API server: what happened since a version, in order, and when they end.

The sandbox offers none: what follows it is called instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from app.model.errors import ClusterError, Gone
from app.ports import LEASES, PODS, SECRETS, VPAS, Clock, EventType, Json, Resource, WatchEvent
from tests.contract.building import lease, pod, secret, vpa
from tests.contract.conftest import KUBECONFIG
from tests.contract.space import Space

pytestmark = pytest.mark.skipif(not KUBECONFIG, reason="the sandbox offers no watches")


def told(events: Iterable[WatchEvent]) -> list[tuple[EventType, str]]:
    """What happened to whom, less the bookmarks."""
    return [
        (event.change, event.object["metadata"]["name"])
        for event in events
        if event.change is not EventType.BOOKMARK
    ]


def version_of(item: Json) -> str:
    """The version of an object."""
    return str(item["metadata"]["resourceVersion"])


def watch(
    space: Space, resource: Resource, version: str, *, seconds: int = 2, **selectors: str
) -> Iterator[WatchEvent]:
    """Watch the objects of the namespace from a version, for a while."""
    return space.cluster.watch(
        resource, space.namespace, resource_version=version, timeout_seconds=seconds, **selectors
    )


def test_changes_come_in_order(space: Space) -> None:
    """A watch tells every change after its version, each with the object as it then was."""
    old = space.create(SECRETS, secret("old"))
    new = space.create(SECRETS, secret("new"))
    changed = space.merge(SECRETS, "new", {"data": {"key": ""}})
    space.delete(SECRETS, "old")
    events = [
        event
        for event in watch(space, SECRETS, version_of(old))
        if event.change is not EventType.BOOKMARK
    ]

    assert told(events) == [
        (EventType.ADDED, "new"),
        (EventType.MODIFIED, "new"),
        (EventType.DELETED, "old"),
    ]
    assert [events[0].object, events[1].object] == [new, changed]
    versions = [int(version_of(event.object)) for event in events]
    assert versions == sorted(set(versions))


def test_a_watch_goes_on(space: Space) -> None:
    """What happens during a watch is told too."""
    first = space.create(SECRETS, secret())
    events = watch(space, SECRETS, version_of(first), seconds=10)
    seen = []
    for number in range(3):
        space.create(SECRETS, secret(f"s-{number}"))
        seen.append(next(events))

    assert told(seen) == [(EventType.ADDED, f"s-{number}") for number in range(3)]


def test_a_watch_resumes(space: Space) -> None:
    """A watch from the last version seen misses nothing and sees nothing twice."""
    item = space.create(SECRETS, secret())
    seen: list[WatchEvent] = []
    for number in range(4):
        space.merge(SECRETS, "first", {"data": {str(number): ""}})
        if number % 2:
            version = version_of(seen[-1].object if seen else item)
            events = watch(space, SECRETS, version)
            seen += [next(events), next(events)]

    assert [len(event.object["data"]) for event in seen] == [2, 3, 4, 5]


def test_a_watch_ends_by_itself(space: Space, clock: Clock) -> None:
    """Its time is over when it said, and it ends in silence."""
    version = version_of(space.create(SECRETS, secret()))
    begun = clock.monotonic()
    events = watch(space, SECRETS, version)

    assert told(events) == []
    assert 1 <= clock.monotonic() - begun <= 5


def test_bookmarks(space: Space) -> None:
    """Before it ends, a watch tells the version that it has come to."""
    version = version_of(space.create(SECRETS, secret()))
    for number in range(3):
        last = space.create(PODS, pod(f"pod-{number}"))
    events = list(watch(space, PODS, version, seconds=5))
    marks = [event.object for event in events if event.change is EventType.BOOKMARK]

    assert marks
    assert (marks[-1]["kind"], marks[-1]["apiVersion"]) == ("Pod", "v1")
    assert int(version_of(marks[-1])) >= int(version_of(last))
    assert not marks[-1]["metadata"].get("name")


def test_selectors_of_watches(space: Space) -> None:
    """What comes to match is added, what ceases to match is deleted, as it was before."""
    labels = {"watched": "yes"}
    first = space.create(SECRETS, secret())
    space.create(SECRETS, secret("other"))
    for change in (labels, {"watched": "no"}):
        space.merge(SECRETS, "first", {"metadata": {"labels": change}})
    space.create(SECRETS, secret("second", labels=labels))
    space.delete(SECRETS, "second")
    events = list(watch(space, SECRETS, version_of(first), label_selector="watched=yes"))

    assert told(events) == [
        (EventType.ADDED, "first"),
        (EventType.DELETED, "first"),
        (EventType.ADDED, "second"),
        (EventType.DELETED, "second"),
    ]
    assert events[1].object["metadata"]["labels"] == labels


def test_field_selectors_of_watches(space: Space) -> None:
    """Fields select the events of a watch as they select a list."""
    first = space.create(PODS, pod())
    running = {"status": {"phase": "Running"}}
    space.merge(PODS, "pod", running, "status")
    events = watch(space, PODS, version_of(first), field_selector="status.phase=Running")

    assert told(events) == [(EventType.ADDED, "pod")]


@pytest.mark.parametrize(("operator", "is_told"), [("=", True), ("!=", False)])
def test_namespaces_are_fields_of_watches(space: Space, operator: str, is_told: bool) -> None:
    """A watch of all Leases can leave out those of one namespace."""
    first = space.create(LEASES, lease(space.namespace))
    space.delete(LEASES, space.namespace)
    events = space.cluster.watch(
        LEASES,
        resource_version=version_of(first),
        field_selector=f"metadata.namespace{operator}{space.namespace}",
        timeout_seconds=2,
    )

    assert ((EventType.DELETED, space.namespace) in told(events)) is is_told


@pytest.mark.parametrize("version", ["", "0"])
def test_watches_from_no_version(space: Space, version: str) -> None:
    """Without a version a watch begins with all that is there."""
    space.create(SECRETS, secret("a"))
    space.create(SECRETS, secret("b"))
    events = watch(space, SECRETS, version)

    assert sorted(told(events)) == [(EventType.ADDED, "a"), (EventType.ADDED, "b")]


@pytest.mark.usefixtures("customs")
def test_a_version_too_old(space: Space) -> None:
    """Changes that are no longer known cannot be told: the watcher must list again."""
    space.create(VPAS, vpa())

    with pytest.raises(Gone) as refused:
        list(watch(space, VPAS, "1"))

    assert refused.value.reason in ("Expired", "Gone")


def test_a_version_that_is_none(space: Space) -> None:
    """Nonsense is refused, though in words of a server's own fault."""
    with pytest.raises(ClusterError, match="Invalid value"):
        list(watch(space, SECRETS, "x"))
