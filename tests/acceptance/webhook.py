"""`plumbline admission` as a program on loopback, with an account of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from app.manifests.webhooks import CONFIGURATION_NAME
from app.ports import LEASES, MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from tests.acceptance.logs import Logs
from tests.cluster.api import Api, Json, Refusal
from tests.cluster.control_plane import Access
from tests.cluster.numbers import total
from tests.cluster.programs import Program, eventually, free_port

NAMESPACE: Final = "kube-system"
ACCOUNT: Final = "vpa-admission-controller"
HEARTBEAT: Final = "vpa-admission-controller"
ELECTION: Final = "vpa-admission-controller-rotation"
SECRET: Final = "vpa-tls-certs"
_ROOT: Final = Path(__file__).parents[2]
_ROLES: Final = Path(__file__).with_name("roles.yaml")
_HOST: Final = "PLUMBLINE_WEBHOOK_HOST"  # under which a cluster elsewhere reaches this machine
_TOKEN_SECONDS: Final = 7200


def prepare(admin: Api) -> None:
    """Give the account its rights."""
    for document in yaml.safe_load_all(_ROLES.read_text("utf-8")):
        admin.apply(document)


def account_token(admin: Api, account: str = ACCOUNT) -> str:
    """Return a token of a service account, as a pod would get one."""
    body = {"spec": {"expirationSeconds": _TOKEN_SECONDS}}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    token: str = admin.call("POST", path, body).body["status"]["token"]
    return token


def clean(admin: Api) -> None:
    """Take away whatever a webhook leaves in a cluster."""
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        admin.delete(resource, "", CONFIGURATION_NAME)
    for lease in (HEARTBEAT, ELECTION):
        admin.delete(LEASES, NAMESPACE, lease)
    admin.delete(SECRETS, NAMESPACE, SECRET)


class Webhook:
    """One replica; those that share a `called_port` are called through a balancer there."""

    def __init__(
        self,
        access: Access,
        admin: Api,
        folder: Path,
        flags: Iterable[str] = (),
        *,
        name: str = "admission",
        workers: int = 1,
        called_port: int = 0,
    ) -> None:
        self.port = free_port()
        self._health = f"http://127.0.0.1:{(health := free_port())}"
        self._admin = admin
        kubeconfig = access.kubeconfig(folder / f"{name}.kubeconfig", account_token(admin))
        command = [
            *(sys.executable, "-m", "app", "admission"),
            f"--kubeconfig={kubeconfig}",
            f"--port={self.port}",
            "--host=127.0.0.1",
            f"--address=127.0.0.1:{health}",
            "--register-by-url",
            f"--webhook-address=https://{os.environ.get(_HOST, 'localhost')}",
            f"--webhook-port={called_port or self.port}",
            f"--workers={workers}",
            "--status-lease-update-interval=1s",
            *flags,
        ]
        environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_ROOT)}
        self.program = Program(name, command, folder / f"{name}.log", environment)

    @cached_property
    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self._health)

    def start(self, logs: Logs) -> None:
        """Begin; return when it is ready."""
        logs.add(self.program.name, self.program.log)
        self.program.start()
        self.program.wait_until(lambda: self.problem() == "OK")

    def wait_until_called(self) -> None:
        """Return when the API server calls it."""
        eventually(lambda: refusal_of_nonsense(self._admin), "the API server calls the webhook")

    def stop(self, seconds: float = 30.0) -> int:
        """End it; return its exit code."""
        self._client.close()
        del self._client
        return self.program.stop(seconds)

    def problem(self) -> str:
        """Return why it is not ready; OK when it is."""
        try:
            return self._client.get("/readyz").text
        except httpx.HTTPError as error:
            return repr(error)

    def number(self, name: str, **labels: str) -> float:
        """Return a number it publishes."""
        return total(self._client.get("/metrics").text, name, **labels)

    def logged(self, text: str) -> bool:
        """Say whether its log holds a text."""
        return text in self.program.log.read_text("utf-8", "replace")


def refusal_of_nonsense(admin: Api) -> str:
    """Return what our webhook says of a VPA that nobody else refuses; empty if nothing."""
    nonsense: dict[str, Any] = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "nonsense", "namespace": "default"},
        "spec": {
            "targetRef": {"kind": "Deployment", "name": "none"},
            "updatePolicy": {"updateMode": "Off", "minReplicas": -1},
        },
    }
    try:
        admin.create(nonsense, dry_run=True)
    except Refusal as refusal:
        return refusal.message if "admission webhook" in refusal.message else ""
    return ""


def configurations(admin: Api) -> tuple[Json, Json]:
    """Return both webhook configurations."""
    mutating, validating = (
        admin.get(resource, "", CONFIGURATION_NAME)
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
    )
    return mutating, validating
