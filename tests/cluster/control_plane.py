"""A cluster on free ports of loopback, with a folder of its own: control plane, nodes, metrics.

Strategy: everything that it writes lies in one folder, so that taking it down leaves nothing; what
nodes write may lie in memory, for kubelets wait until each note of theirs is on the disk. The API
server alone can be killed and started again, on the same port and state.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Final

import httpx

from app.admission.certificates import issue
from app.model.fields import Json
from tests.cluster.api import SERVICE_ACCOUNTS, Api, Refusal
from tests.cluster.front_proxy import NAME as FRONT_PROXY
from tests.cluster.front_proxy import certificate as front_proxy
from tests.cluster.nodes import Nodes
from tests.cluster.parts import Parts
from tests.cluster.programs import Program, eventually, free_port

HOST: Final = "127.0.0.1"
_ISSUER: Final = "https://kubernetes.default.svc"
_SERVICES: Final = "10.96.0.0/16"
_DAYS: Final = 30
_MEMORY: Final = Path("/dev/shm")
_ROOM_BYTES: Final = 1 << 30
_NEW_PODS: Final = {
    "level": "Metadata",
    "verbs": ["create"],
    "resources": [{"group": "", "resources": ["pods"]}],
}


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach an API server; a token says who calls."""

    url: str
    ca_pem: str

    def api(self, token: str) -> Api:
        """Return a client for an account."""
        return Api(self.url, ssl.create_default_context(cadata=self.ca_pem), token)

    def kubeconfig(self, path: Path, token: str) -> Path:
        """Write a kubeconfig for an account; JSON is YAML."""
        ca = path.with_suffix(".ca")
        ca.write_text(self.ca_pem, "utf-8")
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
            "clusters": [
                {
                    "name": "tests",
                    "cluster": {"server": self.url, "certificate-authority": str(ca)},
                }
            ],
            "users": [{"name": "tests", "user": {"token": token}}],
        }
        path.write_text(json.dumps(config, indent=1), "utf-8")
        path.chmod(0o600)
        return path


class ControlPlane:
    """A whole one; `start` and `stop` once, the API server as often as wanted."""

    def __init__(
        self,
        parts: Parts,
        folder: Path,
        now: datetime,
        *,
        services: str = _SERVICES,
        accounts: Sequence[str] = (),
        memory: Path | None = None,
    ) -> None:
        self.folder = folder
        # A line of JSON for each pod that was created, and for whatever the accounts ask for.
        self.audit_log = folder / "audit.log"
        self._services = services
        self._accounts = accounts
        self.admin_token = token_hex(16)
        self._parts = parts
        self._etcd_url = f"http://{HOST}:{free_port()}"
        self._port = free_port()
        self._write_keys(now)
        ca_pem = (folder / "ca.crt").read_text("utf-8")
        self.access = Access(f"https://{HOST}:{self._port}", ca_pem)
        self.kubeconfig = self.access.kubeconfig(folder / "kubeconfig", self.admin_token)
        self.etcd = self._program("etcd", self._etcd_flags())
        self.api_server = self._program("kube-apiserver", self._api_server_flags())
        self.controllers = self._program("kube-controller-manager", self._controller_flags())
        self.scheduler = self._program("kube-scheduler", self._client_flags())
        self.nodes = Nodes(parts, folder, self.kubeconfig, memory or folder)

    @property
    def programs(self) -> tuple[Program, ...]:
        """All of them, in the order in which they start."""
        control = self.etcd, self.api_server, self.controllers, self.scheduler
        return *control, *self.nodes.programs

    def start(self) -> None:
        """Begin; return when pods can be created."""
        self.etcd.start()
        self.etcd.wait_until(lambda: _answers(f"{self._etcd_url}/health"))
        self.start_api_server()
        self.controllers.start()
        self.scheduler.start()
        api = self.access.api(self.admin_token)
        try:
            eventually(
                lambda: api.find(SERVICE_ACCOUNTS, "default", "default"),
                "controllers make service accounts",
            )
            self.nodes.start(api)
        finally:
            api.close()

    def start_api_server(self) -> None:
        """Start the API server, for the first time or again; return when it is ready."""
        self.api_server.start()
        api = self.access.api(self.admin_token)

        def ready() -> bool:
            try:
                return api.text("/readyz") == "ok"
            except (httpx.HTTPError, Refusal):
                return False

        try:
            self.api_server.wait_until(ready)
        finally:
            api.close()

    def compact(self) -> None:
        """Let etcd forget everything but the newest state."""
        with httpx.Client(base_url=self._etcd_url) as etcd:
            read = etcd.post("/v3/kv/range", json={"key": "AA=="}).raise_for_status().json()
            version = read["header"]["revision"]
            etcd.post(
                "/v3/kv/compaction", json={"revision": version, "physical": True}
            ).raise_for_status()

    def stop(self) -> None:
        """End all programs; what is left in the folder serves nobody, so nobody needs manners."""
        for program in reversed(self.programs):
            program.kill()

    def _program(self, name: str, flags: dict[str, str]) -> Program:
        command = [self._parts.path(name), *(f"--{key}={text}" for key, text in flags.items())]
        # Memory for cpu: half as much is spent on collecting garbage.
        path = os.environ.get("PATH", "")
        environment = {"PATH": path, "HOME": str(self.folder), "GOGC": "200"}
        return Program(name, command, self.folder / f"{name}.log", environment)

    def _write_keys(self, now: datetime) -> None:
        serving = issue((HOST, "localhost", "kubernetes.default.svc"), now, _DAYS)
        signing = issue(("service-accounts",), now, _DAYS)
        proxy_pem, proxy_key_pem = front_proxy(now)
        texts = {
            "ca.crt": serving.ca_pem,
            "server.crt": serving.cert_pem,
            "server.key": serving.key_pem,
            "accounts.key": signing.key_pem,
            "accounts.crt": signing.cert_pem,
            "proxy.crt": proxy_pem,
            "proxy.key": proxy_key_pem,
            "audit.json": json.dumps(self._audited()),
            "tokens.csv": f'{self.admin_token},admin,admin,"system:masters"\n',
        }
        for name, text in texts.items():
            path = self.folder / name
            path.write_text(text, "utf-8")
            path.chmod(0o600)

    def _audited(self) -> Json:
        asked = {"level": "Metadata", "users": list(self._accounts)}
        rules = [*([asked] if self._accounts else []), _NEW_PODS, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
        return {**policy, "omitStages": ["RequestReceived"]}

    def _etcd_flags(self) -> dict[str, str]:
        peer = f"http://{HOST}:{free_port()}"
        return {
            "name": "tests",
            "data-dir": str(self.folder / "etcd"),
            "unsafe-no-fsync": "true",
            "listen-client-urls": self._etcd_url,
            "advertise-client-urls": self._etcd_url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"tests={peer}",
            "log-level": "warn",
        }

    def _api_server_flags(self) -> dict[str, str]:
        return {
            "etcd-servers": self._etcd_url,
            "bind-address": HOST,
            "advertise-address": HOST,
            "secure-port": str(self._port),
            "tls-cert-file": self._in_folder("server.crt"),
            "tls-private-key-file": self._in_folder("server.key"),
            "token-auth-file": self._in_folder("tokens.csv"),
            "service-account-issuer": _ISSUER,
            "service-account-key-file": self._in_folder("accounts.crt"),
            "service-account-signing-key-file": self._in_folder("accounts.key"),
            "service-cluster-ip-range": self._services,
            "authorization-mode": "RBAC",
            "audit-policy-file": self._in_folder("audit.json"),
            "audit-log-path": str(self.audit_log),
            "allow-privileged": "true",
            "endpoint-reconciler-type": "none",
            "requestheader-client-ca-file": self._in_folder("proxy.crt"),
            "requestheader-allowed-names": FRONT_PROXY,
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": self._in_folder("proxy.crt"),
            "proxy-client-key-file": self._in_folder("proxy.key"),
        }

    def _controller_flags(self) -> dict[str, str]:
        return {
            **self._client_flags(),
            # Each waits for our webhook, and on a busy machine that takes its time.
            "concurrent-deployment-syncs": "20",
            "concurrent-replicaset-syncs": "20",
            "service-account-private-key-file": self._in_folder("accounts.key"),
            "root-ca-file": self._in_folder("ca.crt"),
        }

    def _client_flags(self) -> dict[str, str]:
        return {
            "kubeconfig": str(self.kubeconfig),
            "leader-elect": "false",
            "secure-port": "0",
            "kube-api-qps": "300",
            "kube-api-burst": "600",
        }

    def _in_folder(self, name: str) -> str:
        return str(self.folder / name)


@contextmanager
def in_memory() -> Iterator[Path]:
    """Give a folder that goes at the end; it is in memory where there is room for thousands."""
    is_roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES
    with TemporaryDirectory(
        prefix="plumbline-", dir=_MEMORY if is_roomy else None, ignore_cleanup_errors=True
    ) as name:
        yield Path(name)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False
