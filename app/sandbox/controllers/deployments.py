"""ReplicaSets and ReplicationControllers, and Deployments, which roll over from one to the next.

Strategy: of all ReplicaSets of a Deployment together there are never more pods than `maxSurge`
allows, and never fewer available than `maxUnavailable` allows; each look moves as far as that
lets it.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.ports import DEPLOYMENTS, PODS, REPLICA_SETS, Json, Resource
from app.sandbox.objects import (
    ObjectCondition,
    is_active,
    is_deleted,
    is_ready,
    key_of,
    labels_of,
    member,
    owner_reference,
    set_condition,
)
from app.sandbox.pod_control import (
    Controller,
    PodControl,
    availability,
    pods_meant,
    template_hash,
    with_labels,
)

_REVISION = "deployment.kubernetes.io/revision"
_HASH = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What a rollout must keep to."""

    replicas: int
    surge: int
    unavailable: int

    @staticmethod
    def of(deployment: Json) -> _Bounds:
        spec = deployment["spec"]
        replicas = int(spec.get("replicas") or 0)
        rolling = member(spec, "strategy.rollingUpdate") or {}
        surge = pods_meant(rolling.get("maxSurge"), replicas, round_up=True)
        unavailable = pods_meant(rolling.get("maxUnavailable"), replicas, round_up=False)
        return _Bounds(replicas, surge, unavailable if surge or unavailable else 1)


class Deployments(Controller):
    """The controller of Deployments."""

    resource = DEPLOYMENTS

    def move_on(self, deployment: Json) -> None:
        """Move its ReplicaSets on towards its template and replicas."""
        sets = self._sets(deployment)
        label = template_hash(deployment["spec"]["template"])
        new = next((replica_set for replica_set in sets if _label(replica_set) == label), None)
        if new is None:
            new = self._create_set(deployment, label, sets)
        elif new is not sets[-1]:  # a template of long ago is wanted again
            self._renew(new, _revision(sets[-1]) + 1)
        old = [replica_set for replica_set in sets if key_of(replica_set) != key_of(new)]
        bounds = _Bounds.of(deployment)
        if member(deployment, "spec.strategy.type") == "Recreate":
            self._recreate(deployment, new, old, bounds)
        else:
            self._roll(deployment, new, old, bounds)
        self._forget_old(deployment)
        self._tell_status(deployment, label, bounds)

    def _sets(self, deployment: Json) -> list[Json]:
        """Return the ReplicaSets of a Deployment, the oldest first."""
        owned = self.owned(deployment, REPLICA_SETS)
        return sorted((item for item in owned if not is_deleted(item)), key=_revision)

    def _create_set(self, deployment: Json, label: str, sets: list[Json]) -> Json:
        spec, metadata = deployment["spec"], deployment["metadata"]
        template = with_labels(spec["template"], {_HASH: label})
        revision = str(max(map(_revision, sets), default=0) + 1)
        selector = spec["selector"]
        body = {
            "metadata": {
                "name": f"{metadata['name']}-{label}",
                "labels": template["metadata"]["labels"],
                "annotations": {_REVISION: revision},
                "ownerReferences": [owner_reference(DEPLOYMENTS, deployment)],
            },
            "spec": {
                "replicas": 0,
                "minReadySeconds": spec.get("minReadySeconds") or 0,
                "selector": {
                    **selector,
                    "matchLabels": {**(selector.get("matchLabels") or {}), _HASH: label},
                },
                "template": template,
            },
        }
        return self._control.writes.create(REPLICA_SETS, metadata["namespace"], body)

    def _renew(self, replica_set: Json, revision: int) -> None:
        def renew(item: Json) -> None:
            item["metadata"].setdefault("annotations", {})[_REVISION] = str(revision)

        self._control.change(REPLICA_SETS, replica_set, renew)

    def _roll(self, deployment: Json, new: Json, old: list[Json], bounds: _Bounds) -> None:
        wanted = {key_of(replica_set): _wanted(replica_set) for replica_set in (new, *old)}
        total = sum(wanted.values())
        room = max(bounds.replicas + bounds.surge - total, 0)
        wanted[key_of(new)] = min(bounds.replicas, _wanted(new) + room)
        least = bounds.replicas - bounds.unavailable
        may_go = total - least - (_wanted(new) - _available(new))
        for replica_set in old:  # those that do not work first
            gone = min(
                max(may_go, 0),
                _wanted(replica_set) - min(_available(replica_set), _wanted(replica_set)),
            )
            wanted[key_of(replica_set)] -= gone
            may_go -= gone
        spare = min(sum(_available(replica_set) for replica_set in (new, *old)) - least, may_go)
        for replica_set in old:
            gone = min(max(spare, 0), wanted[key_of(replica_set)])
            wanted[key_of(replica_set)] -= gone
            spare -= gone
        for replica_set in (new, *old):
            self._scale(deployment, replica_set, wanted[key_of(replica_set)])

    def _recreate(self, deployment: Json, new: Json, old: list[Json], bounds: _Bounds) -> None:
        for replica_set in old:
            self._scale(deployment, replica_set, 0)
        if not any(self.owned(replica_set, PODS) for replica_set in old):
            self._scale(deployment, new, bounds.replicas)

    def _scale(self, deployment: Json, replica_set: Json, replicas: int) -> None:
        before = _wanted(replica_set)
        if replicas == before:
            return
        self._control.change(
            REPLICA_SETS, replica_set, lambda item: item["spec"].update(replicas=replicas)
        )
        way = "up" if replicas > before else "down"
        name = replica_set["metadata"]["name"]
        message = f"Scaled {way} replica set {name} from {before} to {replicas}"
        self.tell(deployment, "ScalingReplicaSet", message)

    def _forget_old(self, deployment: Json) -> None:
        """Delete ReplicaSets that are long out of use."""
        *old, _newest = self._sets(deployment)
        idle = [
            replica_set
            for replica_set in old
            if not _wanted(replica_set) and not _number(replica_set, "replicas")
        ]
        kept = deployment["spec"].get("revisionHistoryLimit")
        for replica_set in idle[: max(len(idle) - (10 if kept is None else int(kept)), 0)]:
            self._control.delete(REPLICA_SETS, replica_set)

    def _tell_status(self, deployment: Json, label: str, bounds: _Bounds) -> None:
        sets = self._sets(deployment)
        updated = [replica_set for replica_set in sets if _label(replica_set) == label]
        numbers = {
            key: sum(_number(replica_set, key) for replica_set in sets)
            for key in ("replicas", "readyReplicas", "availableReplicas")
        }
        new_replicas = sum(_number(replica_set, "replicas") for replica_set in updated)
        status: Json = {
            "observedGeneration": deployment["metadata"]["generation"],
            **numbers,
            "updatedReplicas": new_replicas,
            "unavailableReplicas": max(bounds.replicas - numbers["availableReplicas"], 0),
        }
        conditions = list(member(deployment, "status.conditions") or ())
        draft: Json = {"status": {"conditions": conditions}}
        enough = numbers["availableReplicas"] >= bounds.replicas - bounds.unavailable
        now = self._control.clock.now()
        set_condition(draft, _AVAILABLE if enough else _NOT_AVAILABLE, now)
        done = new_replicas == numbers["availableReplicas"] == bounds.replicas
        done = done and numbers["replicas"] == bounds.replicas
        set_condition(draft, _COMPLETE if done else _PROGRESSING, now)
        status["conditions"] = conditions
        self.set_status(deployment, status)


_AVAILABLE = ObjectCondition(
    "Available",
    "True",
    "MinimumReplicasAvailable",
    "Deployment has minimum availability.",
)
_NOT_AVAILABLE = ObjectCondition(
    "Available",
    "False",
    "MinimumReplicasUnavailable",
    "Deployment does not have minimum availability.",
)
_PROGRESSING = ObjectCondition("Progressing", "True", "ReplicaSetUpdated", "The rollout goes on.")
_COMPLETE = ObjectCondition(
    "Progressing", "True", "NewReplicaSetAvailable", "The rollout is complete."
)


def _revision(replica_set: Json) -> int:
    return int((replica_set["metadata"].get("annotations") or {}).get(_REVISION) or 0)


def _label(replica_set: Json) -> str:
    return str(labels_of(replica_set).get(_HASH, ""))


def _wanted(replica_set: Json) -> int:
    return int(replica_set["spec"].get("replicas") or 0)


def _available(replica_set: Json) -> int:
    return _number(replica_set, "availableReplicas")


def _number(replica_set: Json, key: str) -> int:
    return int(member(replica_set, f"status.{key}") or 0)


class Replicas(Controller):
    """The controller of one of the two kinds."""

    def __init__(self, control: PodControl, resource: Resource) -> None:
        super().__init__(control)
        self.resource = resource

    def move_on(self, owner: Json) -> float | None:
        """Create or delete pods."""
        pods = [pod for pod in self.pods_of(owner) if is_active(pod)]
        wanted = int(owner["spec"].get("replicas") or 0)
        try:
            for _ in range(wanted - len(pods)):
                self.create_pod(owner, owner["spec"]["template"])
            for pod in sorted(pods, key=_worth)[: max(len(pods) - wanted, 0)]:
                self.delete_pod(owner, pod)
        finally:
            wait = self._tell_status(owner)
        return wait

    def _tell_status(self, owner: Json) -> float | None:
        pods = [
            pod
            for collection, pod in self._control.store.owned_by(owner["metadata"]["uid"])
            if collection == "pods" and is_active(pod)
        ]
        labels = (member(owner, "spec.template.metadata.labels") or {}).items()
        available, wait = availability(owner, pods, self._control.clock.now())
        status = {
            "replicas": len(pods),
            "fullyLabeledReplicas": sum(1 for pod in pods if labels <= labels_of(pod).items()),
            "readyReplicas": sum(1 for pod in pods if is_ready(pod)),
            "availableReplicas": available,
            "observedGeneration": owner["metadata"]["generation"],
        }
        self.set_status(owner, status)
        return wait


def _worth(pod: Json) -> tuple[bool, bool, bool, str, str]:
    """Order pods by what would be lost: those without a node first, then the younger ones."""
    metadata = pod["metadata"]
    age = "".join(chr(0x10FFFF - ord(letter)) for letter in metadata["creationTimestamp"])
    return (
        bool(pod["spec"].get("nodeName")),
        member(pod, "status.phase") == "Running",
        is_ready(pod),
        age,
        metadata["name"],
    )
