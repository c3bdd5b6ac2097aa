"""Evictions: what a disruption budget lets go, and what it holds."""

from __future__ import annotations

import pytest

from app.model.errors import ClusterError, Conflict, NotFound, TooMany, Unavailable
from app.ports import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, Json
from tests.cases import cases
from tests.contract.building import pod, workload
from tests.contract.conftest import KUBECONFIG
from tests.contract.crowds import Pods, idle
from tests.contract.space import Space

SELECTOR = {"matchLabels": {"app": "contract"}}


def budget(name: str = "budget", **spec: object) -> Json:
    """A disruption budget over the pods of the case."""
    return {"metadata": {"name": name}, "spec": {"selector": SELECTOR, **spec}}


class Crowd(Space):
    """Pods that run by their status; held, so that deletion only marks them."""

    def join(self, *names: str, phase: str = "Running", ready: bool = True) -> None:
        """Add pods."""
        ready_condition = {"type": "Ready", "status": "True" if ready else "False"}
        status = {"phase": phase, "conditions": [ready_condition]}
        for name in names:
            body = pod(name)
            body["metadata"]["finalizers"] = ["example.com/hold"]
            self.create(PODS, body)
            self.merge(PODS, name, {"status": status}, "status")

    def evict(self, name: str, *, uid: str = "", dry_run: bool = False) -> None:
        """Ask for the eviction of a pod."""
        self.cluster.evict(self.namespace, name, uid=uid, dry_run=dry_run)

    def goes(self, name: str) -> bool:
        """Ask for it, and tell whether no budget holds it."""
        try:
            self.evict(name)
        except TooMany:
            return False
        return True

    def protect(self, healthy: int, name: str = "budget", **spec: object) -> Json:
        """Add a budget and wait until it knows so many healthy pods."""
        body = budget(name, **spec)
        created = self.create(POD_DISRUPTION_BUDGETS, body)

        def seen() -> Json | None:
            found = self.get(POD_DISRUPTION_BUDGETS, name)
            status = found.get("status", {})
            is_current = status.get("observedGeneration") == created["metadata"]["generation"]
            return found if is_current and status["currentHealthy"] == healthy else None

        return self.eventually(seen)

    def of(self, name: str) -> Json:
        """A pod as it is now."""
        return self.get(PODS, name)

    def disband(self) -> None:
        """Let all pods go."""
        for found in self.items(PODS):
            self.merge(PODS, found["metadata"]["name"], {"metadata": {"finalizers": None}})


def cause(held: pytest.ExceptionInfo[TooMany]) -> str:
    """The only reason why a budget holds a pod, without the name of the budget."""
    ((reason, message),) = held.value.causes
    assert reason == "DisruptionBudget"
    return message.removeprefix("The disruption budget budget ")


@pytest.fixture
def crowd(space: Space) -> Crowd:
    """An empty crowd."""
    return Crowd(space.cluster, space.namespace, space.eventually)


@pytest.fixture(autouse=True)
def _disbanding(crowd: Crowd) -> object:
    yield
    crowd.disband()


def test_a_pod_without_a_budget_goes(crowd: Crowd) -> None:
    """Without a budget nothing holds; the pod tells that it was evicted."""
    crowd.join("pod")
    crowd.evict("pod", uid=crowd.of("pod")["metadata"]["uid"])
    after = crowd.of("pod")
    (target,) = (
        found for found in after["status"]["conditions"] if found["type"] == "DisruptionTarget"
    )

    assert after["metadata"]["deletionTimestamp"]
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")


def test_a_budget_lets_go_what_it_can(crowd: Crowd) -> None:
    """Each eviction is charged; when the budget is used up, the next is held."""
    crowd.join("a", "b", "c")
    status = crowd.protect(3, minAvailable=2)["status"]
    crowd.evict("a")

    with pytest.raises(TooMany, match="would violate the pod's disruption budget") as held:
        crowd.evict("b")

    assert status["disruptionsAllowed"] == 1
    assert (held.value.status, held.value.reason) == (429, "TooManyRequests")
    assert [reason for reason, _ in held.value.causes] == ["DisruptionBudget"]
    assert "deletionTimestamp" not in crowd.of("b")["metadata"]


def test_a_budget_says_what_it_needs(crowd: Crowd) -> None:
    """The cause tells the numbers, and there is nothing to wait for."""
    crowd.join("a", "b")
    crowd.protect(2, minAvailable=2)

    with pytest.raises(TooMany) as held:
        crowd.evict("a")

    assert cause(held) == "needs 2 healthy pods and has 2 currently"
    assert held.value.retry_after_seconds is None


@pytest.mark.skipif(bool(KUBECONFIG), reason="a real controller looks before a test can ask")
def test_a_budget_that_no_controller_has_seen(crowd: Crowd) -> None:
    """Before its controller has seen it, a budget lets nothing go, and says when to ask again."""
    crowd.join("a")
    crowd.create(POD_DISRUPTION_BUDGETS, budget(maxUnavailable=1))

    with pytest.raises(TooMany) as held:
        crowd.evict("a")

    assert cause(held) == "is still being processed by the server."
    assert held.value.retry_after_seconds == 10


def test_budgets_recover(crowd: Crowd) -> None:
    """What is allowed follows from how many pods are healthy."""
    crowd.join("a", "b")
    crowd.protect(2, minAvailable=2)
    crowd.join("c")

    assert crowd.eventually(lambda: crowd.goes("a"))
    assert crowd.of("a")["metadata"]["deletionTimestamp"]


def test_two_budgets_over_one_pod(crowd: Crowd) -> None:
    """More than one budget over a pod is more than the server can judge, for ever."""
    crowd.join("pod")
    for name in ("one", "other"):
        crowd.protect(1, name, minAvailable=0)

    with pytest.raises(Unavailable, match="more than one PodDisruptionBudget") as refused:
        crowd.evict("pod")

    assert refused.value.status == 500


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_pods_that_do_not_run_are_free_to_go(crowd: Crowd, phase: str) -> None:
    """A budget holds nothing that does not run."""
    crowd.join("pod", phase=phase, ready=False)
    crowd.join("other")
    crowd.protect(1, minAvailable=1)
    crowd.evict("pod")

    assert crowd.of("pod")["metadata"]["deletionTimestamp"]


def test_pods_that_go_already(crowd: Crowd) -> None:
    """Evicting a pod twice is no second disruption."""
    crowd.join("a", "b")
    crowd.protect(2, minAvailable=1)
    crowd.evict("a")
    crowd.evict("a")

    with pytest.raises(TooMany):
        crowd.evict("b")


def test_unhealthy_pods(crowd: Crowd) -> None:
    """A pod that is not Ready may go for nothing where enough others are."""
    crowd.join("a", "b")
    crowd.join("sick", ready=False)
    crowd.protect(2, minAvailable=2)
    crowd.evict("sick")

    assert crowd.of("sick")["metadata"]["deletionTimestamp"]
    with pytest.raises(TooMany):
        crowd.evict("a")


def test_unhealthy_pods_of_an_unhealthy_crowd(crowd: Crowd) -> None:
    """Where too few are healthy, the others stay too, unless the budget always lets them go."""
    crowd.join("sick", ready=False)
    crowd.protect(0, minAvailable=1)
    with pytest.raises(TooMany):
        crowd.evict("sick")

    policy = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
    crowd.merge(POD_DISRUPTION_BUDGETS, "budget", policy)

    assert crowd.eventually(lambda: crowd.goes("sick"))


def test_dry_run_evicts_nothing(crowd: Crowd) -> None:
    """A dry run is judged as the real thing, and charges nothing."""
    crowd.join("a", "b")
    crowd.protect(2, minAvailable=1)
    crowd.evict("a", dry_run=True)
    crowd.evict("b")

    assert "deletionTimestamp" not in crowd.of("a")["metadata"]
    with pytest.raises(TooMany):
        crowd.evict("a", dry_run=True)


def test_pods_that_are_not_there(crowd: Crowd) -> None:
    """A pod of another uid, or of no name, is not evicted."""
    crowd.join("pod")

    with pytest.raises(Conflict, match=r"UID in the precondition \(another\)") as refused:
        crowd.evict("pod", uid="another")
    with pytest.raises(NotFound):
        crowd.evict("nobody")

    assert refused.value.status == 409
    assert "deletionTimestamp" not in crowd.of("pod")["metadata"]


def test_a_stale_uid_costs_a_disruption(crowd: Crowd) -> None:
    """The budget is charged before the uid is looked at, and stays so for two minutes."""
    crowd.join("a", "b")
    crowd.protect(2, minAvailable=1)

    with pytest.raises(Conflict):
        crowd.evict("a", uid="another")
    with pytest.raises(TooMany):
        crowd.evict("b")


def test_pods_without_a_controller(crowd: Crowd) -> None:
    """How many there should be is not known, so `maxUnavailable` never lets one go."""
    crowd.join("pod")
    crowd.create(POD_DISRUPTION_BUDGETS, budget(maxUnavailable=1))

    def status() -> Json | None:
        found = crowd.get(POD_DISRUPTION_BUDGETS, "budget")
        told = found.get("status", {})
        return told if told.get("conditions") else None

    found = crowd.eventually(status)
    assert (found["expectedPods"], found["disruptionsAllowed"]) == (0, 0)
    with pytest.raises(TooMany) as held:
        crowd.evict("pod")
    assert cause(held) == "does not allow evicting pods currently"


@cases(
    "spec desired",
    {
        "a number may be away": ({"maxUnavailable": 1}, 3),
        "a share may be away, rounded up": ({"maxUnavailable": "30%"}, 2),
        "a share must be there, rounded up": ({"minAvailable": "60%"}, 3),
    },
)
def test_budgets_of_controlled_pods(crowd: Crowd, pods: Pods, spec: Json, desired: int) -> None:
    """Of pods with a controller it is known how many there should be."""
    body = workload(replicas=4, template=idle())
    crowd.create(DEPLOYMENTS, body)
    pods.await_status(DEPLOYMENTS, "web", readyReplicas=4)
    found = crowd.protect(4, **spec)["status"]
    *others, last = pods.names()
    for name in others[: 4 - desired]:
        crowd.evict(name)

    assert (found["expectedPods"], found["desiredHealthy"]) == (4, desired)
    assert found["disruptionsAllowed"] == 4 - desired
    with pytest.raises(TooMany):
        crowd.evict(last)


def test_the_body_of_an_eviction(crowd: Crowd) -> None:
    """An eviction may be posted as what it is; it must be about the pod of its path."""
    crowd.join("pod")
    named = {"name": "pod", "namespace": crowd.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": named}
    other = body | {"metadata": named | {"name": "other"}}

    with pytest.raises(ClusterError) as refused:
        crowd.cluster.create(crowd.ref(PODS, "pod", "eviction"), other)
    answer = crowd.cluster.create(crowd.ref(PODS, "pod", "eviction"), body)

    assert refused.value.status == 400
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
