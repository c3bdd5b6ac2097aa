"""The Lease is fresh exactly while reviews can be answered."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.admission.heartbeat import Heartbeat, HeartbeatRules
from app.model.errors import ClusterError, Conflict, Refused, TooMany, Unavailable
from app.ports import LEASES, Json, Ref
from tests.cluster_in_memory import ClusterInMemory, outage
from tests.stepped_clock import START, SteppedClock

RULES = HeartbeatRules("kube-system", "vpa-admission-controller", "pod-1", 10.0)


class Scene:
    """One replica, its clock, and the reason why it is not ready."""

    def __init__(self, rules: HeartbeatRules = RULES, reason: str = "") -> None:
        self.clock = SteppedClock()
        self.cluster = ClusterInMemory(self.clock.now)
        self.reason = reason
        self.heartbeat = Heartbeat(self.cluster, rules, lambda: self.reason, self.clock)

    def tick(self) -> float:
        """Let the heartbeat do what is due."""
        return self.heartbeat.tick(self.clock.now())

    def spec(self) -> Json | None:
        """The Lease's spec, if there is a Lease."""
        items = self.cluster.list(LEASES).items
        assert len(items) <= 1
        return items[0]["spec"] if items else None


def test_first_beat() -> None:
    """The first beat comes at once and is a whole one."""
    scene = Scene()
    assert scene.tick() == 10.0
    assert scene.spec() == {
        "holderIdentity": "pod-1",
        "leaseDurationSeconds": 10,
        "renewTime": "2026-03-01T12:00:00.000000Z",
    }


def test_next_beats() -> None:
    """A later beat renews the time and the holder, and keeps the rest."""
    scene = Scene()
    found: Json = {"holderIdentity": "pod-0", "leaseDurationSeconds": 7, "strategy": "x"}
    lease = {"metadata": {"name": RULES.name}, "spec": found}
    scene.cluster.create(Ref(LEASES, RULES.namespace), lease)
    scene.clock.wait(12.345678)
    scene.tick()
    assert scene.spec() == {
        "holderIdentity": "pod-1",
        "leaseDurationSeconds": 7,
        "strategy": "x",
        "renewTime": "2026-03-01T12:00:12.345678Z",
    }


def test_no_beat_without_reason_to_believe() -> None:
    """While reviews cannot be answered there is no beat, and the first good second has one."""
    scene = Scene(reason="caches are not synced")
    assert scene.tick() == 1.0
    assert scene.spec() is None
    scene.reason = ""
    assert scene.tick() == 10.0
    scene.clock.wait(10)
    scene.reason = "certificate lost"
    assert scene.tick() == 1.0
    assert (scene.spec() or {})["renewTime"] == "2026-03-01T12:00:00.000000Z"


def test_log(caplog: pytest.LogCaptureFixture) -> None:
    """Only a change of readiness is told."""
    caplog.set_level("INFO")
    scene = Scene()
    for reason in ("", "", "lost", "lost", ""):
        scene.reason = reason
        scene.tick()
    assert [(r.message, getattr(r, "reason", None)) for r in caplog.records] == [
        ("heartbeat sent", ""),
        ("heartbeat withheld", "lost"),
        ("heartbeat sent", ""),
    ]


@pytest.mark.parametrize("existing", [False, True], ids=["both create", "both renew"])
def test_another_replica_was_faster(existing: bool) -> None:
    """A beat of another replica is as good as ours."""
    scene = Scene()
    if existing:
        scene.tick()
    other = HeartbeatRules(RULES.namespace, RULES.name, "pod-2", 10.0)
    faster = Heartbeat(scene.cluster, other, lambda: "", scene.clock)
    scene.cluster.before_write = lambda: faster.tick(scene.clock.now())
    assert scene.tick() == 10.0
    assert (scene.spec() or {})["holderIdentity"] == "pod-2"


def test_lease_deleted_meanwhile() -> None:
    """A Lease that vanishes between reading and writing is made again."""
    scene = Scene()
    scene.clock.wait(scene.tick())
    scene.cluster.before_write = lambda: scene.cluster.delete(
        Ref(LEASES, RULES.namespace, RULES.name)
    )
    scene.tick()
    assert scene.spec() is not None


@pytest.mark.parametrize(
    ("failures", "wait_seconds"),
    [
        pytest.param(outage(1), 9.9, id="one failure"),
        pytest.param([Unavailable("x"), TooMany("x")], 9.6, id="two failures"),
    ],
)
def test_retries(failures: list[ClusterError | None], wait_seconds: float) -> None:
    """Short trouble is bridged, and the next beat keeps its time."""
    scene = Scene()
    scene.cluster.failures = failures
    assert scene.tick() == pytest.approx(wait_seconds)
    assert scene.spec() is not None


@pytest.mark.parametrize(
    ("failures", "interval_seconds", "calls_left"),
    [
        pytest.param(outage(4), 10.0, 1, id="three attempts"),
        pytest.param([Refused("forbidden"), *outage(1)], 10.0, 1, id="a refusal at once"),
        pytest.param(outage(4), 0.1, 3, id="no attempt after the interval"),
    ],
)
def test_giving_up(
    failures: list[ClusterError | None], interval_seconds: float, calls_left: int
) -> None:
    """Longer trouble is for the loop to tell."""
    scene = Scene(HeartbeatRules(RULES.namespace, RULES.name, "pod-1", interval_seconds))
    scene.cluster.failures = failures
    with pytest.raises(ClusterError):
        scene.tick()
    assert len(scene.cluster.failures) == calls_left


def test_short_interval() -> None:
    """An interval below a second is one second to the API server, which takes no zero."""
    scene = Scene(HeartbeatRules(RULES.namespace, RULES.name, "pod-1", 0.5))
    assert scene.tick() == 0.5
    assert (scene.spec() or {})["leaseDurationSeconds"] == 1


def test_conflict_is_no_error() -> None:
    """A conflict told by the API server itself is success, too."""
    scene = Scene()
    scene.tick()

    def conflict() -> None:
        raise Conflict("changed")

    scene.cluster.before_write = conflict
    assert scene.tick() == 10.0
    assert scene.clock.now() - START < timedelta(seconds=1)
