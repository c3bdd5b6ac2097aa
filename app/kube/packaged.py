"""The ways to a cluster that only the `kubernetes` package knows: plugins, logins, proxies.

Strategy: the package reads the configuration and runs what it names. It asks for a fresh token
before each call. With all that it imports it takes many megabytes, so this module is imported
only for a configuration that needs it, or that cannot be used and has to be complained of.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from app.kube.reach import POOL_SIZE, Origin, Reach, keep_alive
from app.model.errors import BadSetting, Refused
from app.ports import Json

log = logging.getLogger("kube.connection")


def packaged_reach(origin: Origin) -> Reach:
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
    configuration.socket_options = keep_alive()
    configuration.connection_pool_maxsize = POOL_SIZE
    pool = ApiClient(configuration).rest_client.pool_manager
    return Reach(configuration.host, pool, lambda: _authorization(configuration))


def _authorization(configuration: Configuration) -> str:
    hook: Callable[[Configuration], None] | None = vars(configuration)["refresh_api_key_hook"]
    if hook is not None:
        try:
            hook(configuration)
        except Exception:
            log.exception("credentials not refreshed, the old ones stay in use")
    # The package's releases differ in the key; there is never more than one.
    return next(iter(configuration.api_key.values()), "").strip()


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
