"""StatefulSets, pods with names and ordinals; DaemonSets, a pod on every node that suits.

Strategy: a look goes through the ordinals in order and stops at the first thing that is to be
waited for. Pods below the partition keep the template of the revision before, which is
remembered here.
"""

from __future__ import annotations

from app.ports import DAEMON_SETS, STATEFUL_SETS, Json
from app.sandbox.objects import (
    Key,
    collection_of,
    has_ended,
    is_deleted,
    is_ready,
    key_of,
    labels_of,
    member,
)
from app.sandbox.pod_control import (
    Controller,
    PodControl,
    availability,
    pods_meant,
    template_hash,
    with_labels,
)
from app.sandbox.scheduler import node_bound_to, pinned, suits

_REVISION = "controller-revision-hash"


class StatefulSets(Controller):
    """The controller of StatefulSets."""

    resource = STATEFUL_SETS

    def __init__(self, control: PodControl) -> None:
        super().__init__(control)
        self._templates: dict[Key, dict[str, Json]] = {}  # by revision

    def look(self, key: Key) -> float | None:
        """Move it on; forget the templates of one that is gone."""
        if self._control.store.read(collection_of(self.resource), key) is None:
            self._templates.pop(key, None)
        return super().look(key)

    def move_on(self, owner: Json) -> float | None:
        """Move its pods on towards its template and replicas."""
        key, template = key_of(owner), owner["spec"]["template"]
        update = f"{key.name}-{template_hash(template)}"
        current = member(owner, "status.currentRevision") or update
        known = self._templates.get(key, {})
        self._templates[key] = {update: template, current: known.get(current, template)}
        places = self._places(owner)
        try:
            if self._fill(owner, places, current, update) and self._shrink(owner, places):
                self._replace(owner, places, update)
        finally:
            wait = self._tell_status(owner, current, update)
        return wait

    def _places(self, owner: Json) -> dict[int, Json]:
        """Return the pods by their ordinals."""
        found = {}
        prefix = f"{owner['metadata']['name']}-"
        for pod in self.pods_of(owner):
            ordinal = pod["metadata"]["name"].removeprefix(prefix)
            if ordinal.isdecimal():
                found[int(ordinal)] = pod
        return found

    def _fill(self, owner: Json, places: dict[int, Json], current: str, update: str) -> bool:
        """Make what is missing; return whether there is nothing to wait for."""
        spec = owner["spec"]
        in_order = spec.get("podManagementPolicy") != "Parallel"
        partition = member(spec, "updateStrategy.rollingUpdate.partition") or 0
        is_whole = True
        for ordinal in range(_replicas(owner)):
            pod = places.get(ordinal)
            if pod is None:
                revision = current if ordinal < partition else update
                self._create(owner, ordinal, revision)
            elif has_ended(pod) and not is_deleted(pod):
                self.delete_pod(owner, pod)
            elif _is_healthy(pod):
                continue
            is_whole = False
            if in_order:
                return False
        return is_whole or not in_order

    def _create(self, owner: Json, ordinal: int, revision: str) -> None:
        name = f"{owner['metadata']['name']}-{ordinal}"
        labels = {
            _REVISION: revision,
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
        }
        template = with_labels(self._templates[key_of(owner)][revision], labels)
        self.create_pod(owner, template, name=name)

    def _shrink(self, owner: Json, places: dict[int, Json]) -> bool:
        """Delete what is too much, the last first; return whether nothing is."""
        surplus = sorted(
            (ordinal for ordinal in places if ordinal >= _replicas(owner)), reverse=True
        )
        for ordinal in surplus:
            if not is_deleted(places[ordinal]):
                self.delete_pod(owner, places[ordinal])
            if owner["spec"].get("podManagementPolicy") != "Parallel":
                return False
        return not surplus

    def _replace(self, owner: Json, places: dict[int, Json], update: str) -> None:
        """Delete the last pod of an older template, if all after it are well."""
        spec = owner["spec"]
        if member(spec, "updateStrategy.type") != "RollingUpdate":
            return
        partition = member(spec, "updateStrategy.rollingUpdate.partition") or 0
        for ordinal in range(_replicas(owner) - 1, partition - 1, -1):
            pod = places.get(ordinal)
            if pod is None or is_deleted(pod):
                return
            if labels_of(pod).get(_REVISION) != update:
                self.delete_pod(owner, pod)
                return
            if not _is_healthy(pod):
                return

    def _tell_status(self, owner: Json, current: str, update: str) -> float | None:
        pods = list(self._places(owner).values())
        available, wait = availability(owner, pods, self._control.clock.now())
        updated = sum(1 for pod in pods if labels_of(pod).get(_REVISION) == update)
        if updated == available == len(pods) == _replicas(owner):
            current = update
        status = {
            "observedGeneration": owner["metadata"]["generation"],
            "replicas": len(pods),
            "readyReplicas": sum(1 for pod in pods if is_ready(pod)),
            "availableReplicas": available,
            "updatedReplicas": updated,
            "currentReplicas": sum(1 for pod in pods if labels_of(pod).get(_REVISION) == current),
            "currentRevision": current,
            "updateRevision": update,
        }
        self.set_status(owner, status)
        return wait


def _replicas(owner: Json) -> int:
    return int(owner["spec"].get("replicas") or 0)


def _is_healthy(pod: Json) -> bool:
    return member(pod, "status.phase") == "Running" and is_ready(pod) and not is_deleted(pod)


class DaemonSets(Controller):
    """The controller of DaemonSets."""

    resource = DAEMON_SETS

    def move_on(self, owner: Json) -> float | None:
        """Create, replace and delete pods."""
        label = template_hash(owner["spec"]["template"])
        nodes = [
            str(node["metadata"]["name"])
            for node in self._control.store.items("nodes")
            if suits(owner["spec"]["template"]["spec"], node)
        ]
        pods = self._by_node(owner)
        try:
            self._place(owner, nodes, pods, label)
            self._replace(owner, nodes, pods, label)
        finally:
            wait = self._tell_status(owner, nodes, label)
        return wait

    def _by_node(self, owner: Json) -> dict[str, Json]:
        pods = self.pods_of(owner)
        return {node_bound_to(pod): pod for pod in pods}

    def _place(self, owner: Json, nodes: list[str], pods: dict[str, Json], label: str) -> None:
        template = with_labels(owner["spec"]["template"], {_REVISION: label})
        for node in nodes:
            if node not in pods:
                self.create_pod(owner, pinned(template, node))
        for node, pod in pods.items():
            if not is_deleted(pod) and (node not in nodes or has_ended(pod)):
                self.delete_pod(owner, pod)

    def _replace(self, owner: Json, nodes: list[str], pods: dict[str, Json], label: str) -> None:
        """Delete pods of an older template, as many as may be unavailable."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") != "RollingUpdate":
            return
        share = member(strategy, "rollingUpdate.maxUnavailable")
        most = max(pods_meant(share, len(nodes), round_up=True), 1)
        lost = [
            node
            for node in nodes
            if node not in pods or is_deleted(pods[node]) or not is_ready(pods[node])
        ]
        old = [
            node
            for node, pod in pods.items()
            if labels_of(pod).get(_REVISION) != label and not is_deleted(pod)
        ]
        broken = [node for node in old if node in lost]
        for node in broken + [node for node in old if node not in lost][: max(most - len(lost), 0)]:
            self.delete_pod(owner, pods[node])

    def _tell_status(self, owner: Json, nodes: list[str], label: str) -> float | None:
        pods = [
            pod
            for node, pod in self._by_node(owner).items()
            if node in nodes and not is_deleted(pod)
        ]
        available, wait = availability(owner, pods, self._control.clock.now())
        status = {
            "observedGeneration": owner["metadata"]["generation"],
            "desiredNumberScheduled": len(nodes),
            "currentNumberScheduled": len(pods),
            "numberMisscheduled": 0,
            "numberReady": sum(1 for pod in pods if is_ready(pod)),
            "numberAvailable": available,
            "numberUnavailable": len(nodes) - available,
            "updatedNumberScheduled": sum(
                1 for pod in pods if labels_of(pod).get(_REVISION) == label
            ),
        }
        self.set_status(owner, status)
        return wait
