"""Nodes, made of a few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.ports import Json


@dataclass(frozen=True, slots=True)
class NodeSize:
    """A node and what it can give to pods."""

    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)

    def item(self) -> Json:
        """Return the node as an object."""
        room = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods)}
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **self.labels,
        }
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        return {
            "metadata": {"name": self.name, "labels": labels},
            "spec": {},
            "status": {
                "capacity": room,
                "allocatable": dict(room),
                "conditions": [ready],
                "addresses": [{"type": "Hostname", "address": self.name}],
                "nodeInfo": {"kubeletVersion": "v1.36.3"},
            },
        }


USUAL_NODES = (NodeSize("node-1"), NodeSize("node-2"))
