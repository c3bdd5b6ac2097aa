"""The eviction subresource: a pod may go if its disruption budget can bear it.

Strategy: the steps and their order are an API server's, also where that is odd: the budget is
charged before the pod's uid is compared, so an eviction that names a wrong uid costs a disruption
until the budget's controller takes the pod back into account.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from app.model.errors import ClusterError, Unavailable
from app.model.times import rfc3339
from app.ports import Json
from app.sandbox.clock import SteppedClock
from app.sandbox.conditions import Condition, condition_of, is_ready, set_condition
from app.sandbox.kinds import Kind
from app.sandbox.objects import (
    Key,
    has_ended,
    is_deleted,
    key_of,
    labels_of,
    member,
    selector_of,
    uid_of,
)
from app.sandbox.refusals import forbidden, not_found, recreated, too_many
from app.sandbox.store import Store
from app.sandbox.writes import Writes

SUCCESS: Final[Json] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

_BUDGETS: Final = "poddisruptionbudgets.policy"
_BUSY_SECONDS: Final = 10
_EVICTED: Final = Condition(
    "DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting"
)
_NO: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)


class Evictions:
    """Evicts pods."""

    def __init__(
        self, store: Store, writes: Writes, clock: SteppedClock, pods: Kind, budgets: Kind
    ) -> None:
        self._store = store
        self._writes = writes
        self._clock = clock
        self._pods = pods
        self._budgets = budgets

    def evict(self, key: Key, options: Mapping[str, str], *, dry_run: bool) -> Json:
        """Evict a pod; options are the preconditions of its deletion."""
        pod = self._store.read("pods", key)
        if pod is None:
            raise not_found("pods", key.name)
        version = ""
        if not _is_free_to_go(pod):
            version = self._ask_budget(pod, dry_run=dry_run)
        uid = options.get("uid", "")
        if uid and uid != uid_of(pod):
            raise recreated("Pod", key.name, uid, uid_of(pod))
        if not dry_run:
            self._delete(pod, version)
        return SUCCESS

    def _delete(self, pod: Json, version: str) -> None:
        key, uid = key_of(pod), uid_of(pod)

        def mark(item: Json) -> Json:
            if uid_of(item) != uid:
                raise recreated("Pod", key.name, uid, uid_of(item))
            if version and version != item["metadata"]["resourceVersion"]:
                raise _busy("of a pod that was not Ready")
            set_condition(item, _EVICTED, self._clock.now())
            return item

        self._writes.change(self._pods, key, mark, subresource="status")
        self._writes.delete(self._pods, key, uid=uid)

    def _ask_budget(self, pod: Json, *, dry_run: bool) -> str:
        """Charge the budget of a pod; return the version at which the pod must still be."""
        found = [
            budget
            for budget in self._store.items(_BUDGETS, pod["metadata"]["namespace"])
            if selector_of(budget).matches(labels_of(pod))
        ]
        if len(found) > 1:
            raise Unavailable(_SEVERAL, status=500)
        if not found:
            return ""
        (budget,) = found
        if not is_ready(pod) and _spares_unhealthy(budget):
            return str(pod["metadata"]["resourceVersion"])
        name = pod["metadata"]["name"]
        self._writes.change(
            self._budgets,
            key_of(budget),
            lambda item: self._charged(item, name),
            subresource="status",
            dry_run=dry_run,
        )
        return ""

    def _charged(self, budget: Json, pod_name: str) -> Json:
        refusal = _refusal(budget)
        if refusal is not None:
            raise refusal
        status = budget["status"]
        status["disruptionsAllowed"] -= 1
        disrupted = status.get("disruptedPods") or {}
        status["disruptedPods"] = {**disrupted, pod_name: rfc3339(self._clock.now())}
        if status["disruptionsAllowed"] == 0:
            condition = Condition("DisruptionAllowed", "False", "InsufficientPods")
            set_condition(budget, condition, self._clock.now())
        return budget


def _is_free_to_go(pod: Json) -> bool:
    """Whether a pod's going disturbs nobody: it does not run, or goes already."""
    return has_ended(pod) or is_deleted(pod) or member(pod, "status.phase") == "Pending"


def _spares_unhealthy(budget: Json) -> bool:
    """Whether pods that are not Ready may go without charge."""
    if member(budget, "spec.unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy") or 0
    return desired > 0 and (status.get("currentHealthy") or 0) >= desired


def _refusal(budget: Json) -> ClusterError | None:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if (status.get("observedGeneration") or 0) < budget["metadata"].get("generation", 0):
        return _busy(name)
    allowed = status.get("disruptionsAllowed") or 0
    if allowed < 0:
        return forbidden(_BUDGETS, name, "pdb disruptions allowed is negative")
    if allowed > 0:
        return None
    condition = condition_of(budget, "DisruptionAllowed")
    if condition is not None and condition.get("reason") == "SyncFailed":
        return too_many(_NO, condition.get("message", ""))
    needed, healthy = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
    if healthy > needed:
        return too_many(_NO, f"The disruption budget {name} does not allow evicting pods currently")
    cause = f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
    return too_many(_NO, cause)


def _busy(name: str) -> ClusterError:
    cause = f"The disruption budget {name} is still being processed by the server."
    return too_many(_NO, cause, _BUSY_SECONDS)
