"""What is not read is told of in one line for all resources, and again once a minute."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from app.kube.client import KubeCluster
from app.kube.listing import LONGEST_LIST_SECONDS
from app.kube.reflector import Reflector
from app.kube.watch_report import WatchReport
from app.model.errors import ClusterError, NotFound, NotSent, Refused, Unavailable
from app.ports import NODES, PODS, VPAS, WORKLOADS, Delta, ListPage, Resource
from tests.kube.endless import Endless
from tests.stepped_clock import SteppedClock

ALL = (*WORKLOADS, VPAS, PODS, NODES)
NAMES = sorted(resource.plural for resource in ALL)


class Scripted(KubeCluster):
    """A cluster whose lists are empty, or fail as ordered."""

    def __init__(self) -> None:
        self.errors: dict[Resource, ClusterError] = {}

    def list(self, resource: Resource, *_: object, **__: object) -> ListPage:
        """Return an empty list."""
        if error := self.errors.get(resource):
            raise error
        return ListPage([], "1")


class Watched:
    """Reflectors of some resources, and what is told of them."""

    def __init__(
        self, caplog: pytest.LogCaptureFixture, cluster: KubeCluster | None = None
    ) -> None:
        caplog.set_level(logging.INFO)
        self._caplog = caplog
        self.clock = SteppedClock()
        self.cluster = Scripted()
        self.report = WatchReport(self.clock)
        self.reflectors = [
            Reflector(cluster or self.cluster, one, "", "", self.clock, ignore, jitter=lambda: 0.0)
            for one in ALL
        ]
        self.report.add(self.reflectors)

    def fail(self, make: Callable[[str], ClusterError], *resources: Resource) -> None:
        """Let the lists of some resources fail, of all if none is named; all others succeed."""
        names = resources or ALL
        self.cluster.errors = {one: make(f"GET /{one.plural}: no answer") for one in names}

    def run(self, seconds: float) -> None:
        """Let all reflectors ask again and again, as often as their pauses allow."""
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            for one in self.reflectors:
                one.state.listing = True
                one.step()
            self.report.look()
            self.clock.wait(1)

    def lines(self) -> list[dict[str, Any]]:
        """Return what was told since the last call."""
        found = [vars(record) for record in self._caplog.records]
        self._caplog.clear()
        return found


def ignore(_changes: Sequence[Delta], _whole: bool) -> None:
    """Take changes in."""


def kinds(lines: Sequence[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return messages, and of which resources."""
    return [(line["message"], line["resources"]) for line in lines]


@pytest.mark.parametrize("error", [NotSent, Unavailable])
def test_an_api_server_that_is_away_is_one_line_a_minute(
    error: type[ClusterError], caplog: pytest.LogCaptureFixture
) -> None:
    """All resources, the first error, the pause; then how often since, and when it is over."""
    watched = Watched(caplog)
    watched.fail(error)
    watched.run(180)
    lines = watched.lines()
    watched.fail(error, PODS)
    watched.run(10)
    left = watched.lines()
    watched.cluster.errors.clear()
    watched.run(2)
    (end,) = watched.lines()

    assert kinds(lines) == [("resources not read, will ask again", NAMES)] * len(lines)
    assert 3 <= len(lines) <= 4
    assert (lines[0]["times"], lines[0]["error"]) == (len(ALL), "GET /deployments: no answer")
    assert lines[0]["pause_seconds"] >= 0
    assert lines[1]["times"] > len(ALL)
    assert lines[1]["seconds"] >= 60
    assert kinds(left) == [("resources read", [name for name in NAMES if name != "pods"])]
    assert (end["message"], end["resources"]) == ("resources read", ["pods"])
    assert end["seconds"] >= 180


def test_kinds_of_failure_are_lines_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    """A right that is missing is not hidden by a server that is slow."""
    watched = Watched(caplog)
    watched.fail(Unavailable)
    watched.cluster.errors[NODES] = Refused("nodes is forbidden", status=403)
    watched.run(1)

    lines = watched.lines()
    assert sorted(line["error"] for line in lines) == [
        "GET /deployments: no answer",
        "nodes is forbidden",
    ]
    assert [line["resources"] for line in lines if line["error"] == "nodes is forbidden"] == [
        ["nodes"]
    ]


def test_what_fails_now_and_then_is_told_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """A failure that was over at the next look is not lost, nor are many of them many lines."""
    watched = Watched(caplog)
    for _ in range(100):
        watched.fail(Unavailable, PODS)
        watched.reflectors[ALL.index(PODS)].step()
        watched.cluster.errors.clear()
        watched.run(1)

    warned = [line for line in watched.lines() if line["levelno"] == logging.WARNING]
    assert 2 <= len(warned) <= watched.clock.monotonic() / 60 + 1
    assert sum(line["times"] for line in warned) <= 100
    assert {tuple(line["resources"]) for line in warned} == {("pods",)}


def test_another_kind_of_failure_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """But two that take turns are told of once a minute each."""
    watched = Watched(caplog)
    for number in range(90):
        watched.fail((Unavailable, NotSent)[number % 2], PODS)
        watched.run(1)

    lines = watched.lines()
    assert lines[1]["seconds"] <= 5
    assert len(lines) <= 2 * (watched.clock.monotonic() // 60 + 1)


def test_a_resource_that_is_not_served_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """It is asked for every 20 s, but to do without it is no trouble; its coming is told."""
    watched = Watched(caplog)
    watched.fail(NotFound, VPAS)
    watched.run(300)
    told = watched.lines()
    watched.cluster.errors.clear()
    watched.run(30)

    assert kinds(told) == [("resources not read, will ask again", [VPAS.plural])]
    assert kinds(watched.lines()) == [("resources read", [VPAS.plural])]


def test_lists_that_do_not_come_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """A call that hangs has not failed: after 10 s the log says what is waited for, how long."""
    watched = Watched(caplog)
    watched.clock.wait(9)
    watched.report.look()
    assert watched.lines() == []
    for _ in range(70):
        watched.clock.wait(1)
        watched.report.look()
    lines = watched.lines()

    assert kinds(lines) == [("resources still not read", NAMES)] * 2
    assert [line["seconds"] for line in lines] == [10, 70]
    watched.run(2)
    assert kinds(watched.lines()) == [("resources read", NAMES)]


def test_a_list_without_end_is_given_up_and_begun_again(caplog: pytest.LogCaptureFixture) -> None:
    """Its pages are told while it goes on; after its longest time it is an error."""
    endless = Watched(caplog)
    endless.reflectors[:] = [
        Reflector(Endless(endless.clock), PODS, "", "", endless.clock, ignore, jitter=lambda: 0.0)
    ]
    endless.report = WatchReport(endless.clock)
    endless.report.add(endless.reflectors)
    (one,) = endless.reflectors
    while endless.clock.monotonic() < LONGEST_LIST_SECONDS + 2:
        one.step()
        endless.report.look()
    lines = endless.lines()

    assert kinds(lines[:-1]) == [("resources still not read", ["pods"])] * 5
    assert lines[1]["pages"] == {"pods": lines[1]["seconds"]}
    assert lines[-1]["error"] == "the list of pods did not end within 301 s"
    assert (one.state.listing, one.state.continue_token, one.state.pages) == (True, "", 0)
