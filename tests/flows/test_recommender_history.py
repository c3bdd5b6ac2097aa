"""History survives whoever keeps it: restarts, ends, lost leaders, and broken lists."""

from __future__ import annotations

import pytest

from app.model.errors import Unavailable
from app.model.quantity import Quantity
from app.ports import LEASES, POD_METRICS, Json
from tests.flows.recommending import Stage, evict, workload
from tests.sandbox_objects import pods_in

LOAD = "cpu: constant 0.2, memory: constant 300Mi, noise: 0.3"
LIMITS = {"cpu": "1", "memory": "4Gi"}


def staged(*flags: str, replicas: int = 1, load: str = LOAD) -> Stage:
    """Return a cluster with two Deployments and their VPAs."""
    stage = Stage(*flags, replicas=replicas)
    for name in ("web", "shop"):
        stage.apply(*workload(name, load=load, replicas=2, limits=LIMITS))
    return stage


def stored(stage: Stage) -> dict[str, Json]:
    """Return what checkpoints hold, without when they were written."""
    return {
        name: {**item["status"], "lastUpdateTime": "", **item["metadata"].get("annotations", {})}
        for name, item in stage.checkpoints().items()
    }


def test_a_restart_loses_nothing() -> None:
    """What the next process reads and stores again is what the last one stored, to the bit."""
    stage = staged()
    stage.run(900)
    stage.replica.stop()
    told, before = stage.recommended(), stored(stage)
    fresh = stage.begin()
    fresh.fail(Unavailable("down"), "list", POD_METRICS)
    stage.run(1)
    fresh.stop()

    assert stage.recommended() == told
    assert stored(stage) == before


def test_restarts_do_not_move_the_target() -> None:
    """RE-04: over restarts nothing disappears, and bounds only close in."""
    stage = staged(load="cpu: constant 0.2, memory: constant 300Mi, noise: 0")
    stage.run(305)
    seen = []
    for _ in range(5):
        stage.replica.stop()
        stage.begin()
        for _ in range(6):
            stage.run(10)
            seen.append(stage.recommended()["app"])

    for resource in ("cpu", "memory"):
        lower = [Quantity.parse(one["lowerBound"][resource]) for one in seen]
        upper = [Quantity.parse(one["upperBound"][resource]) for one in seen]
        assert lower == sorted(lower)
        assert upper == sorted(upper, reverse=True)
    assert len({str(one) for one in seen}) > 1


def test_counts_go_on() -> None:
    """RE-05: after a restart the first sample stays, and the count and time of writing move."""
    stage = staged()
    stage.run(305)
    stage.replica.stop()
    before = stage.checkpoints()["web-app"]["status"]
    stage.begin()
    stage.run(305)
    stage.replica.stop()

    after = stage.checkpoints()["web-app"]["status"]
    assert after["firstSampleStart"] == before["firstSampleStart"]
    assert after["totalSamplesCount"] == before["totalSamplesCount"] + 2 * 6
    assert after["lastUpdateTime"] > before["lastUpdateTime"]


def test_an_end_stores_and_lets_go() -> None:
    """After SIGTERM all history is stored, the Lease is free, and the other one goes on at once."""
    stage = staged(replicas=2)
    stage.run(305)
    leader, standby = stage.replicas
    assert (stage.leader(), standby.writes()) == ("replica-0", [])
    leader.stop()
    counts = [item["status"]["totalSamplesCount"] for item in stage.checkpoints().values()]

    assert (counts, stage.leader()) == ([10, 10], "")
    assert stage.run_until(lambda: standby.begun and standby.begun[0].finished, 5) <= 2
    assert stage.leader() == "replica-1"
    assert standby.begun[0].model.tally.cpu == 4


def test_an_end_in_the_middle_of_a_long_round() -> None:
    """A round that would go on for minutes is cut short; history is stored, the Lease let go."""
    stage = staged(replicas=2)
    stage.run(125)
    leader = stage.replicas[0]
    leader.watched.before = lambda call: leader.tenure.hurry() if call.verb == "list" else None
    stage.apply(*workload("late", load=LOAD, limits=LIMITS))
    stage.run(56)
    leader.stop()

    assert "recommendation" not in stage.status("late")
    assert stage.checkpoints().keys() == {"web-app", "shop-app", "late-app"}
    assert stage.leader() == ""


@pytest.mark.parametrize("after", [0.0, 0.5, 1.0, 1.5])
def test_a_killed_leader_is_followed_soon(after: float) -> None:
    """Whenever a leader is killed, another has done a round within fifteen seconds."""
    stage = staged(replicas=2)
    stage.run(120 + after)
    leader, standby = stage.replicas
    leader.kill()
    (pod, *_) = pods_in(stage.sandbox, "default", "app=web")
    evict(stage.sandbox, pod, "2Gi")
    took = stage.run_until(lambda: standby.begun and standby.begun[0].finished, 20)

    assert took <= 15
    assert stage.amount("memory") > Quantity.parse("2Gi")


def test_a_leader_that_is_cut_off_does_not_write_over_the_next() -> None:
    """Whoever cannot renew stops writing; when it is back, the word of the next one stands."""
    stage = staged(replicas=2)
    stage.run(305)
    cut, other = stage.replicas
    cut.fail(Unavailable("cut off"), resource=LEASES)
    until = stage.clock.monotonic() + 12.5
    stage.run(60)
    assert stage.leader() == "replica-1"
    assert cut.writes(since=until) == []

    cut.faults.clear()
    stage.run(120)
    before = stage.checkpoints()["web-app"]["status"]["totalSamplesCount"]
    other.stop()
    stage.run(5)
    assert stage.leader() == "replica-0"
    assert len(cut.begun) == 2
    cut.stop()
    assert stage.checkpoints()["web-app"]["status"]["totalSamplesCount"] >= before
