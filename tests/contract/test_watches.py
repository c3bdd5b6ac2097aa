"""Watches of an API server: what happened since a version, in order, and when they end.

The sandbox offers none: what follows it is called instead.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from app.model.errors import ClusterError, Gone
from app.ports import (
    PODS,
    SECRETS,
    VPAS,
    Clock,
    Cluster,
    EventType,
    Json,
    PatchKind,
    Ref,
    WatchEvent,
)
from tests.contract.building import pod, secret, vpa
from tests.contract.conftest import KUBECONFIG

pytestmark = pytest.mark.skipif(not KUBECONFIG, reason="the sandbox offers no watches")
MERGE = PatchKind.MERGE


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


def test_changes_come_in_order(cluster: Cluster, namespace: str) -> None:
    """A watch tells every change after its version, each with the object as it then was."""
    old = cluster.create(Ref(SECRETS, namespace), secret("old"))
    new = cluster.create(Ref(SECRETS, namespace), secret("new"))
    changed = cluster.patch(Ref(SECRETS, namespace, "new"), {"data": {"key": ""}}, kind=MERGE)
    cluster.delete(Ref(SECRETS, namespace, "old"))
    events = [
        event
        for event in cluster.watch(
            SECRETS, namespace, resource_version=version_of(old), timeout_seconds=2
        )
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


def test_a_watch_goes_on(cluster: Cluster, namespace: str) -> None:
    """What happens during a watch is told too."""
    first = cluster.create(Ref(SECRETS, namespace), secret())
    events = cluster.watch(
        SECRETS, namespace, resource_version=version_of(first), timeout_seconds=10
    )
    seen = []
    for number in range(3):
        cluster.create(Ref(SECRETS, namespace), secret(f"s-{number}"))
        seen.append(next(events))

    assert told(seen) == [(EventType.ADDED, f"s-{number}") for number in range(3)]


def test_a_watch_resumes(cluster: Cluster, namespace: str) -> None:
    """A watch from the last version seen misses nothing and sees nothing twice."""
    item = cluster.create(Ref(SECRETS, namespace), secret())
    seen: list[WatchEvent] = []
    for number in range(4):
        cluster.patch(Ref(SECRETS, namespace, "first"), {"data": {str(number): ""}}, kind=MERGE)
        if number % 2:
            version = version_of(seen[-1].object if seen else item)
            events = cluster.watch(SECRETS, namespace, resource_version=version)
            seen += [next(events), next(events)]

    assert [len(event.object["data"]) for event in seen] == [2, 3, 4, 5]


def test_a_watch_ends_by_itself(cluster: Cluster, namespace: str, clock: Clock) -> None:
    """Its time is over when it said, and it ends in silence."""
    version = version_of(cluster.create(Ref(SECRETS, namespace), secret()))
    begun = clock.monotonic()
    events = cluster.watch(SECRETS, namespace, resource_version=version, timeout_seconds=2)

    assert told(events) == []
    assert 1 <= clock.monotonic() - begun <= 5


def test_bookmarks(cluster: Cluster, namespace: str) -> None:
    """Before it ends, a watch tells the version that it has come to."""
    version = version_of(cluster.create(Ref(SECRETS, namespace), secret()))
    for number in range(3):
        last = cluster.create(Ref(PODS, namespace), pod(f"pod-{number}"))
    events = list(cluster.watch(PODS, namespace, resource_version=version, timeout_seconds=5))
    marks = [event.object for event in events if event.change is EventType.BOOKMARK]

    assert marks
    assert (marks[-1]["kind"], marks[-1]["apiVersion"]) == ("Pod", "v1")
    assert int(version_of(marks[-1])) >= int(version_of(last))
    assert not marks[-1]["metadata"].get("name")


def test_selectors_of_watches(cluster: Cluster, namespace: str) -> None:
    """What comes to match is added, what ceases to match is deleted, as it was before."""
    labels = {"watched": "yes"}
    first = cluster.create(Ref(SECRETS, namespace), secret())
    cluster.create(Ref(SECRETS, namespace), secret("other"))
    for change in (labels, {"watched": "no"}):
        cluster.patch(
            Ref(SECRETS, namespace, "first"), {"metadata": {"labels": change}}, kind=MERGE
        )
    cluster.create(Ref(SECRETS, namespace), secret("second", labels=labels))
    cluster.delete(Ref(SECRETS, namespace, "second"))
    events = list(
        cluster.watch(
            SECRETS,
            namespace,
            resource_version=version_of(first),
            label_selector="watched=yes",
            timeout_seconds=2,
        )
    )

    assert told(events) == [
        (EventType.ADDED, "first"),
        (EventType.DELETED, "first"),
        (EventType.ADDED, "second"),
        (EventType.DELETED, "second"),
    ]
    assert events[1].object["metadata"]["labels"] == labels


def test_field_selectors_of_watches(cluster: Cluster, namespace: str) -> None:
    """Fields select the events of a watch as they select a list."""
    first = cluster.create(Ref(PODS, namespace), pod())
    running = {"status": {"phase": "Running"}}
    cluster.patch(Ref(PODS, namespace, "pod", subresource="status"), running, kind=MERGE)
    events = cluster.watch(
        PODS,
        namespace,
        resource_version=version_of(first),
        field_selector="status.phase=Running",
        timeout_seconds=2,
    )

    assert told(events) == [(EventType.ADDED, "pod")]


@pytest.mark.parametrize("version", ["", "0"])
def test_watches_from_no_version(cluster: Cluster, namespace: str, version: str) -> None:
    """Without a version a watch begins with all that is there."""
    cluster.create(Ref(SECRETS, namespace), secret("a"))
    cluster.create(Ref(SECRETS, namespace), secret("b"))
    events = cluster.watch(SECRETS, namespace, resource_version=version, timeout_seconds=2)

    assert sorted(told(events)) == [(EventType.ADDED, "a"), (EventType.ADDED, "b")]


@pytest.mark.usefixtures("customs")
def test_a_version_too_old(cluster: Cluster, namespace: str) -> None:
    """Changes that are no longer known cannot be told: the watcher must list again."""
    cluster.create(Ref(VPAS, namespace), vpa())

    with pytest.raises(Gone) as refused:
        list(cluster.watch(VPAS, namespace, resource_version="1", timeout_seconds=2))

    assert refused.value.reason in ("Expired", "Gone")


def test_a_version_that_is_none(cluster: Cluster, namespace: str) -> None:
    """Nonsense is refused, though in words of a server's own fault."""
    with pytest.raises(ClusterError, match="Invalid value"):
        list(cluster.watch(SECRETS, namespace, resource_version="x", timeout_seconds=2))
