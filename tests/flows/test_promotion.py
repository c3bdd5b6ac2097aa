"""Promotion of a follower: who leads a StatefulSet gets what leaders need, where it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.flows.autoscaler import MINUTE, Autoscaler, autoscaler, vpa, workload

LOAD = "noise: 0, cpu: constant 80m, memory: constant 300Mi; role=leader -> cpu: constant 900m"


@contextmanager
def database() -> Iterator[Autoscaler]:
    """Run a leader and two followers under two VPAs, until both recommend."""
    items = [
        workload("db", kind="StatefulSet", load=LOAD, replicas=3, labels={"role": "follower"}),
        *(
            vpa(
                role,
                target="StatefulSet/db",
                mode="InPlaceOrRecreate",
                selector={"matchLabels": {"role": role}},
            )
            for role in ("leader", "follower")
        ),
    ]
    with autoscaler(*items) as cluster:
        cluster.run(20)
        cluster.label("db-0", role="leader")
        cluster.run(20 * MINUTE)
        yield cluster


def restarts(cluster: Autoscaler) -> int:
    """Return how often containers were restarted."""
    return sum(pod["status"]["containerStatuses"][0]["restartCount"] for pod in cluster.pods())


def test_leader_and_followers_are_sized_apart() -> None:
    """Each VPA learns from its own pods alone."""
    with database() as cluster:
        leader, follower = (cluster.target(role)["cpu"] for role in ("leader", "follower"))

        assert cluster.requests(selector="role=leader") == [leader]
        assert int(leader.removesuffix("m")) > 5 * int(follower.removesuffix("m"))


def test_a_promoted_follower_grows_where_it_is() -> None:
    """Two rounds after its promotion a follower has a leader's size, without restart."""
    with database() as cluster:
        uids = {pod["metadata"]["uid"] for pod in cluster.pods()}
        cluster.label("db-0", role="follower")
        cluster.label("db-1", role="leader")
        cluster.run(2 * MINUTE)

        assert cluster.requests(selector="role=leader") == [cluster.target("leader")["cpu"]]
        assert {pod["metadata"]["uid"] for pod in cluster.pods()} == uids
        assert (restarts(cluster), cluster.events("EvictedByVPA")) == (0, [])
