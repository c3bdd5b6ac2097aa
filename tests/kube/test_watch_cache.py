"""The snapshot is whole, true, and told of after it is swapped in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pytest

from app.kube.client import KubeCluster
from app.kube.watch_cache import Transition, WatchCache, WatchState
from app.kube.watch_report import WatchReport
from app.kube.watched_resources import WatchedResource, watched_scalers
from app.model.kinds import ObjectKey
from app.model.limits import read_node
from app.model.pods import Pod, read_pod
from app.model.snapshot import Collection, Snapshot
from app.model.vpa import read_vpa
from app.model.workloads import read_workload
from app.ports import DEPLOYMENTS, HPAS, NODES, PODS, STATEFUL_SETS, VPAS, Json
from tests import make
from tests.cases import cases
from tests.kube.api_server import ApiServer, serving
from tests.kube.api_state import PATIENCE_SECONDS
from tests.kube.connecting import connected
from tests.stepped_clock import SteppedClock
from tests.waiting import eventually


def read_short(item: Json) -> Pod | None:
    """Read pods; those called `dull` are of no interest, those called `trap` break the reader."""
    pod = read_pod(item)
    if pod.name == "trap":
        raise ZeroDivisionError("trapped")
    return None if pod.name == "dull" else pod


POD_SOURCE = WatchedResource(PODS, Collection.PODS, read_short)
SOURCES = [
    POD_SOURCE,
    WatchedResource(NODES, Collection.NODES, read_node),
    WatchedResource(VPAS, Collection.VPAS, read_vpa),
    *(
        WatchedResource(
            resource, Collection.WORKLOADS, read_workload, partial(ObjectKey, "", resource.kind)
        )
        for resource in (DEPLOYMENTS, STATEFUL_SETS)
    ),
]


@contextmanager
def mirroring(
    cluster: KubeCluster, *sources: WatchedResource, clock: SteppedClock | None = None
) -> Iterator[WatchCache]:
    """Run a mirror until the block ends; all its threads must end then."""
    clock = clock or SteppedClock()
    report = WatchReport(clock)
    mirror = WatchCache(cluster, clock, sources, jitter=lambda: 1.0, report=report)
    mirror.start()
    try:
        yield mirror
    finally:
        mirror.stop()
        cluster.close()
        assert mirror.join(PATIENCE_SECONDS)


@contextmanager
def pods(*names: str) -> Iterator[tuple[ApiServer, WatchCache]]:
    """A server of some pods and a mirror that has read them."""
    with serving(PODS) as server, connected(server) as cluster:
        for name in names:
            server.put(PODS, name)
        with mirroring(cluster, POD_SOURCE) as mirror:
            wait_for(mirror, lambda: mirror.is_read)
            server.wait_for_watches(PODS)
            yield server, mirror


def wait_for(mirror: WatchCache, condition: Callable[[], bool]) -> None:
    """Wait until something holds that follows from a swap."""
    assert eventually(condition, PATIENCE_SECONDS), mirror.standings(SteppedClock().now())


def names(snapshot: Snapshot) -> list[str]:
    """The names of the pods in a snapshot."""
    return sorted(snapshot.of("default").pods)


def has(mirror: WatchCache, *expected: str) -> Callable[[], bool]:
    """Whether a mirror holds exactly these pods."""
    return lambda: names(mirror.snapshot) == sorted(expected)


def test_everything_has_its_place() -> None:
    """Each resource fills its part of the snapshot; kinds share the part of controllers."""
    with serving(PODS, NODES, VPAS, DEPLOYMENTS, STATEFUL_SETS) as server:
        server.put(PODS, "web-0")
        server.put(NODES, "node")
        server.put(VPAS, "vpa", spec={"targetRef": {"kind": "Deployment", "name": "web"}})
        server.put(DEPLOYMENTS, "web", "prod")
        server.put(STATEFUL_SETS, "web", "prod")
        with connected(server) as cluster, mirroring(cluster, *SOURCES) as mirror:
            wait_for(mirror, lambda: mirror.is_read)
            found = mirror.snapshot

    assert (list(found.nodes), list(found.of("default").pods)) == (["node"], ["web-0"])
    assert [vpa.name for vpa in found.of("default").rivals(ObjectKey("", "Deployment", "web"))] == [
        "vpa"
    ]
    assert set(found.of("prod").workloads) == {
        ObjectKey("", "Deployment", "web"),
        ObjectKey("", "StatefulSet", "web"),
    }


def test_a_missing_kind_holds_nothing_up() -> None:
    """What is not installed is told, and all the rest is there."""
    with serving(PODS) as server, connected(server) as cluster:
        server.put(PODS, "web-0")
        sources = (POD_SOURCE, WatchedResource(VPAS, Collection.VPAS, read_vpa))
        with mirroring(cluster, *sources) as mirror:
            wait_for(mirror, lambda: mirror.is_read)
            known, missing = mirror.standings(SteppedClock().now())
            found = names(mirror.snapshot)

    assert found == ["web-0"]
    assert (known.synced, known.missing) == (True, False)
    assert (missing.synced, missing.missing) == (False, True)
    assert "could not find the requested resource" in missing.problem


@cases(
    "seconds pages problem told",
    {
        "a moment": (9.9, 0, "", "pods are not read yet"),
        "no answer": (10, 0, "", "pods are not read yet, for more than 10 s: no answer yet"),
        "pages": (301, 7, "", "pods are not read yet, for more than 5 minutes: its list goes on"),
        "an error": (1, 0, "forbidden", "pods are not read yet: forbidden"),
        "for long": (90, 2, "no", "pods are not read yet, for more than a minute: no"),
    },
)
def test_what_is_waited_for(seconds: float, pages: int, problem: str, told: str) -> None:
    """What is not read says for how long and why, in words that do not change every second."""
    state = WatchState(PODS, False, False, seconds, problem, pages=pages)
    assert state.unread == told


@cases(
    "awaited seconds problem refused unknown",
    {
        "heard of": (False, 5, "", 0, False),
        "silent": (False, 90, "", 0, False),
        "fails for a moment": (False, 30, "broken", 0, False),
        "fails": (False, 31, "broken", 0, True),
        "refused for a moment": (False, 11, "forbidden", 10, False),
        "refused": (False, 11, "forbidden", 11, True),
        "waited for": (True, 31, "broken", 0, None),
        "done without by right": (True, 11, "forbidden", 11, None),
    },
)
def test_what_is_not_awaited(
    awaited: bool, seconds: float, problem: str, refused: float, unknown: bool | None
) -> None:
    """Whatever keeps it from being read, all goes on soon; where a right is missing always."""
    state = WatchState(
        HPAS, False, False, seconds, problem, refused, is_optional=True, is_awaited=awaited
    )
    assert state.age == (seconds, unknown)
    assert state.is_read is (refused > 10 or bool(unknown))


def test_a_right_that_is_lost() -> None:
    """What was read before counts on, and that it may be old is told."""
    clock = SteppedClock()
    (source, _) = watched_scalers("")
    with (
        serving(HPAS) as server,
        connected(server) as cluster,
        mirroring(cluster, source, clock=clock) as mirror,
    ):
        wait_for(mirror, lambda: mirror.is_read)
        server.store(HPAS, make.hpa_json())
        wait_for(mirror, lambda: len(mirror.snapshot.of("default").scalers) == 1)
        server.fail("horizontalpodautoscalers", 403, times=10_000)
        server.wait_for_watches(HPAS)
        server.order(HPAS, "end")
        wait_for(mirror, lambda: mirror.standings(clock.now())[0].refused_seconds > 10)
        (state,) = mirror.standings(clock.now())
        found = mirror.snapshot

    assert (state.is_read, state.age.is_unknown) == (True, True)
    assert len(found.of("default").scalers) == 1


def test_a_list_that_hangs_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """A server that never answers is seen in the log, and in what is reported."""
    clock = SteppedClock()
    with (
        serving(PODS) as server,
        connected(server) as cluster,
        server.holding("pods") as gate,
        mirroring(cluster, POD_SOURCE, clock=clock) as mirror,
    ):
        server.wait_for(lambda: len(server.requests) == 1)
        clock.wait(40)
        assert eventually(lambda: "resources still not read" in caplog.text)
        (state,) = mirror.standings(clock.now())
        gate.set()

    assert state.unread == "pods are not read yet, for more than 10 s: no answer yet"


def test_half_a_list_is_not_shown() -> None:
    """Until the last page is read, the snapshot is as it was."""
    with serving(PODS) as server, connected(server) as cluster:
        for number in range(501):
            server.put(PODS, f"pod-{number}")
        with server.holding("continue"), mirroring(cluster, POD_SOURCE) as mirror:
            server.wait_for(lambda: len(server.requests) == 2)
            before = (mirror.is_read, names(mirror.snapshot))
            server.faults[0].gate.set()  # type: ignore[union-attr]  # holding has made one
            wait_for(mirror, lambda: mirror.is_read)
            after = names(mirror.snapshot)

    assert before == (False, [])
    assert len(after) == 501


def test_changes_are_followed() -> None:
    """Snapshots follow one another; one that is held stays as it is."""
    with pods("a", "b") as (server, mirror):
        first = mirror.snapshot
        server.put(PODS, "c")
        server.remove(PODS, "a")
        wait_for(mirror, has(mirror, "b", "c"))

    assert names(first) == ["a", "b"]


def test_listeners_hear_of_what_is_there() -> None:
    """A listener is told before and after, in order, when the snapshot has it already."""
    heard: list[tuple[str, str, str, bool]] = []

    def phase(pod: Pod | None) -> str:
        return pod.phase if pod else "none"

    with pods("a") as (server, mirror):

        def listen(transitions: Sequence[Transition]) -> None:
            known = mirror.snapshot.of("default").pods
            for _, _, name, before, after in transitions:
                heard.append((name, phase(before), phase(after), known.get(name) == after))

        mirror.listen(listen)
        server.put(PODS, "a", status={"phase": "Running"})
        wait_for(mirror, lambda: phase(mirror.snapshot.of("default").pods["a"]) == "Running")
        server.remove(PODS, "a")
        wait_for(mirror, has(mirror))
        server.put(PODS, "b", status={"phase": "Pending"})
        wait_for(mirror, has(mirror, "b"))

    assert heard == [
        ("a", "", "Running", True),
        ("a", "Running", "none", True),
        ("b", "none", "Pending", True),
    ]


def test_a_gap_is_told_as_well(caplog: pytest.LogCaptureFixture) -> None:
    """What changed without a watch reaches the listeners, and none stops the others."""
    heard: list[str] = []

    def broken(_: Sequence[Transition]) -> None:
        raise ValueError("broken")

    with pods("same", "gone") as (server, mirror):
        mirror.listen(broken)
        mirror.listen(lambda found: heard.extend(one.name for one in found))
        with server.changed:
            server.compact()
            server.order(PODS, "drop")
            server.remove(PODS, "gone")
            server.put(PODS, "new")
        wait_for(mirror, has(mirror, "same", "new"))

    assert sorted(heard) == ["gone", "new"]
    assert "a listener failed" in caplog.text


def test_what_reads_the_same_is_no_change() -> None:
    """A version that brings nothing of interest leaves the snapshot alone."""
    source = WatchedResource(NODES, Collection.NODES, lambda item: item["metadata"]["name"])
    heard: list[str] = []
    with serving(NODES) as server, connected(server) as cluster:
        server.put(NODES, "a")
        with mirroring(cluster, source) as mirror:
            wait_for(mirror, lambda: mirror.is_read)
            mirror.listen(lambda found: heard.extend(one.name for one in found))
            server.put(NODES, "a", status={"phase": "busy"})
            server.put(NODES, "b")
            wait_for(mirror, lambda: "b" in mirror.snapshot.nodes)

    assert heard == ["b"]


def test_bad_objects_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be read is left out, told once a version, and comes back when it can."""
    caplog.set_level(logging.WARNING)
    bad: Json = {"nodeName": 5}
    with serving(PODS) as server, connected(server) as cluster:
        server.put(PODS, "bad", spec=bad)
        server.put(PODS, "trap")
        server.put(PODS, "dull")
        server.put(PODS, "good")
        server.put(PODS, "turning")
        with mirroring(cluster, POD_SOURCE) as mirror:
            wait_for(mirror, lambda: mirror.is_read)
            first = names(mirror.snapshot)
            server.put(PODS, "turning", spec=bad)
            server.put(PODS, "bad")
            server.remove(PODS, "trap")
            wait_for(mirror, has(mirror, "bad", "good"))

    assert first == ["good", "turning"]
    told = [vars(one) for one in caplog.records if one.message == "object skipped"]
    no_text = "spec.nodeName: expected a string, found the number 5"
    assert [(one["object"], one["reason"]) for one in told] == [
        ("default/bad", no_text),
        ("default/trap", "ZeroDivisionError('trapped')"),
        ("default/turning", no_text),
    ]
