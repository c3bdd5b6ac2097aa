"""Promotion of a follower: who leads a StatefulSet gets what leaders need, where it is."""

from __future__ import annotations

import pytest

from app.model.errors import ClusterError, Invalid, NotFound
from app.ports import PODS, Json, PatchKind, Ref
from tests.faults import Fault
from tests.flows.autoscaler import MINUTE, Autoscaler, autoscaler, vpa, workload
from tests.updater import stage as staging
from tests.updater.stage import Stage

LOAD = "noise: 0, cpu: constant 80m, memory: constant 300Mi; role=leader -> cpu: constant 900m"
ROLES = ("leader", "follower")


def of_role(role: str) -> Json:
    """Return the selector of a role."""
    return {"matchLabels": {"role": role}}


def database(mode: str) -> list[Json]:
    """Return a StatefulSet of followers, and VPAs for its leader and its followers."""
    return [
        workload("db", kind="StatefulSet", load=LOAD, replicas=3, labels={"role": "follower"}),
        *(vpa(role, target="StatefulSet/db", mode=mode, selector=of_role(role)) for role in ROLES),
    ]


def restarts(cluster: Autoscaler) -> int:
    """Return how often containers were restarted."""
    return sum(pod["status"]["containerStatuses"][0]["restartCount"] for pod in cluster.pods())


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "Recreate", "Auto", "UpscaleOnly"])
def test_a_promoted_follower_grows_where_it_is(mode: str) -> None:
    """SX-24: each VPA learns from its own pods; a follower gets a leader's size without restart."""
    with autoscaler(*database(mode)) as cluster:
        cluster.run(20)
        cluster.label("db-0", role="leader")
        first = cluster.pods(selector="role=leader")[0]["metadata"]["uid"]
        cluster.run(20 * MINUTE)
        leader, follower = (cluster.target(role)["cpu"] for role in ROLES)

        assert cluster.requests(selector="role=leader") == [leader]
        assert int(leader.removesuffix("m")) > 5 * int(follower.removesuffix("m"))

        evicted = cluster.events("EvictedByVPA")
        uids = {pod["metadata"]["uid"] for pod in cluster.pods()}
        cluster.label("db-0", role="follower")
        cluster.label("db-1", role="leader")
        cluster.run(MINUTE)

        assert cluster.requests(selector="role=leader") == [cluster.target("leader")["cpu"]]
        assert {pod["metadata"]["uid"] for pod in cluster.pods()} == uids
        assert first in uids
        assert (restarts(cluster), cluster.events("EvictedByVPA")) == (0, evicted)


# --- in mode Recreate


def staged(leaders: int = 1, *, cpu: str = "400m") -> Stage:
    """Return a StatefulSet of five whose leaders, promoted just now, should be far bigger."""
    stage = Stage()
    found = staging.small(replicas=5) | {"kind": "StatefulSet"}
    found["spec"]["serviceName"] = "web"
    found["spec"]["template"]["metadata"]["labels"] = {"app": "web", "role": "follower"}
    for role in ROLES:
        selector = {"selector": of_role(role)}
        stage.apply(staging.vpa(role, target="StatefulSet/web", spec=selector))
    stage.recommend("100m/100Mi = =", "follower")
    stage.recommend(f"{cpu}/100Mi = =", "leader")
    stage.apply(found)
    stage.run(30)
    promote(stage, leaders)
    return stage


def promote(stage: Stage, leaders: int) -> None:
    """Give as many pods the leader's label as there are to be leaders."""
    for pod in stage.pods("role=follower")[: leaders - len(stage.pods("role=leader"))]:
        label(stage, pod, "leader")


def label(stage: Stage, pod: Json, role: str) -> None:
    """Give a pod a role."""
    ref = Ref(PODS, "default", pod["metadata"]["name"])
    body = {"metadata": {"labels": {"role": role}}}
    stage.sandbox.cluster.patch(ref, body, kind=PatchKind.MERGE)


def test_a_restart_of_the_updater_forgets_no_role() -> None:
    """A leader is resized again and again, and once more when it is a follower again."""
    stage = staged()
    uids = stage.uids()
    for cpu in ("400m", "800m"):
        stage.recommend(f"{cpu}/100Mi = =", "leader")
        stage.run(MINUTE)
        assert (stage.uids(), stage.requests()) == (uids, ["100m"] * 4 + [cpu])
        stage.restart()

    label(stage, stage.pods("role=leader")[0], "follower")
    stage.run(MINUTE)
    assert (stage.uids(), stage.requests()) == (uids, ["100m"] * 5)


NOT_SERVED = NotFound("the server could not find the requested resource", status=404)


@pytest.mark.parametrize("error", [Invalid("never"), NOT_SERVED], ids=["refused", "not served"])
def test_the_only_leader_stays_though_its_resize_is_refused(error: ClusterError) -> None:
    """Its eviction would make another pod the leader, and so on; it is resized when that works."""
    stage = staged()
    stage.faults.order(Fault(error, "patch", PODS, subresource="resize", times=10_000))
    uids = stage.uids()
    stage.run(20 * MINUTE)

    assert (stage.uids(), stage.reasons().count("ResizeError")) == (uids, 1)

    stage.faults.clear()
    stage.run(11 * MINUTE)
    assert (stage.uids(), stage.requests()) == (uids, ["100m"] * 4 + ["400m"])


TOO_MUCH = "999"  # for any node


def test_the_only_leader_stays_on_a_node_that_is_too_small() -> None:
    """What cannot be resized is weighed for eviction; the last of its role is not evicted."""
    stage = staged(cpu=TOO_MUCH)
    uids = stage.uids()
    stage.run(20 * MINUTE)

    assert (stage.uids(), stage.reasons().count("LastOfRole")) == (uids, 1)


def test_one_of_two_leaders_is_evicted() -> None:
    """The other one stays, and leads on."""
    stage = staged(leaders=2, cpu=TOO_MUCH)
    stage.run(20 * MINUTE)

    assert (stage.carried.count("evict"), len(stage.pods("role=leader"))) == (1, 1)
    assert stage.reasons().count("LastOfRole") == 1


def test_leaders_that_come_back_as_followers_are_evicted_less_and_less() -> None:
    """Each eviction makes another pod a leader, and helps none."""
    stage = staged(leaders=2, cpu=TOO_MUCH)
    for _ in range(40):
        promote(stage, 2)
        stage.run(MINUTE)

    assert stage.carried.count("evict") == 3
    assert "RecreatedWithoutChange" in stage.reasons()
