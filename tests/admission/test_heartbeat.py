"""The Lease is fresh exactly while reviews can be answered."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.admission.core.rotation import EXPIRY_ANNOTATION
from app.admission.heartbeat import Heartbeat, HeartbeatRules
from app.model.errors import ClusterError, Conflict, Refused, TooMany, Unavailable
from app.ports import LEASES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Json, Ref, Resource
from app.runtime.election import micro_time
from tests.admission.replica import BEATS, CONFIGURATION, Replica
from tests.cases import cases
from tests.cluster_in_memory import outage
from tests.stepped_clock import START

START_TEXT = "2026-03-01T12:00:00.000000Z"


def test_first_beat() -> None:
    """The first beat comes at once and is a whole one."""
    scene = Replica()
    assert scene.beat() == 10.0
    assert scene.lease() == {
        "holderIdentity": "pod-1",
        "leaseDurationSeconds": 10,
        "renewTime": "2026-03-01T12:00:00.000000Z",
    }


def test_next_beats() -> None:
    """A later beat renews the time and the holder, and keeps the rest."""
    scene = Replica()
    found: Json = {"holderIdentity": "pod-0", "leaseDurationSeconds": 7, "strategy": "x"}
    lease = {"metadata": {"name": BEATS.name}, "spec": found}
    scene.cluster.create(Ref(LEASES, BEATS.namespace), lease)
    scene.clock.wait(12.345678)
    scene.beat()
    assert scene.lease() == {
        "holderIdentity": "pod-1",
        "leaseDurationSeconds": 7,
        "strategy": "x",
        "renewTime": "2026-03-01T12:00:12.345678Z",
    }


def test_until_when_the_certificate_is_valid() -> None:
    """Each beat tells it, the first one too, and keeps what others wrote on the Lease."""
    scene, expiry = Replica(), "2026-05-30T12:00:00Z"
    ref = Ref(LEASES, BEATS.namespace, BEATS.name)
    heartbeat = Heartbeat(scene.cluster, BEATS, str, scene.clock, expiry=lambda: expiry)
    told = []
    for _ in range(2):
        heartbeat.tick(scene.clock.now())
        found = scene.cluster.get(ref)
        told.append(found["metadata"]["annotations"])
        found["metadata"]["annotations"] = {"a": "b", EXPIRY_ANNOTATION: "soon"}
        scene.cluster.replace(ref, found)
        scene.clock.wait(10)
    heartbeat.tick(scene.clock.now())
    assert told == [{EXPIRY_ANNOTATION: expiry}, {"a": "b", EXPIRY_ANNOTATION: expiry}]


def test_no_beat_without_reason_to_believe() -> None:
    """While reviews cannot be answered there is no beat, and the first good second has one."""
    scene = Replica(reason="caches are not synced")
    assert scene.beat() == 1.0
    assert scene.lease() is None
    scene.reason = ""
    assert scene.beat() == 10.0
    scene.clock.wait(10)
    scene.reason = "certificate lost"
    assert scene.beat() == 1.0
    assert (scene.lease() or {})["renewTime"] == "2026-03-01T12:00:00.000000Z"


@cases(
    "reasons renewed acquired",
    {
        "beat after beat": (("", ""), None, None),
        "one that was withheld": (("", "lost", ""), None, "2026-03-01T12:00:20.000000Z"),
        "the first one of this process": (("not ready", ""), None, None),
        "the Lease was not renewed for long": ((), "2026-03-01T11:59:39Z", START_TEXT),
        "the Lease was renewed not long ago": ((), "2026-03-01T11:59:41Z", None),
        "nothing tells when it was renewed": ((), "soon", None),
    },
)
def test_an_interruption_is_told(
    reasons: tuple[str, ...], renewed: str | None, acquired: str | None
) -> None:
    """Beats that were missed, here or by all replicas, leave the time since when they come."""
    scene = Replica()
    if renewed is not None:
        lease = {"metadata": {"name": BEATS.name}, "spec": {"renewTime": renewed}}
        scene.cluster.create(Ref(LEASES, BEATS.namespace), lease)
        scene.beat()
    for reason in reasons:
        scene.reason = reason
        scene.beat()
        scene.clock.wait(10)
    assert (scene.lease() or {}).get("acquireTime") == acquired


@cases(
    "resource repaired_at acquired",
    {
        "the one for pods": (MUTATING_WEBHOOKS, (10,), 20),
        "the one for VPAs": (VALIDATING_WEBHOOKS, (10,), None),
        "again, and soon": (MUTATING_WEBHOOKS, (10, 300), 20),
        "again, later": (MUTATING_WEBHOOKS, (10, 310), 320),
    },
)
def test_a_repair_is_told(
    resource: Resource, repaired_at: tuple[int, ...], acquired: int | None
) -> None:
    """A configuration that was deleted and put back between two beats leaves a trace too."""
    scene = Replica()
    scene.registrar.bundle = "any"
    for seconds in range(0, 400, 10):
        scene.beat()
        scene.registrar.tick(scene.clock.now())
        if seconds in repaired_at:
            scene.cluster.delete(Ref(resource, "", CONFIGURATION))
            scene.registrar.tick(scene.clock.now())
        scene.clock.wait(10)
    told = None if acquired is None else micro_time(START + timedelta(seconds=acquired))
    assert (scene.lease() or {}).get("acquireTime") == told


def test_log(caplog: pytest.LogCaptureFixture) -> None:
    """Only a change of readiness is told."""
    caplog.set_level("INFO")
    scene = Replica()
    for reason in ("", "", "lost", "lost", ""):
        scene.reason = reason
        scene.beat()
    assert [(r.message, getattr(r, "reason", None)) for r in caplog.records] == [
        ("heartbeat sent", ""),
        ("heartbeat withheld", "lost"),
        ("heartbeat sent", ""),
    ]


@pytest.mark.parametrize("existing", [False, True], ids=["both create", "both renew"])
def test_another_replica_was_faster(existing: bool) -> None:
    """A beat of another replica is as good as ours."""
    scene = Replica()
    if existing:
        scene.beat()
    other = HeartbeatRules(BEATS.namespace, BEATS.name, "pod-2", 10.0)
    faster = Heartbeat(scene.cluster, other, lambda: "", scene.clock)
    scene.cluster.before_write = lambda: faster.tick(scene.clock.now())
    assert scene.beat() == 10.0
    assert (scene.lease() or {})["holderIdentity"] == "pod-2"


def test_lease_deleted_meanwhile() -> None:
    """A Lease that vanishes between reading and writing is made again."""
    scene = Replica()
    scene.clock.wait(scene.beat())
    scene.cluster.before_write = lambda: scene.cluster.delete(
        Ref(LEASES, BEATS.namespace, BEATS.name)
    )
    scene.beat()
    assert scene.lease() is not None


@cases(
    "failures wait_seconds",
    {"one failure": (outage(1), 9.9), "two failures": ([Unavailable("x"), TooMany("x")], 9.6)},
)
def test_retries(failures: list[ClusterError | None], wait_seconds: float) -> None:
    """Short trouble is bridged, and the next beat keeps its time."""
    scene = Replica()
    scene.cluster.failures = failures
    assert scene.beat() == pytest.approx(wait_seconds)
    assert scene.lease() is not None


@cases(
    "failures interval_seconds calls_left",
    {
        "three attempts": (outage(4), 10.0, 1),
        "a refusal at once": ([Refused("forbidden"), *outage(1)], 10.0, 1),
        "no attempt after the interval": (outage(4), 0.1, 3),
    },
)
def test_giving_up(
    failures: list[ClusterError | None], interval_seconds: float, calls_left: int
) -> None:
    """Longer trouble is for the loop to tell."""
    scene = Replica(beats=HeartbeatRules(BEATS.namespace, BEATS.name, "pod-1", interval_seconds))
    scene.cluster.failures = failures
    with pytest.raises(ClusterError):
        scene.beat()
    assert len(scene.cluster.failures) == calls_left


def test_short_interval() -> None:
    """An interval below a second is one second to the API server, which takes no zero."""
    scene = Replica(beats=HeartbeatRules(BEATS.namespace, BEATS.name, "pod-1", 0.5))
    assert scene.beat() == 0.5
    assert (scene.lease() or {})["leaseDurationSeconds"] == 1


def test_conflict_is_no_error() -> None:
    """A conflict told by the API server itself is success, too."""
    scene = Replica()
    scene.beat()

    def conflict() -> None:
        raise Conflict("changed")

    scene.cluster.before_write = conflict
    assert scene.beat() == 10.0
    assert scene.clock.now() - START < timedelta(seconds=1)
