"""Disruption: the status of PodDisruptionBudgets, and evictions, which must keep to them.

Strategy: the steps of an eviction and their order are an API server's, also where that is odd: the
budget is charged before the pod's uid is compared, so an eviction that names a wrong uid costs a
disruption until the budget's controller takes the pod back into account.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from app.model.errors import ClusterError, Unavailable
from app.model.fields import time_at
from app.model.times import rfc3339
from app.ports import POD_DISRUPTION_BUDGETS, PODS, Json
from app.sandbox.objects import (
    Key,
    ObjectCondition,
    condition_of,
    controller_of,
    has_ended,
    is_deleted,
    is_ready,
    key_of,
    labels_of,
    member,
    selector_of,
    set_condition,
    uid_of,
)
from app.sandbox.pod_control import PodControl, pods_meant
from app.sandbox.refusals import not_found, recreated, too_many
from app.sandbox.stepped_clock import Worklist
from app.sandbox.store import StoredChange
from app.sandbox.subresources import scale_of

EVICTED_PODS_GO_WITHIN = timedelta(minutes=2)  # or count as there again

_BUDGETS = "poddisruptionbudgets.policy"
_SEEN = ("pods", "replicasets.apps", "deployments.apps", "statefulsets.apps")

SUCCESS: Final[Json] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

_BUSY_SECONDS: Final = 10
_EVICTED: Final = ObjectCondition(
    "DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting"
)
_NO: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)


class _Unknown(Exception):
    """How many pods there should be cannot be told."""


class _Numbers(NamedTuple):
    expected: int
    desired: int


class Budgets:
    """The disruption controller."""

    def __init__(self, control: PodControl) -> None:
        self._control = control
        self._store = control.store
        self._todo = Worklist(control.clock, self._look)
        control.store.listen(self._note)

    def _note(self, collection: str, change: StoredChange) -> None:
        if collection == _BUDGETS:
            self._todo.note(change.key)
        elif collection in _SEEN:
            for budget in self._store.items(_BUDGETS, change.key.namespace):
                self._todo.note(key_of(budget))

    def _look(self, key: Key) -> None:
        budget = self._store.read(_BUDGETS, key)
        if budget is None:
            return
        selector = selector_of(budget)
        pods = [
            pod
            for pod in self._store.items("pods", key.namespace)
            if selector.matches(labels_of(pod))
        ]
        now = self._control.clock.now()

        def renew(item: Json) -> None:
            try:
                numbers = self._numbers(item, pods)
            except _Unknown as error:
                item.setdefault("status", {})["disruptionsAllowed"] = 0
                failed = ObjectCondition("DisruptionAllowed", "False", "SyncFailed", str(error))
                set_condition(item, failed, now)
            else:
                _count(item, pods, numbers, now)

        found = self._control.change(POD_DISRUPTION_BUDGETS, budget, renew, "status")
        if member(found, "status.disruptedPods"):
            self._todo.note(key, EVICTED_PODS_GO_WITHIN.total_seconds() / 4)

    def _numbers(self, budget: Json, pods: list[Json]) -> _Numbers:
        spec = budget.get("spec") or {}
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is not None:
            expected = self._expected(pods)
            return _Numbers(expected, max(expected - pods_meant(most, expected, round_up=True), 0))
        if isinstance(least, str):
            expected = self._expected(pods)
            return _Numbers(expected, pods_meant(least, expected, round_up=True))
        return _Numbers(len(pods), least or 0)

    def _expected(self, pods: list[Json]) -> int:
        """Return how many pods the controllers of these pods want together."""
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is not None:  # of the others it is not known how many there should be
                uid, replicas = self._scale(pod["metadata"]["namespace"], owner)
                wanted[uid] = replicas
        return sum(wanted.values())

    def _scale(self, namespace: str, owner: Json) -> tuple[str, int]:
        kind = self._control.catalogue.by_kind(owner.get("apiVersion", ""), owner.get("kind", ""))
        paths = kind.scale if kind else None
        item = self._store.read(kind.collection, Key(namespace, owner["name"])) if kind else None
        if paths is None or item is None:
            raise _Unknown(f"found no scale of {owner.get('kind')} {owner.get('name')}")
        above = controller_of(item)
        if above is not None and above.get("kind") == "Deployment":
            return self._scale(namespace, above)
        return item["metadata"]["uid"], int(scale_of(item, paths)["spec"]["replicas"])


def _count(budget: Json, pods: list[Json], numbers: _Numbers, now: datetime) -> None:
    """Write into a budget how its pods are."""
    before = budget.get("status") or {}
    leaving = _leaving(before.get("disruptedPods") or {}, pods, now)
    healthy = sum(
        1
        for pod in pods
        if is_ready(pod) and not is_deleted(pod) and pod["metadata"]["name"] not in leaving
    )
    allowed = max(healthy - numbers.desired, 0) if numbers.expected > 0 else 0
    status = {
        "observedGeneration": budget["metadata"].get("generation", 1),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": numbers.desired,
        "expectedPods": numbers.expected,
        "conditions": list(before.get("conditions") or ()),
    }
    if leaving:
        status["disruptedPods"] = leaving
    budget["status"] = status
    reason = "SufficientPods" if allowed else "InsufficientPods"
    condition = ObjectCondition("DisruptionAllowed", str(allowed > 0), reason)
    set_condition(
        budget, condition, now, message="", observedGeneration=status["observedGeneration"]
    )


def _leaving(evicted: Json, pods: list[Json], now: datetime) -> dict[str, str]:
    """Return the pods that were evicted a moment ago and are still to be marked as deleted."""
    there = {pod["metadata"]["name"] for pod in pods if not is_deleted(pod)}
    return {
        name: since
        for name, since in evicted.items()
        if name in there
        and (moment := time_at(evicted, name, "")) is not None
        and now - moment < EVICTED_PODS_GO_WITHIN
    }


class Evictions:
    """Evicts pods."""

    def __init__(self, control: PodControl) -> None:
        self._control = control
        self._store = control.store

    def evict(self, key: Key, uid: str, *, dry_run: bool) -> Json:
        """Evict a pod, only if it still has this uid when one is given."""
        pod = self._store.read("pods", key)
        if pod is None:
            raise not_found("pods", key.name)
        spared_by = "" if _is_free_to_go(pod) else self._charge_budget(pod, dry_run=dry_run)
        if uid and uid != uid_of(pod):
            raise recreated("Pod", key.name, uid, uid_of(pod))
        if not dry_run:
            now, judged = self._control.clock.now(), pod["metadata"]["resourceVersion"]

            def mark(item: Json) -> None:
                if spared_by and item["metadata"]["resourceVersion"] != judged:
                    raise _busy(spared_by)  # it may be Ready by now
                set_condition(item, _EVICTED, now)

            self._control.change(PODS, pod, mark, "status")
            self._control.writes.delete(PODS, key, uid=uid_of(pod))
        return SUCCESS

    def _charge_budget(self, pod: Json, *, dry_run: bool) -> str:
        """Charge the budget of a pod; return its name if it spares a pod that is not Ready."""
        found = [
            budget
            for budget in self._store.items(_BUDGETS, pod["metadata"]["namespace"])
            if selector_of(budget).matches(labels_of(pod))
        ]
        if len(found) > 1:
            raise Unavailable(_SEVERAL, status=500)
        if not found:
            return ""
        if not is_ready(pod) and _spares_unhealthy(found[0]):
            return str(found[0]["metadata"]["name"])
        name = pod["metadata"]["name"]
        self._control.writes.change(
            POD_DISRUPTION_BUDGETS,
            key_of(found[0]),
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
        status["disruptedPods"] = {**disrupted, pod_name: rfc3339(self._control.clock.now())}
        if status["disruptionsAllowed"] == 0:
            condition = ObjectCondition("DisruptionAllowed", "False", "InsufficientPods")
            set_condition(budget, condition, self._control.clock.now())
        return budget


def _is_free_to_go(pod: Json) -> bool:
    """Whether a pod's eviction costs no budget: it does not run, or goes already."""
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
