"""Processes on a stepped cluster: tasks in its agenda, mirrors that are told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

import pytest

from app.kube.watch_cache import Transition
from app.kube.watched_resources import WatchedResource
from app.model.errors import BadObject, Unavailable
from app.model.pods import read_pod
from app.model.snapshot import Collection
from app.ports import PODS, Ref
from app.run.simulated import SimulatedRuntime
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from tests.cases import cases
from tests.sandbox.worlds import pod

SOURCE = WatchedResource(PODS, Collection.PODS, read_pod)


def stage() -> tuple[Sandbox, SimulatedRuntime]:
    """Return an empty cluster and the place of its processes."""
    sandbox = Sandbox(SteppedClock())
    return sandbox, SimulatedRuntime(sandbox)


def test_a_task_is_done_when_it_is_due() -> None:
    """A tick says when the next one is, and comes at that moment of the cluster's time."""
    sandbox, place = stage()
    seen: list[float] = []

    def tick(_now: datetime) -> float:
        seen.append(sandbox.clock.monotonic())
        return 10.0

    place.loop("task", tick).start()
    sandbox.advance(25)

    assert seen == [0.0, 10.0, 20.0]


@cases(
    "error level",
    {
        "of the cluster": (Unavailable("gone"), logging.WARNING),
        "of ours": (ValueError("gone"), logging.ERROR),
    },
)
def test_a_task_that_fails_comes_again(
    caplog: pytest.LogCaptureFixture, error: Exception, level: int
) -> None:
    """After a failure the pause grows, up to what was asked for."""
    sandbox, place = stage()
    seen: list[float] = []

    def tick(_now: datetime) -> float:
        seen.append(sandbox.clock.monotonic())
        raise error

    place.loop("task", tick, longest_retry_seconds=4.0).start()
    sandbox.advance(12)

    assert seen == [0.0, 1.0, 3.0, 7.0, 11.0]
    assert {record.levelno for record in caplog.records} == {level}


def test_a_task_that_ends_does_its_last_deed_once() -> None:
    """After its end a task is not called any more, and the last deed is done at once."""
    sandbox, place = stage()
    seen: list[str] = []

    def tick(_now: datetime) -> float:
        seen.append("tick")
        return 1.0

    task = place.loop("task", tick, at_end=lambda _now: seen.append("end"))
    task.start()
    sandbox.advance(0.5)
    task.stop()
    task.stop()
    sandbox.advance(5)

    assert seen == ["tick", "end"]


def mirrored(
    place: SimulatedRuntime, sandbox: Sandbox
) -> tuple[Callable[[], set[str]], list[Transition]]:
    """Start a mirror of pods; return what it holds, and what it told."""
    told: list[Transition] = []
    mirror = place.mirror(sandbox.cluster, [SOURCE])
    mirror.listen(told.extend)
    mirror.start()
    return lambda: set(mirror.snapshot.of("default").pods), told


def test_a_mirror_holds_what_there_is() -> None:
    """Objects from before and from after its start are in the snapshot, and were told."""
    sandbox, place = stage()
    sandbox.apply(pod("one"))
    held, told = mirrored(place, sandbox)
    first = held()
    sandbox.apply(pod("two"))
    sandbox.advance(1)

    assert (first, held()) == ({"one"}, {"one", "two"})
    assert [(one.name, one.before is None) for one in told][:2] == [("one", True), ("two", True)]


def test_what_goes_is_told() -> None:
    """A deleted object leaves the snapshot, and listeners get what it was."""
    sandbox, place = stage()
    sandbox.apply(pod("one"))
    held, told = mirrored(place, sandbox)
    sandbox.cluster.delete(Ref(PODS, "default", "one"))
    sandbox.advance(60)

    assert held() == set()
    assert (told[-1].before.name, told[-1].after) == ("one", None)


def test_what_cannot_be_read_is_left_out() -> None:
    """One object that nobody can read hides no other."""
    sandbox, place = stage()

    def picky(item: object) -> object:
        assert isinstance(item, dict)
        if item["metadata"]["name"] == "bad":
            raise BadObject("spec", "nobody can read this")
        return read_pod(item)

    mirror = place.mirror(sandbox.cluster, [WatchedResource(PODS, Collection.PODS, picky)])
    mirror.start()
    sandbox.apply(pod("bad"), pod("good"))
    sandbox.advance(1)

    assert set(mirror.snapshot.of("default").pods) == {"good"}
    assert mirror.is_read
