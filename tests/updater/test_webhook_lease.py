"""Whether the webhook lives, by its Lease."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from app.model.errors import ClusterError, Refused, TooMany, Unavailable
from app.ports import LEASES, Ref
from app.runtime.election import lease, micro_time
from app.updater.core.proof import Outage
from app.updater.flags import AdmissionCheck
from app.updater.metrics import LeaseTrouble
from app.updater.watches import WebhookLease, webhook_health
from tests.cases import cases
from tests.cluster_in_memory import ClusterInMemory
from tests.stepped_clock import START, SteppedClock
from tests.updater.set_clock import SetClock

RULES = AdmissionCheck(True, "webhook", "kube-system", timedelta(seconds=10))


def looked(
    created: float, renewed: float | None, *failures: ClusterError | None
) -> LeaseTrouble | None:
    """Return what a look tells of a Lease created and renewed so many seconds ago."""
    clock = SteppedClock()
    cluster = ClusterInMemory(lambda: START - timedelta(seconds=created))
    spec = {} if renewed is None else {"renewTime": micro_time(START - timedelta(seconds=renewed))}
    cluster.create(Ref(LEASES, "kube-system"), lease("kube-system", "webhook", spec))
    cluster.failures = list(failures)
    return WebhookLease(lambda: cluster, RULES, clock).check(START).trouble


@cases(
    "created renewed trouble",
    {
        "created just now": (0, None, None),
        "created long ago, never renewed": (60, None, LeaseTrouble.INVALID),
        "renewed just now": (60, 0, None),
        "renewed long ago": (60, 60, LeaseTrouble.INVALID),
        "exactly the timeout": (60, 10, LeaseTrouble.INVALID),
    },
)
def test_freshness(created: float, renewed: float | None, trouble: LeaseTrouble | None) -> None:
    """A Lease is fresh when it was created or renewed within the timeout."""
    assert looked(created, renewed) is trouble


DOWN = Unavailable("connection reset")


@cases(
    "failures trouble",
    {
        "twice, then it answers": ([DOWN, TooMany("slow")], None),
        "three times": ([DOWN, DOWN, DOWN], LeaseTrouble.ERROR),
        "at once": ([Refused("no right")], LeaseTrouble.ERROR),
    },
)
def test_troubles(failures: list[ClusterError], trouble: LeaseTrouble | None) -> None:
    """What may pass is asked again twice."""
    assert looked(0, 0, *failures) is trouble


def test_a_lease_that_is_not_there() -> None:
    """No Lease, no webhook; unless the check is off."""
    cluster, clock = ClusterInMemory(lambda: START), SteppedClock()
    assert WebhookLease(lambda: cluster, RULES, clock).check(START).trouble is LeaseTrouble.ERROR
    off = replace(RULES, is_on=False)
    assert WebhookLease(lambda: cluster, off, clock).check(START).is_healthy


def test_a_lease_that_cannot_be_read() -> None:
    """A time that is none is no sign of life."""
    cluster, clock = ClusterInMemory(lambda: START), SteppedClock()
    body = lease("kube-system", "webhook", {"renewTime": "soon"})
    cluster.create(Ref(LEASES, "kube-system"), body)
    assert WebhookLease(lambda: cluster, RULES, clock).check(START).trouble is LeaseTrouble.INVALID


def test_how_long_a_lease_was_not_renewed() -> None:
    """The message has the time as people write it."""
    old = lease("kube-system", "webhook", {"renewTime": micro_time(START - timedelta(hours=3))})
    rules = replace(RULES, timeout=timedelta(minutes=3))
    told = "Lease kube-system/webhook was not renewed for 3m"
    assert webhook_health(old, rules, START).message == told


def test_a_look_is_believed_for_some_seconds() -> None:
    """Each eviction may ask; the API server is asked every ten seconds, however clocks are set."""
    clock = SetClock(SteppedClock())
    created: datetime = START
    cluster = ClusterInMemory(lambda: created)
    cluster.create(Ref(LEASES, "kube-system"), lease("kube-system", "webhook", {}))
    found = WebhookLease(lambda: cluster, RULES, clock)
    assert found.is_fresh()
    cluster.delete(Ref(LEASES, "kube-system", "webhook"))
    clock.wait(9)
    assert found.is_fresh()
    clock.ahead = timedelta(days=-1)
    clock.wait(1)
    assert not found.is_fresh()


def test_a_beat_from_a_clock_ahead() -> None:
    """It is fresh for the timeout after it was seen, and no longer until it changes."""
    clock = SetClock(SteppedClock())
    cluster = ClusterInMemory(lambda: START)
    ahead = START + timedelta(days=1)
    body = lease("kube-system", "webhook", {"renewTime": micro_time(ahead)})
    cluster.create(Ref(LEASES, "kube-system"), body)
    found = WebhookLease(lambda: cluster, RULES, clock)
    seen = []
    for _ in range(3):
        seen.append(found.check(clock.now()).is_healthy)
        clock.wait(6)
    assert seen == [True, True, False]
    cluster.delete(Ref(LEASES, "kube-system", "webhook"))
    body = lease("kube-system", "webhook", {"renewTime": micro_time(ahead + timedelta(seconds=20))})
    cluster.create(Ref(LEASES, "kube-system"), body)
    assert found.check(clock.now()).is_healthy


@cases(
    "beats expected",
    {
        "all the time": ([(0, None), (10, None), (20, None)], None),
        "stale, then fresh again": ([(0, None), (None, None), (20, None)], (0, 20)),
        "never fresh before": ([(None, None), (10, None)], (0, 10)),
        "a gap of which the webhook tells": ([(0, -60), (10, 8)], (0, 8)),
        "the same gap again": ([(0, -60), (10, 8), (20, 8)], (0, 8)),
        "a gap before our time": ([(0, -60), (10, -60)], None),
    },
)
def test_an_outage_is_over(
    beats: list[tuple[float | None, float | None]], expected: tuple[float, float] | None
) -> None:
    """From the last beat before it to the first one after it, one look every ten seconds."""
    clock, cluster = SteppedClock(), ClusterInMemory(lambda: START - timedelta(hours=1))
    webhook = WebhookLease(lambda: cluster, RULES, clock)
    cluster.create(Ref(LEASES, "kube-system"), lease("kube-system", "webhook", {}))
    for renewed, acquired in beats:
        times = {"renewTime": -60 if renewed is None else renewed, "acquireTime": acquired}
        spec = {
            key: micro_time(START + timedelta(seconds=at))
            for key, at in times.items()
            if at is not None
        }
        place = Ref(LEASES, "kube-system", "webhook")
        cluster.replace(place, cluster.get(place) | {"spec": spec})
        health = webhook.check(clock.now())
        clock.wait(10)
    outage = (
        None if expected is None else Outage(*(START + timedelta(seconds=at) for at in expected))
    )
    assert health.outage == outage
