"""The nodes of a cluster, and what measures the pods on them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from app.model.fields import Json
from app.ports import NODES
from tests.cluster.api import Api, Refusal
from tests.cluster.parts import Parts
from tests.cluster.programs import Program, eventually, free_port

LABEL: Final = "tests.plumbline.dev/for"  # of a node that is kept for those who ask for it
_NAMESPACE: Final = "kube-system"
_METRICS: Final = "metrics-server"


@dataclass(frozen=True, slots=True)
class NodeSize:
    """A node: its name and size, and whom it is kept for."""

    name: str
    cpu: str = "200"  # more than 256 do not fit into a cgroup
    memory: str = "800Gi"
    kept_for: str = ""


# All rows share the two large ones; on the small ones pods stand in one another's way.
USUAL: Final = (
    NodeSize("node-1"),
    NodeSize("node-2"),
    NodeSize("small-1", "4", "16Gi", kept_for="crowd-1"),
    NodeSize("small-2", "4", "16Gi", kept_for="crowd-2"),
)
# What a kubelet does about one pod takes longer the more it has, so thousands need many nodes. Each
# is asked for by itself: schedulers do not spread pods that are small beside their nodes.
MANY: Final = tuple(NodeSize(name, kept_for=name) for name in (f"many-{n}" for n in range(1, 21)))


class Nodes:
    """Some nodes and their metrics-server, each a program."""

    def __init__(
        self,
        parts: Parts,
        folder: Path,
        kubeconfig: Path,
        memory: Path,
        sizes: tuple[NodeSize, ...] = USUAL,
    ) -> None:
        self._node = parts.path("node")
        self._kubeconfig, self._folder, self._memory = kubeconfig, folder, memory
        self._environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder)}
        self._sizes = sizes
        self.metrics_ports = {size.name: free_port() for size in sizes}
        self.nodes = [self._program(number, size) for number, size in enumerate(sizes, 1)]
        self._metrics_port = free_port()
        flags = _metrics_flags(kubeconfig, folder, self._metrics_port)
        command = [parts.path(_METRICS), *(f"--{key}={text}" for key, text in flags.items())]
        log = folder / f"{_METRICS}.log"
        self.metrics = Program(_METRICS, command, log, self._environment)

    @property
    def programs(self) -> tuple[Program, ...]:
        """All of them."""
        return *self.nodes, self.metrics

    def start(self, api: Api) -> None:
        """Begin; return when pods can run."""
        for program in self.programs:
            program.start()
        announce_metrics(api, self._metrics_port)
        _wait(api, zip(self.nodes, self._sizes, strict=True))

    def add(self, api: Api, sizes: Sequence[NodeSize]) -> Sequence[Program]:
        """Start more nodes; return them when pods can run there."""
        self.metrics_ports |= {size.name: free_port() for size in sizes}
        first = len(self.nodes) + 1
        more = [self._program(number, size) for number, size in enumerate(sizes, first)]
        self.nodes += more
        for program in more:
            program.start()
        _wait(api, zip(more, sizes, strict=True))
        return more

    def _program(self, number: int, size: NodeSize) -> Program:
        command = [
            self._node,
            f"--kubeconfig={self._kubeconfig}",
            f"--name={size.name}",
            f"--folder={self._memory}",
            f"--network={number}",
            f"--port={free_port()}",
            f"--metrics-port={self.metrics_ports[size.name]}",
            f"--cpu={size.cpu}",
            f"--memory={size.memory}",
            "--max-pods=3000",
        ]
        return Program(size.name, command, self._folder / f"{size.name}.log", self._environment)


def _wait(api: Api, nodes: Iterable[tuple[Program, NodeSize]]) -> None:
    for program, size in nodes:
        program.wait_until(partial(_is_ready, api, size.name))
        if size.kept_for:
            _keep(api, size)


def _is_ready(api: Api, name: str) -> bool:
    found = api.find(NODES, "", name)
    conditions = found["status"].get("conditions") or () if found else ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _keep(api: Api, size: NodeSize) -> None:
    """Keep a node for pods that ask for it, and tolerate that nobody else may."""
    taint = {"key": LABEL, "value": size.kept_for, "effect": "NoSchedule"}
    change = {"metadata": {"labels": {LABEL: size.kept_for}}, "spec": {"taints": [taint]}}
    api.merge(NODES, "", size.name, change)


def placed(item: Json, whom: str) -> Json:
    """Let a pod, or a template of pods, go to the nodes that are kept for somebody."""
    item["spec"] |= {
        "nodeSelector": {LABEL: whom},
        "tolerations": [{"key": LABEL, "operator": "Exists"}],
    }
    return item


def _metrics_flags(kubeconfig: Path, folder: Path, port: int) -> Mapping[str, str]:
    return {
        "kubeconfig": str(kubeconfig),
        "authentication-kubeconfig": str(kubeconfig),
        "authorization-kubeconfig": str(kubeconfig),
        "bind-address": "127.0.0.1",
        "secure-port": str(port),
        "cert-dir": str(folder / "metrics-certificates"),
        "kubelet-insecure-tls": "true",
        "kubelet-use-node-status-port": "true",
        "kubelet-preferred-address-types": "InternalIP",
        "metric-resolution": "10s",  # the shortest that it takes
        "kubelet-request-timeout": "5s",
    }


def announce_metrics(api: Api, port: int) -> None:
    """Tell the API server who answers for metrics.k8s.io.

    Endpoints must not be on loopback, but a service may have a name that is.
    """
    place = {"name": _METRICS, "namespace": _NAMESPACE}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": place,
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    answers = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {**place, "port": port},
        },
    }
    for item in (service, answers):
        eventually(partial(_is_applied, api, item), f"{item['kind']} is there")


def _is_applied(api: Api, item: Json) -> bool:
    try:
        return api.apply(item).status < 300
    except Refusal:  # the namespace may not be there yet
        return False
