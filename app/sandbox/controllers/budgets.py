"""Keeps the status of PodDisruptionBudgets: how many of their pods may go now."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from app.model.errors import NotFound
from app.model.fields import time_at
from app.ports import POD_DISRUPTION_BUDGETS, Json
from app.sandbox.clock import SteppedClock
from app.sandbox.conditions import Condition, is_ready, set_condition
from app.sandbox.controllers.numbers import pods_meant
from app.sandbox.kinds import Catalogue
from app.sandbox.objects import (
    Key,
    controller_of,
    is_deleted,
    key_of,
    labels_of,
    member,
    selector_of,
)
from app.sandbox.scaling import scale_of
from app.sandbox.store import Store, Transition
from app.sandbox.worklist import Worklist
from app.sandbox.writes import Writes

EVICTED_PODS_GO_WITHIN = timedelta(minutes=2)  # or count as there again

_BUDGETS = "poddisruptionbudgets.policy"
_SEEN = ("pods", "replicasets.apps", "deployments.apps", "statefulsets.apps")


class _Unknown(Exception):
    """How many pods there should be cannot be told."""


class _Numbers(NamedTuple):
    expected: int
    desired: int


class Budgets:
    """The disruption controller."""

    def __init__(
        self, store: Store, writes: Writes, catalogue: Catalogue, clock: SteppedClock
    ) -> None:
        self._store = store
        self._writes = writes
        self._catalogue = catalogue
        self._clock = clock
        self._kind = catalogue.find(POD_DISRUPTION_BUDGETS)
        self._todo = Worklist(clock, self._look)
        store.listen(self._note)

    def _note(self, collection: str, change: Transition) -> None:
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
        now = self._clock.now()

        def renewed(item: Json) -> Json:
            try:
                numbers = self._numbers(item, pods)
            except _Unknown as error:
                item.setdefault("status", {})["disruptionsAllowed"] = 0
                failed = Condition("DisruptionAllowed", "False", "SyncFailed", str(error))
                set_condition(item, failed, now)
            else:
                _count(item, pods, numbers, now)
            return item

        try:
            found = self._writes.change(self._kind, key, renewed, subresource="status")
        except NotFound:
            return
        if member(found, "status.disruptedPods"):
            self._todo.note(key, EVICTED_PODS_GO_WITHIN.total_seconds() / 4)

    def _numbers(self, budget: Json, pods: list[Json]) -> _Numbers:
        spec = budget["spec"]
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
            if owner is not None:  # nobody knows how many there should be of the others
                uid, replicas = self._scale(pod["metadata"]["namespace"], owner)
                wanted[uid] = replicas
        return sum(wanted.values())

    def _scale(self, namespace: str, owner: Json) -> tuple[str, int]:
        kind = self._catalogue.by_kind(owner.get("apiVersion", ""), owner.get("kind", ""))
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
    condition = (
        Condition("DisruptionAllowed", "True", "SufficientPods")
        if allowed
        else Condition("DisruptionAllowed", "False", "InsufficientPods")
    )
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
