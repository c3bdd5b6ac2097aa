"""Promotion of a follower: who leads a StatefulSet gets what leaders need, where it is."""

from __future__ import annotations

from app.ports import Json
from tests.flows.autoscaler import MINUTE, Autoscaler, autoscaler, vpa, workload

LOAD = "noise: 0, cpu: constant 80m, memory: constant 300Mi; role=leader -> cpu: constant 900m"


def database() -> list[Json]:
    """Return a StatefulSet of followers, and VPAs for its leader and its followers."""
    return [
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


def restarts(cluster: Autoscaler) -> int:
    """Return how often containers were restarted."""
    return sum(pod["status"]["containerStatuses"][0]["restartCount"] for pod in cluster.pods())


def test_a_promoted_follower_grows_where_it_is() -> None:
    """SX-24: each VPA learns from its own pods; a follower gets a leader's size without restart."""
    with autoscaler(*database()) as cluster:
        cluster.run(20)
        cluster.label("db-0", role="leader")
        cluster.run(20 * MINUTE)
        leader, follower = (cluster.target(role)["cpu"] for role in ("leader", "follower"))

        assert cluster.requests(selector="role=leader") == [leader]
        assert int(leader.removesuffix("m")) > 5 * int(follower.removesuffix("m"))

        uids = {pod["metadata"]["uid"] for pod in cluster.pods()}
        cluster.label("db-0", role="follower")
        cluster.label("db-1", role="leader")
        cluster.run(2 * MINUTE)

        assert cluster.requests(selector="role=leader") == [cluster.target("leader")["cpu"]]
        assert {pod["metadata"]["uid"] for pod in cluster.pods()} == uids
        assert (restarts(cluster), cluster.events("EvictedByVPA")) == (0, [])
