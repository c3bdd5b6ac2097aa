"""DaemonSets: a pod on every node that suits."""

from __future__ import annotations

from app.ports import DAEMON_SETS, Json
from app.sandbox.controllers.pod_control import (
    PodControl,
    available_in_seconds,
    pods_meant,
    soonest,
    template_hash,
    with_labels,
)
from app.sandbox.nodes import node_bound_to, pinned, suits
from app.sandbox.objects import Key, has_ended, is_deleted, is_ready, labels_of, member, selector_of

_HASH = "controller-revision-hash"


class DaemonSets:
    """The controller of DaemonSets."""

    resource = DAEMON_SETS

    def __init__(self, control: PodControl) -> None:
        self._control = control

    def look(self, key: Key) -> float | None:
        """Create, replace and delete pods; return after how many seconds to look again."""
        owner = self._control.store.read("daemonsets.apps", key)
        if owner is None or is_deleted(owner):
            return None
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
        pods = self._control.pods_of(DAEMON_SETS, owner, selector_of(owner))
        return {node_bound_to(pod): pod for pod in pods}

    def _place(self, owner: Json, nodes: list[str], pods: dict[str, Json], label: str) -> None:
        template = with_labels(owner["spec"]["template"], {_HASH: label})
        for node in nodes:
            if node not in pods:
                self._control.create_pod(DAEMON_SETS, owner, pinned(template, node))
        for node, pod in pods.items():
            if not is_deleted(pod) and (node not in nodes or has_ended(pod)):
                self._control.delete_pod(DAEMON_SETS, owner, pod)

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
            if labels_of(pod).get(_HASH) != label and not is_deleted(pod)
        ]
        broken = [node for node in old if node in lost]
        for node in broken + [node for node in old if node not in lost][: max(most - len(lost), 0)]:
            self._control.delete_pod(DAEMON_SETS, owner, pods[node])

    def _tell_status(self, owner: Json, nodes: list[str], label: str) -> float | None:
        pods = {
            node: pod
            for node, pod in self._by_node(owner).items()
            if node in nodes and not is_deleted(pod)
        }
        least, now = owner["spec"].get("minReadySeconds") or 0, self._control.clock.now()
        waits = [available_in_seconds(pod, least, now) for pod in pods.values()]
        available = sum(1 for wait in waits if wait == 0)
        status = {
            "observedGeneration": owner["metadata"]["generation"],
            "desiredNumberScheduled": len(nodes),
            "currentNumberScheduled": len(pods),
            "numberMisscheduled": 0,
            "numberReady": sum(1 for pod in pods.values() if is_ready(pod)),
            "numberAvailable": available,
            "numberUnavailable": len(nodes) - available,
            "updatedNumberScheduled": sum(
                1 for pod in pods.values() if labels_of(pod).get(_HASH) == label
            ),
        }
        self._control.set_status(DAEMON_SETS, owner, status)
        return soonest(waits)
