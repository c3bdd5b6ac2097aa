"""Which resources stand behind a kind, asked for as seldom as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import pytest

from app.kube.discovery import MOST_GROUPS, Discovery
from app.model.errors import NotFound, Unavailable
from app.ports import (
    DEPLOYMENTS,
    PODS,
    REPLICATION_CONTROLLERS,
    Cluster,
    Json,
    LookupLimit,
    Resource,
)
from tests.cases import cases
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import connected
from tests.reached_limits import ReachedLimits
from tests.stepped_clock import SteppedClock

OLD = Resource("argoproj.io", "v1alpha1", "rollouts", "Rollout")
NEW = replace(OLD, version="v1")
PLAIN = Resource("argoproj.io", "v1alpha1", "workflows", "Workflow")


@contextmanager
def discovering(*resources: Resource) -> Iterator[tuple[ApiServer, Discovery, SteppedClock]]:
    """A server, what it is asked through, and the time."""
    clock = SteppedClock()
    with serving(*resources) as server, connected(server) as cluster:
        for resource in resources:
            if resource not in {PODS, PLAIN}:
                server.scales[resource, "default", "web"] = {}
        yield server, Discovery(cluster, clock, ReachedLimits()), clock


@cases(
    "api_version kind expected",
    {
        "the version asked for first": ("argoproj.io/v1", "Rollout", (NEW, OLD)),
        "or the other": ("argoproj.io/v1alpha1", "Rollout", (OLD, NEW)),
        "a version no longer served": ("argoproj.io/v2", "Rollout", (NEW, OLD)),
        "cannot be scaled": ("argoproj.io/v1alpha1", "Workflow", ()),
        "unknown kind": ("argoproj.io/v1", "Nothing", ()),
        "unknown group": ("example.com/v1", "Rollout", ()),
        "core": ("v1", "ReplicationController", (REPLICATION_CONTROLLERS,)),
        "core, cannot be scaled": ("v1", "Pod", ()),
        "no group at all": ("../../api/v1/secrets/v1", "Secret", ()),
        "no group either": ("UPPER/v1", "Rollout", ()),
    },
)
def test_scalable(api_version: str, kind: str, expected: tuple[Resource, ...]) -> None:
    """Kinds are found in any version of their group, if they can be scaled."""
    with discovering(OLD, NEW, PLAIN, PODS, REPLICATION_CONTROLLERS) as (_, discovery, _):
        assert discovery.scalable(api_version, kind) == expected


def test_no_odd_group_is_asked_for() -> None:
    """What cannot be a group never becomes part of a path."""
    with discovering(OLD) as (server, discovery, _):
        discovery.scalable("../../api/v1/secrets/v1", "Secret")

        assert server.requests == []


def test_known_for_minutes() -> None:
    """A group is read once in five minutes, its unknown kinds twice in a minute."""
    with discovering(OLD) as (server, discovery, clock):
        counts = []
        for kind, seconds in (
            ("Rollout", 0),
            ("Rollout", 299),
            ("Rollout", 1),
            ("Nothing", 29),
            ("Nothing", 1),
            ("Nothing", 1),
        ):
            clock.wait(seconds)
            discovery.scalable("argoproj.io/v1alpha1", kind)
            counts.append(len(server.asked("/apis/argoproj.io")))

    assert counts == [1, 1, 2, 2, 3, 3]


def test_a_kind_that_comes_later() -> None:
    """A kind installed later is found half a minute later."""
    with discovering(PODS, DEPLOYMENTS) as (server, discovery, clock):
        before = discovery.scalable("argoproj.io/v1", "Rollout")
        server.served.append(NEW)
        server.scales[NEW, "default", "web"] = {}
        clock.wait(30)

        assert (before, discovery.scalable("argoproj.io/v1", "Rollout")) == ((), (NEW,))


def test_trouble() -> None:
    """While the server is in trouble, what is known stays in use; what is not is an error."""
    with discovering(OLD) as (server, discovery, clock):
        server.fail("/apis", 503, times=2)
        with pytest.raises(Unavailable):
            discovery.scalable("argoproj.io/v1alpha1", "Rollout")
        server.faults.clear()
        discovery.scalable("argoproj.io/v1alpha1", "Rollout")
        clock.wait(300)
        server.fail("/apis", 503)

        assert discovery.scalable("argoproj.io/v1alpha1", "Rollout") == (OLD,)


def test_a_group_that_is_not_asked_for_is_forgotten() -> None:
    """Objects may name any group; after an hour without a question nothing is kept of it."""
    with discovering(OLD) as (server, discovery, clock):
        for number in range(100):
            discovery.scalable(f"group-{number}.example.com/v1", "Rollout")
        clock.wait(3599)
        discovery.scalable("argoproj.io/v1alpha1", "Rollout")
        before = len(discovery)
        clock.wait(1)
        discovery.refresh()

    assert (before, len(discovery), server.faults) == (101, 1, [])


def test_invented_groups_displace_each_other() -> None:
    """A flood of groups that do not exist is limited, and counted; what exists stays known."""
    clock = SteppedClock()
    reached = ReachedLimits()
    asked = Counter[str]()

    class Groups:
        """An API with one group."""

        def request(self, _method: str, path: str, _query: object = None) -> Json:
            """Answer, and note the question."""
            asked[path] += 1
            if "argoproj.io" not in path:
                raise NotFound("no such group")
            kinds = [{"name": name, "kind": "Rollout"} for name in ("rollouts", "rollouts/scale")]
            return {"versions": [{"version": "v1"}], "resources": kinds}

    discovery = Discovery(cast("Cluster", Groups()), clock, reached)
    for number in range(50_000):
        discovery.scalable("argoproj.io/v1", "Rollout" if number % 2 else "Other")
        discovery.scalable(f"group-{number}.example.com/v1", "Rollout")

    assert len(discovery) == MOST_GROUPS
    assert asked["/apis/argoproj.io"] == 1
    assert reached.counts == {LookupLimit.API_GROUPS: 50_001 - MOST_GROUPS}


def test_refresh() -> None:
    """A group in use is read again before a look-up would have to wait for it."""
    with discovering(OLD) as (server, discovery, clock):
        discovery.scalable("argoproj.io/v1alpha1", "Rollout")
        counts = []
        for seconds in (239, 1, 239, 300):
            clock.wait(seconds)
            discovery.refresh()
            counts.append(len(server.asked("/apis/argoproj.io")))

    assert counts == [1, 2, 2, 2]


@pytest.mark.parametrize(
    "body", [{}, {"versions": 5}, {"versions": [5, {}, {"version": 5}]}], ids=str
)
def test_odd_groups(body: dict[str, object]) -> None:
    """A group that says nothing useful has no kinds."""
    with discovering(OLD) as (server, discovery, _):
        server.fail("/apis/argoproj.io", 200, body=body)

        assert discovery.scalable("argoproj.io/v1alpha1", "Rollout") == ()
