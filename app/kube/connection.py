"""Where the API server is, and how we prove who we are, and in which namespace.

Strategy: the `kubernetes` package reads the configuration and runs what it names (exec plugins,
token files, refresh tokens). It asks for a fresh token before each call; here one thread does so
at most every few seconds. What it never reads again (client certificates, a token file of a
kubeconfig) is read again as a whole once the server says 401.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, list_kube_config_contexts
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger
from urllib3 import PoolManager
from urllib3.connection import HTTPConnection

from app.model.errors import BadSetting, Refused
from app.ports import Json

log = logging.getLogger("kube.connection")

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_LIFE_SECONDS = 5.0  # for so long a token is used without asking for a fresher one
RELOAD_PAUSE_SECONDS = 10.0  # between two readings of the configuration
POOL_SIZE = 32

_USUAL = "default"


def _keep_alive() -> list[tuple[int, int, int]]:
    """Socket options that find a dead peer within a minute."""
    options = [
        *HTTPConnection.default_socket_options,
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


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


def load(origin: Origin) -> Configuration:
    """Read the configuration.

    Raises:
        BadSetting: it cannot be used; the sentence names the file.
        Refused: there are no credentials to send.
    """
    configuration = Configuration(host="")
    path = origin.kubeconfig_path()
    called = f"kubeconfig {path}" if path else f"service account {origin.service_account}"
    try:
        if path:
            _load_kubeconfig(path, origin.context, configuration)
        else:
            _load_service_account(origin, configuration)
    except Refused as error:
        raise Refused(f"{called}: {error}", status=401) from None
    except Exception as error:
        raise BadSetting(f"{called}: {error}") from error
    if not configuration.host:
        raise BadSetting(f"{called}: the cluster names no server")
    configuration.socket_options = _keep_alive()
    configuration.connection_pool_maxsize = POOL_SIZE
    return configuration


def _load_kubeconfig(path: str, context: str, configuration: Configuration) -> None:
    merged = KubeConfigMerger(path)  # type: ignore[no-untyped-call]  # the package has no types here
    if merged.config is None:
        raise ConfigException("no such file; give one with --kubeconfig or KUBECONFIG")
    _check_names(merged.config.value, context)
    loader = KubeConfigLoader(  # type: ignore[no-untyped-call]  # the package has no types here
        merged.config,
        active_context=context or None,
        config_base_path=None,
        config_persister=merged.save_changes,
    )
    loader.load_and_set(configuration)  # type: ignore[no-untyped-call]  # as above
    name = loader.current_context["context"].get("user", "")
    user = merged.config["users"].get_with_name(name, safe=True) if name else None
    # The package only logs when a plugin fails, and would go on without credentials.
    if user and "exec" in user["user"] and not (configuration.api_key or configuration.cert_file):
        raise Refused(f'the exec plugin of user "{name}" gave no credentials')


def _check_names(config: Json, context: str) -> None:
    """Say in our words what the package says in those of programmers, or not at all."""
    named = {word: _by_name(config, word) for word in ("contexts", "clusters", "users")}
    known = ", ".join(named["contexts"]) or "none"
    chosen = context or config.get("current-context") or ""
    if not chosen:
        raise ConfigException(f"no context is current; choose one with --context: {known}")
    if chosen not in named["contexts"]:
        raise ConfigException(f'there is no context "{chosen}"; there are: {known}')
    parts = named["contexts"][chosen].get("context") or {}
    if not isinstance(parts, dict) or not parts.get("cluster"):
        raise ConfigException(f'context "{chosen}" names no cluster')
    for word, others in (("cluster", "clusters"), ("user", "users")):
        if (name := parts.get(word)) and name not in named[others]:
            raise ConfigException(f'context "{chosen}" names {word} "{name}", which is not there')


def _by_name(config: Json, word: str) -> dict[str, Json]:
    """Return contexts, clusters or users; those of a merger are wrapped."""
    entries = [getattr(entry, "value", entry) for entry in config.get(word) or ()]
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise ConfigException(f"{word}[{number}] is no object")
    return {str(entry.get("name")): entry for entry in entries}


def _load_service_account(origin: Origin, configuration: Configuration) -> None:
    loader = InClusterConfigLoader(  # type: ignore[no-untyped-call]  # the package has no types here
        token_filename=str(origin.service_account / "token"),
        cert_filename=str(origin.service_account / "ca.crt"),
        environ=origin.environ,
    )
    loader.load_and_set(configuration)  # type: ignore[no-untyped-call]  # as above


class Session(NamedTuple):
    """What a call needs to go out."""

    pool: PoolManager
    host: str
    authorization: str  # empty where a client certificate or nothing proves who we are
    generation: int  # of the configuration


class ApiAccess:
    """The configuration in use, read again when the server no longer knows us."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._lock = Lock()
        self._generation = 0
        self._reloaded_at = float("-inf")
        self._use(load(origin))

    def _use(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._client = ApiClient(configuration)
        self._generation += 1
        self._asked_at = float("-inf")
        self._authorization = ""

    def session(self) -> Session:
        """Return what the next call goes out with."""
        with self._lock:
            now = time.monotonic()
            if now - self._asked_at >= TOKEN_LIFE_SECONDS:
                self._asked_at = now
                self._authorization = self._fresh_authorization()
            pool = self._client.rest_client.pool_manager
            return Session(pool, self._configuration.host, self._authorization, self._generation)

    def _fresh_authorization(self) -> str:
        configuration = self._configuration
        hook: Callable[[Configuration], None] | None = vars(configuration)["refresh_api_key_hook"]
        if hook is not None:
            try:
                hook(configuration)
            except Exception:
                log.exception("credentials not refreshed, the old ones stay in use")
        # The package's releases differ in the key; there is never more than one.
        return next(iter(configuration.api_key.values()), "").strip()

    def renew(self, generation: int) -> bool:
        """Read the configuration again if `generation` is still in use; tell if it is newer now."""
        with self._lock:
            if generation != self._generation:
                return True
            if time.monotonic() - self._reloaded_at < RELOAD_PAUSE_SECONDS:
                return False
            self._reloaded_at = time.monotonic()
            try:
                configuration = load(self._origin)
            except (BadSetting, Refused) as error:
                log.warning("configuration not read again", extra={"error": str(error)})
                return False
            self._client.rest_client.pool_manager.clear()
            self._use(configuration)
            return True

    def close(self) -> None:
        """Close the connections that wait for use."""
        self._client.rest_client.pool_manager.clear()


def usual_namespace(origin: Origin) -> str:
    """Return the namespace that is meant where none is named."""
    path = origin.kubeconfig_path()
    if not path:
        return _read(origin) or _USUAL
    contexts, active = list_kube_config_contexts(  # type: ignore[no-untyped-call]  # it has no types
        config_file=path
    )
    named = [found for found in contexts if found.get("name") == origin.context]
    found = named[0] if named else active
    return str((found.get("context") or {}).get("namespace") or _USUAL)


def _read(origin: Origin) -> str:
    try:
        return (origin.service_account / "namespace").read_text("utf-8").strip()
    except OSError:
        return ""
