"""`plumbline admission` as a program on loopback, with an account of its own."""

from __future__ import annotations

import base64
import os
import signal
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from app.admission.core.rotation import CertificateSet
from app.kube.manifests.documents import CONFIGURATION_NAME
from app.model.fields import Json
from app.ports import LEASES, MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, VPAS
from app.runtime.clock import SystemClock
from app.runtime.election import lease, micro_time
from tests.acceptance.cluster import Cluster, reached_as
from tests.acceptance.process import Process, halted
from tests.acceptance.rights import NAMESPACE
from tests.acceptance.space import item_of
from tests.cluster.api import Api, Refusal, place
from tests.cluster.programs import eventually, free_port

HEARTBEAT: Final = "vpa-admission-controller"
ELECTION: Final = "vpa-admission-controller-rotation"
SECRET: Final = "vpa-tls-certs"
MUTATING_NAME: Final = "vpa.k8s.io"
_BEAT_SECONDS: Final = 5.0
_LOOKS: Final = 4  # at a number that must stay the same


def clean(admin: Api) -> None:
    """Take away whatever a webhook leaves in a cluster; its Secret stays, empty."""
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        admin.delete(resource, "", CONFIGURATION_NAME)
    for name in (HEARTBEAT, ELECTION):
        admin.delete(LEASES, NAMESPACE, name)
    admin.apply(item_of(SECRETS, SECRET, NAMESPACE))
    admin.merge(SECRETS, NAMESPACE, SECRET, {"data": None})


class Webhook(Process):
    """One replica; those that share a `called_port` are called through a balancer there."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        flags: Iterable[str] = (),
        *,
        name: str = "admission",
        workers: int = 1,
        called_port: int = 0,
    ) -> None:
        self.port = free_port()
        self._admin = cluster.admin
        host, listening = reached_as()
        self.address = f"https://{host}:{called_port or self.port}"
        ours = (
            f"--port={self.port}",
            f"--host={listening}",
            "--register-by-url",
            f"--webhook-address=https://{host}",
            f"--webhook-port={called_port or self.port}",
            f"--workers={workers}",
            "--status-lease-update-interval=1s",
        )
        super().__init__("admission", cluster, folder, (*ours, *flags), name)

    def close(self) -> None:
        """End it, and take away what it leaves in the cluster."""
        self.program.kill()
        clean(self._admin)

    def wait_until_called(self) -> None:
        """Return when the API server calls it."""
        eventually(lambda: refusal_of_nonsense(self._admin), "the API server calls the webhook")
        client = configurations(self._admin)[0]["webhooks"][0]["clientConfig"]
        authority = base64.b64decode(client["caBundle"]).decode()
        self._trust = ssl.create_default_context(cadata=authority)
        self._url = client["url"]

    def asked(self, namespace: str, pod: Json) -> Json:
        """Ask about a new pod as an API server does, without one; return the response."""
        request = {
            "uid": "0",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": namespace,
            "operation": "CREATE",
            "object": pod,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        body = {**review, "request": request}
        url = f"{self._url}?timeout=5s"
        answer = httpx.post(url, json=body, verify=self._trust, timeout=5).raise_for_status()
        response: Json = answer.json()["response"]
        return response

    def workers(self) -> tuple[int, ...]:
        """Return the process ids of its workers."""
        threads = Path(f"/proc/{self.program.pid}/task").glob("*/children")
        children = [int(pid) for found in threads for pid in found.read_text("ascii").split()]
        return tuple(pid for pid in children if b"spawn_main" in _command_line(pid))

    def signal_workers(self, number: signal.Signals) -> None:
        """Send a signal to every worker."""
        for pid in self.workers():
            os.kill(pid, number)

    def settled(self, name: str, **labels: str) -> float:
        """Return a number when all is in it: what happens is counted once a second."""
        seen: list[float] = []

        def look() -> bool:
            seen.append(self.number(name, **labels))
            return seen[-1:] * _LOOKS == seen[-_LOOKS:]

        eventually(look, f"{name} moves no more", every=0.6)
        return seen[-1]

    def while_unregistered(self, work: Callable[[], object]) -> None:
        """Do something at a moment at which the API server does not ask the webhook."""
        with halted(self.program):
            for found in configurations(self._admin):
                resource, _, name = place(found)
                self._admin.delete(resource, "", name)
            eventually(lambda: not refusal_of_nonsense(self._admin), "nobody is asked")
            work()
        self.wait_until_called()

    def logged(self, text: str) -> bool:
        """Say whether its log holds a text."""
        return text in self.program.log.read_text("utf-8", "replace")


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def refusal_of_nonsense(admin: Api) -> str:
    """Return what our webhook says of a VPA that nobody else refuses; empty if nothing."""
    spec = {
        "targetRef": {"kind": "Deployment", "name": "none"},
        "updatePolicy": {"updateMode": "Off", "minReplicas": -1},
    }
    nonsense = item_of(VPAS, "nonsense", "default", spec=spec)
    try:
        admin.create(nonsense, dry_run=True)
    except Refusal as refusal:
        return refusal.message if "admission webhook" in refusal.message else ""
    return ""


def secret_data(certificates: CertificateSet) -> dict[str, str]:
    """Return what the Secret holds of a generation."""
    texts = {
        "caCert.pem": certificates.ca_pem,
        "serverCert.pem": certificates.cert_pem,
        "serverKey.pem": certificates.key_pem,
    }
    return {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}


def renewed(admin: Api) -> str:
    """Return when the heartbeat was last renewed; empty if never."""
    found = admin.find(LEASES, NAMESPACE, HEARTBEAT)
    moment: str = found["spec"]["renewTime"] if found else ""
    return moment


def configurations(admin: Api) -> tuple[Json, Json]:
    """Return both webhook configurations."""
    mutating, validating = (
        admin.get(resource, "", CONFIGURATION_NAME)
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
    )
    return mutating, validating


@contextmanager
def beating(admin: Api, namespace: str) -> Iterator[None]:
    """Renew a webhook's Lease meanwhile."""
    over = threading.Event()

    def beat() -> None:
        now = micro_time(SystemClock().now())
        admin.apply(lease(namespace, HEARTBEAT, {"holderIdentity": "tests", "renewTime": now}))

    def go_on() -> None:
        while not over.wait(_BEAT_SECONDS):
            beat()

    beat()
    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        admin.delete(LEASES, namespace, HEARTBEAT)
