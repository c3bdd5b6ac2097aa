"""What useless evictions in one namespace, or in several, do to the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from app.updater.core.decisions import Reason
from tests.updater.stage import Stage, in_other, small, vpa

HEALTHY = ("good-1", "good-2", "good-3", "good-4")


def tenants(*bad: str, good: Iterable[str] = HEALTHY) -> Stage:
    """Return namespaces with 20 pods each; others share 12 workloads that stay unsized."""
    stage = Stage("--eviction-rate-limit=1", "--updater-interval=5s", "--update-concurrency=1")
    stage.unsized = frozenset(bad)
    workloads = [(name, "web", 20) for name in good]
    workloads += [(name, f"web-{number}", 2) for name in bad for number in range(12 // len(bad))]
    for namespace, name, replicas in workloads:
        items = (small(name, replicas=replicas), vpa(name, target=f"Deployment/{name}"))
        stage.apply(*(in_other(item, namespace) for item in items))
    stage.run(30)
    for namespace, name, _ in workloads:
        stage.recommend("200m/200Mi = =", name, namespace)
    stage.restart()
    return stage


def evicted(stage: Stage) -> Counter[str]:
    """Return how many pods went, by namespace."""
    return Counter(call.namespace for call in stage.carried.calls if call.verb == "evict")


def waiting(stage: Stage, reason: Reason) -> set[str]:
    """Return the namespaces with pods that wait for a reason."""
    return {one.namespace for one in stage.parts.decisions.decisions() if one.reason is reason}


def test_one_namespace_stops_no_other() -> None:
    """Its pods come back unchanged, so they wait; evictions elsewhere go on at their rate."""
    alone, beside = tenants(), tenants("bad")
    for stage in (alone, beside):
        stage.run(45)
    assert evicted(alone).total() >= 44
    found = evicted(beside)
    assert found["bad"] <= 5
    assert found.total() - found["bad"] >= 38
    assert waiting(beside, Reason.RECREATED_WITHOUT_CHANGE) == {"bad"}
    assert beside.metric("open_breakers", scope="namespace") == 1
    assert beside.metric("open_breakers", scope="cluster") == 0


def test_useless_evictions_in_three_namespaces_stop_all() -> None:
    """Then it is the webhook, and each further one would be wasted."""
    stage = tenants("bad-1", "bad-2", "bad-3", good=("good",))
    stage.unsized |= {"good"}
    stage.run(60)
    before = evicted(stage)
    assert before.total() <= 10
    assert "good" in waiting(stage, Reason.RECREATED_WITHOUT_CHANGE)
    stage.unsized = frozenset()
    stage.run(240)
    assert evicted(stage) == before
    stage.run(400)
    assert evicted(stage)["good"] == 20


def test_two_rounds_are_enough_for_many_workloads() -> None:
    """Few pods go first; as soon as one of them was replaced well all others follow at once."""
    stage = Stage("--min-replicas=1", "--update-concurrency=1", "--updater-interval=1h")
    workloads = [(f"n-{number % 6}", f"web-{number}") for number in range(48)]
    for namespace, name in workloads:
        items = (small(name, replicas=1), vpa(name, target=f"Deployment/{name}"))
        stage.apply(*(in_other(item, namespace) for item in items))
    stage.run(10)
    for namespace, name in workloads:
        stage.recommend("200m/200Mi = =", name, namespace)
    stage.round()
    assert evicted(stage).total() == 10
    stage.run(1)
    stage.round()
    assert evicted(stage).total() == 48
