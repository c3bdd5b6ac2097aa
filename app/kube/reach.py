"""Where the API server is, and how we prove who we are.

Strategy: what nearly every process has is read here: the service account of its pod, or a
kubeconfig with a token. Everything else is a case for the `kubernetes` package.
"""

from __future__ import annotations

import os
import socket
import ssl
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any, Final
from urllib.request import getproxies_environment

import yaml
from urllib3 import PoolManager
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError
from urllib3.util import parse_url

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
POOL_SIZE = 32
_USUAL_NAMESPACE: Final = "default"
_TRUST: Final = {"certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify"}
_AUTHORITIES: Final = {"ca_certs": "cafile", "ca_cert_data": "cadata"}
_PROOF: Final = {"token", "tokenFile"}


def keep_alive() -> list[tuple[int, int, int]]:
    """Socket options that find a dead peer within a minute."""
    options = [
        *HTTPConnection.default_socket_options,
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        found = ip_address(host.strip("[]"))
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped.is_loopback
    return found.is_loopback


@dataclass(frozen=True, slots=True)
class Origin:
    """Where configuration is looked for."""

    kubeconfig: str = ""
    context: str = ""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    service_account: Path = SERVICE_ACCOUNT

    def kubeconfig_path(self) -> str:
        """Return the kubeconfig to read, empty for the service account of our pod."""
        if given := self.kubeconfig or self.environ.get("KUBECONFIG", ""):
            return given
        in_pod = "KUBERNETES_SERVICE_HOST" in self.environ
        if in_pod and not self.context and (self.service_account / "token").exists():
            return ""
        return str(Path(self.environ.get("HOME", "~")) / ".kube" / "config")

    def namespace(self) -> str:
        """Return the namespace that is meant where none is named: the context's, or our pod's."""
        path = self.kubeconfig_path()
        if not path:
            try:
                found = (self.service_account / "namespace").read_text("utf-8").strip()
            except OSError:
                found = ""
            return found or _USUAL_NAMESPACE
        from kubernetes.config import list_kube_config_contexts  # only now: many megabytes

        contexts, active = list_kube_config_contexts(  # type: ignore[no-untyped-call]  # no types
            config_file=path
        )
        named = [context for context in contexts if context.get("name") == self.context]
        chosen = named[0] if named else active
        return str((chosen.get("context") or {}).get("namespace") or _USUAL_NAMESPACE)


@dataclass(frozen=True, slots=True)
class Reach:
    """A way to the API server."""

    host: str
    pool: PoolManager
    authorization: Callable[[], str]  # empty where something else proves who we are, or nothing


def plain_reach(origin: Origin) -> Reach | None:
    """Return a way that can be read here; None if the package has to read it, or to complain."""
    if getproxies_environment().keys() - {"no"}:
        return None
    try:
        path = origin.kubeconfig_path()
        return _of_kubeconfig(Path(path), origin.context) if path else _of_pod(origin)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        return None


def _of_pod(origin: Origin) -> Reach | None:
    host, port = (origin.environ[f"KUBERNETES_SERVICE_{word}"] for word in ("HOST", "PORT"))
    token = origin.service_account / "token"
    if not (host and port and token.read_text("utf-8")):
        return None
    shown = f"[{host}]" if ":" in host else host
    pool = _pool({"ca_certs": _present(origin.service_account / "ca.crt")})
    # Tokens of pods are short-lived, and the kubelet writes fresh ones.
    return Reach(f"https://{shown}:{port}", pool, _Token(token, "bearer"))


def _of_kubeconfig(path: Path, context: str) -> Reach | None:
    config = yaml.safe_load(path.read_text("utf-8"))
    chosen = _named(config["contexts"], context or config["current-context"])["context"]
    cluster = _named(config["clusters"], chosen["cluster"])["cluster"]
    called = chosen.get("user")
    user = (_named(config["users"], called)["user"] or {}) if called else {}
    trust = cluster.keys() - {"server"}
    if trust - _TRUST or user.keys() - _PROOF or len(trust) > 1 or len(user) > 1:
        return None
    pool: dict[str, Any] = {}
    if "certificate-authority" in trust:
        pool = {"ca_certs": _present(path.parent / cluster["certificate-authority"])}
    elif "certificate-authority-data" in trust:
        data = b64decode(cluster["certificate-authority-data"], validate=True)
        pool = {"ca_cert_data": data.decode("ascii")}
    elif cluster.get("insecure-skip-tls-verify"):
        pool = {"cert_reqs": ssl.CERT_NONE}
    authorization: Callable[[], str] = str
    if "tokenFile" in user:
        authorization = _Token(path.parent / user["tokenFile"], "Bearer")
    elif "token" in user:
        authorization = f"Bearer {user['token']}".strip
    host = str(cluster["server"]).rstrip("/")
    check_server(host)
    return Reach(host, _pool(pool), authorization)


def check_server(host: str) -> None:
    """Raise ValueError for what is no URL of a server."""
    try:
        url = parse_url(host)
    except HTTPError:  # of urllib3, which alone says what it would refuse later
        raise ValueError(host) from None
    if not url.host or url.scheme not in {None, "http", "https"}:
        raise ValueError(host)


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = (entry for entry in entries if entry["name"] == name)
    return found


def _present(path: Path) -> str:
    if not path.read_bytes():
        raise ValueError(path)
    return str(path)


def _pool(trust: Mapping[str, Any]) -> PoolManager:
    if authorities := {word: trust[name] for name, word in _AUTHORITIES.items() if name in trust}:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(**authorities)
    return PoolManager(
        maxsize=POOL_SIZE,
        socket_options=keep_alive(),
        **{"cert_reqs": ssl.CERT_REQUIRED, **trust},
    )


class _Token:
    """A token in a file, which others write again; the last one that could be read counts."""

    def __init__(self, path: Path, scheme: str) -> None:
        self._path = path
        self._scheme = scheme
        self._known = path.read_text("utf-8").strip()

    def __call__(self) -> str:
        with suppress(OSError):
            self._known = self._path.read_text("utf-8").strip() or self._known
        return f"{self._scheme} {self._known}"
