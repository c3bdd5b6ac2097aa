"""One process in a cluster: its account, roles, Deployment, Service and disruption budget.

Strategy: names, labels and ports are upstream's, so that what selects, scrapes or greps its pods
finds ours. Roles have names of their own: upstream's stay as they are, for the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from app.manifests.rights import Reach, Right, rules
from app.ports import Json

IMAGE: Final = "plumbline"
NAMESPACE: Final = "kube-system"
_NOBODY: Final = 65534
_RBAC: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Program:
    """A process and what its pod is like."""

    component: str
    name: str  # of everything that belongs to it
    verb: str
    flags: tuple[str, ...]
    port: int  # of metrics and health
    cpu: str
    memory: str
    memory_limit: str
    rights: tuple[Right, ...]
    https_port: int = 0
    pages: tuple[str, ...] = ("/metrics",)  # that Prometheus reads

    def documents(self) -> list[Json]:
        """Return all that the process needs."""
        return [
            self._account(),
            *roles(f"plumbline:{self.name}", self.name, self.rights, self.component),
            self._deployment(),
            *([self._webhook_service()] if self.https_port else []),
            self._metrics_service(),
            self._disruption_budget(),
        ]

    def _account(self) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(self.name, self.component),
        }

    def _deployment(self) -> Json:
        selector = {"app": self.name}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata(self.name, self.component),
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": selector},
                "template": {
                    "metadata": {"labels": {**selector, **labels(self.component)}},
                    "spec": self._pod(selector),
                },
            },
        }

    def _pod(self, selector: Json) -> Json:
        return {
            "serviceAccountName": self.name,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _NOBODY,
                "runAsGroup": _NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": selector},
                }
            ],
            # A round, the last checkpoints and the farewell to open requests need some time.
            "terminationGracePeriodSeconds": 45,
            "containers": [self._container()],
            # The root file system is read-only; processes share their numbers here.
            "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}],
        }

    def _container(self) -> Json:
        https = [{"name": "https", "containerPort": self.https_port}] if self.https_port else []
        return {
            "name": self.component,
            "image": f"{IMAGE}:{version('plumbline')}",
            "args": [self.verb, *self.flags, "--v=4"],
            "env": [
                {
                    "name": "NAMESPACE",
                    "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
                }
            ],
            "ports": [*https, {"name": "prometheus", "containerPort": self.port}],
            "livenessProbe": _probe("/livez", initialDelaySeconds=5),
            "readinessProbe": _probe("/readyz", periodSeconds=5),
            "resources": {
                "requests": {"cpu": self.cpu, "memory": self.memory},
                "limits": {"memory": self.memory_limit},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        }

    def _webhook_service(self) -> Json:
        return self._service("vpa-webhook", {"port": 443, "targetPort": "https"})

    def _metrics_service(self) -> Json:
        return self._service(f"{self.name}-metrics", {"name": "prometheus", "port": self.port})

    def _service(self, name: str, port: Json) -> Json:
        target = {"targetPort": "prometheus", **port}
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(name, self.component),
            "spec": {"selector": {"app": self.name}, "ports": [target]},
        }

    def _disruption_budget(self) -> Json:
        # Not minAvailable: with one replica it would keep a node from being drained for ever.
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata(self.name, self.component),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": self.name}}},
        }


def roles(name: str, account: str, rights: Sequence[Right], component: str) -> list[Json]:
    """Return the roles and bindings that give rights to an account."""
    found: list[Json] = []
    for kind, reach in (("ClusterRole", Reach.EVERYWHERE), ("Role", Reach.AT_HOME)):
        if allowed := rules(rights, reach):
            # Nothing with a namespace: `metadata` leaves it out where it must not stand.
            described = metadata(name, component, namespaced=reach is Reach.AT_HOME)
            found.append(
                {
                    "apiVersion": f"{_RBAC}/v1",
                    "kind": kind,
                    "metadata": described,
                    "rules": allowed,
                }
            )
            found.append(
                {
                    "apiVersion": f"{_RBAC}/v1",
                    "kind": f"{kind}Binding",
                    "metadata": described,
                    "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
                    "subjects": [
                        {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
                    ],
                }
            )
    return found


def metadata(name: str, component: str, *, namespaced: bool = True) -> Json:
    """Return the metadata of an object of ours."""
    place = {"namespace": NAMESPACE} if namespaced else {}
    return {"name": name, **place, "labels": labels(component)}


def labels(component: str) -> dict[str, str]:
    """Return the labels that tell what an object is for."""
    return {
        "app.kubernetes.io/name": "plumbline",
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": "vertical-pod-autoscaler",
    }


def _probe(path: str, **more: int) -> Json:
    return {"httpGet": {"path": path, "port": "prometheus"}, **more}
