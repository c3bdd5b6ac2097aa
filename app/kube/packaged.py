"""The ways to a cluster that only the `kubernetes` package knows: plugins, logins, proxies.

Strategy: the package reads the configuration and runs what it names. It asks for a fresh token
before each call. With all that it imports it takes many megabytes, so this module is imported
only for a configuration that needs it, or that cannot be used and has to be complained of.

The package complains in words of programmers, late, or not at all, so what it will read is looked
at before, and why it cannot be used is said in ours. Several files count as one; of two entries
with the same name the first one counts, of the current contexts the last.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any, Final

import yaml
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from app.kube.failures import cause_of
from app.kube.reach import POOL_SIZE, Origin, Reach, check_server, keep_alive
from app.model.errors import BadSetting, Refused

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
        check_server_and_certificates(configuration)
    except Refused as error:
        raise Refused(f"{called}: {error}", status=401) from None
    except (BadSetting, ConfigException) as error:
        raise BadSetting(f"{called}: {error}") from error
    except Exception as error:
        raise BadSetting(f"{called} cannot be used: {cause_of(error)}") from error
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
            log.exception("credentials not refreshed, the old ones are used")
    # The package's releases differ in the key; there is never more than one.
    return next(iter(configuration.api_key.values()), "").strip()


def _load_kubeconfig(path: str, context: str, configuration: Configuration) -> None:
    check_kubeconfig(path, context)
    merged = KubeConfigMerger(path)  # type: ignore[no-untyped-call]  # the package has no types here
    loader = KubeConfigLoader(  # type: ignore[no-untyped-call]  # the package has no types here
        merged.config,
        active_context=context or None,
        config_base_path=None,
        config_persister=merged.save_changes,
    )
    name = loader.current_context["context"].get("user", "")
    user = merged.config["users"].get_with_name(name, safe=True) if name else None
    plugin = ""
    if user and "exec" in user["user"]:
        command = str(user["user"]["exec"].safe_get("command") or "")
        plugin = f'the exec plugin "{command}" of user "{name}"'
        if os.sep not in command and which(command) is None:
            raise Refused(f"{plugin} was not found")
    loader.load_and_set(configuration)  # type: ignore[no-untyped-call]  # as above
    # The package only logs when a plugin fails, and would go on without credentials.
    if plugin and not (configuration.api_key or configuration.cert_file):
        raise Refused(f"{plugin} gave no credentials")


def _load_service_account(origin: Origin, configuration: Configuration) -> None:
    loader = InClusterConfigLoader(  # type: ignore[no-untyped-call]  # the package has no types here
        token_filename=str(origin.service_account / "token"),
        cert_filename=str(origin.service_account / "ca.crt"),
        environ=origin.environ,
    )
    loader.load_and_set(configuration)  # type: ignore[no-untyped-call]  # as above


_PARTS: Final = {"contexts": "context", "clusters": "cluster", "users": "user"}
_FILES: Final = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
_MISSING: Final = (
    "no such file; give one with --kubeconfig or KUBECONFIG; commands that only read also take "
    "files, with --objects"
)
_NO_PASSWORD: Final = b""  # else OpenSSL would ask a terminal for the one of a locked key


@dataclass(frozen=True, slots=True)
class _Entry:
    """A context, cluster or user, and the folder that its files are named from."""

    parts: Mapping[str, Any]
    folder: Path


def check_kubeconfig(path: str, context: str) -> None:
    """Look at one or several files, up to the files that the chosen context leads to.

    Raises:
        BadSetting: they cannot be used.
    """
    known: dict[str, dict[str, _Entry]] = {word: {} for word in _PARTS}
    chosen = context
    files = [Path(part).expanduser() for part in path.split(os.pathsep) if part]
    present = [file for file in files if file.exists()]
    if not present:
        raise BadSetting(_MISSING)
    for file in present:
        where = f"{file}: " if len(files) > 1 else ""
        found = _read(file, where)
        for word, entries in known.items():
            for name, parts in _entries(found, word, where):
                entries.setdefault(name, _Entry(parts, file.parent))
        if not context:
            chosen = str(found.get("current-context") or chosen)
    _check_chosen(known, chosen)


def check_server_and_certificates(configuration: Configuration) -> None:
    """Look at what the package made of it.

    Raises:
        BadSetting: no connection can be made with it.
    """
    if not configuration.host:
        raise BadSetting("the cluster names no server")
    try:
        check_server(configuration.host)
    except ValueError:
        raise BadSetting(f'the server "{configuration.host}" is not a URL') from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if configuration.ssl_ca_cert:
            context.load_verify_locations(configuration.ssl_ca_cert)
    except OSError:
        raise BadSetting("the certificate authority holds no PEM certificate") from None
    try:
        if configuration.cert_file:
            key = configuration.key_file or None
            context.load_cert_chain(configuration.cert_file, key, lambda: _NO_PASSWORD)
    except OSError:
        message = "client certificate and key are not a pair in PEM, or the key has a password"
        raise BadSetting(message) from None


def _read(file: Path, where: str) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(file.read_text("utf-8"))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise BadSetting(f"{where}invalid YAML: {error.problem}{at}") from None
    except yaml.YAMLError:
        raise BadSetting(f"{where}invalid YAML: it is not a text file") from None
    except (OSError, UnicodeError) as error:
        raise BadSetting(f"{where}{cause_of(error)}") from None
    if found is None:
        raise BadSetting(f"{where}the file is empty")
    if not isinstance(found, dict):
        raise BadSetting(f"{where}not a kubeconfig: it holds no object with clusters and contexts")
    return found


def _entries(
    found: Mapping[str, Any], word: str, where: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    entries = found.get(word) or []
    if not isinstance(entries, list):
        raise BadSetting(f"{where}{word} is not a list")
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or "name" not in entry:
            raise BadSetting(f"{where}{word}[{number}] is not an object with a name")
        parts = entry.get(_PARTS[word])
        yield str(entry["name"]), parts if isinstance(parts, dict) else {}


def _check_chosen(known: Mapping[str, Mapping[str, _Entry]], chosen: str) -> None:
    contexts = known["contexts"]
    named = ", ".join(contexts) or "none"
    if not chosen and not contexts:
        raise BadSetting("it has no contexts, so it names no cluster")
    if not chosen:
        raise BadSetting(f"no context is current; choose one with --context: {named}")
    if chosen not in contexts:
        raise BadSetting(f'there is no context "{chosen}"; there are: {named}')
    parts = contexts[chosen].parts
    if not parts.get("cluster"):
        raise BadSetting(f'context "{chosen}" names no cluster')
    for word, entries in (("cluster", known["clusters"]), ("user", known["users"])):
        name = str(parts.get(word) or "")
        if name and name not in entries:
            raise BadSetting(f'context "{chosen}" names {word} "{name}", which does not exist')
        if name:
            _check_files(f"{word} {name}", entries[name], _FILES[f"{word}s"])


def _check_files(called: str, entry: _Entry, fields: tuple[str, ...]) -> None:
    for field in fields:
        name = entry.parts.get(field)
        if not name or entry.parts.get(f"{field}-data"):
            continue
        try:
            (entry.folder / str(name)).read_bytes()
        except OSError as error:
            raise BadSetting(f"{field} of {called}: {name}: {cause_of(error)}") from None
