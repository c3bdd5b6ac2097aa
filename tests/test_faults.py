"""Faults strike the calls that they are for, so often as ordered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.model.errors import ClusterError, TooMany, Unavailable
from app.ports import PODS, SECRETS, Cluster, Json, Ref
from app.sandbox.clock import SteppedClock
from app.sandbox.sandbox import Sandbox
from tests.faults import Fault, Faults
from tests.sandbox.worlds import pod

DOWN = Unavailable("it is down")


def names(cluster: Cluster) -> list[str]:
    """The names of all secrets."""
    return [found["metadata"]["name"] for found in cluster.list(SECRETS).items]


def secret(name: str) -> Json:
    """The plainest of objects."""
    return {"metadata": {"name": name}}


def test_faults_strike_what_they_fit() -> None:
    """Other verbs, kinds and names go through."""
    sandbox, faults = Sandbox(SteppedClock()), Faults()
    cluster = faults.before(sandbox.cluster)
    sandbox.apply(pod("a"), pod("b"))
    faults.order(Fault(TooMany("slow down"), verb="evict", resource=PODS, name="a"))
    faults.order(Fault(DOWN, verb="patch", subresource="resize", times=2))

    with pytest.raises(TooMany):
        cluster.evict("default", "a")
    cluster.evict("default", "b")
    cluster.evict("default", "a")
    cluster.create(Ref(SECRETS, "default"), secret("s"))
    for _ in range(2):
        with pytest.raises(Unavailable):
            cluster.patch(Ref(PODS, "default", "a", subresource="resize"), [])
    cluster.patch(Ref(SECRETS, "default", "s"), [])
    assert names(cluster) == ["s"]


def test_an_answer_may_get_lost() -> None:
    """The call is carried out, and nobody hears of it."""
    faults = Faults()
    cluster = faults.before(Sandbox(SteppedClock()).cluster)
    faults.order(Fault(DOWN, verb="create", too_late=True))

    with pytest.raises(Unavailable):
        cluster.create(Ref(SECRETS, "default"), secret("s"))
    assert names(cluster) == ["s"]


def test_every_verb_can_fail() -> None:
    """None of them gets around a fault, and all go through when it is over."""
    faults = Faults()
    cluster = faults.before(Sandbox(SteppedClock()).cluster)
    calls: list[Callable[[], object]] = [
        lambda: cluster.list(PODS),
        lambda: list(cluster.watch(PODS, resource_version="0", timeout_seconds=1)),
        lambda: cluster.get(Ref(PODS, "default", "a")),
        lambda: cluster.create(Ref(PODS, "default"), {}),
        lambda: cluster.replace(Ref(PODS, "default", "a"), {}),
        lambda: cluster.patch(Ref(PODS, "default", "a"), []),
        lambda: cluster.delete(Ref(PODS, "default", "a")),
        lambda: cluster.evict("default", "a"),
        lambda: cluster.request("GET", "/version"),
    ]
    faults.order(Fault(DOWN, times=100))
    for call in calls:
        with pytest.raises(ClusterError, match="it is down"):
            call()
    faults.clear()

    assert cluster.request("GET", "/version")["major"] == "1"
