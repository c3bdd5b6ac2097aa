"""A cluster that somebody else runs, reached through a kubeconfig."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

import httpx
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_kube_config

from app.ports import NODES, VPAS
from tests.cluster.api import NOT_FOUND, Api, Refusal
from tests.cluster.control_plane import Access
from tests.cluster.parts import Unavailable
from tests.cluster.programs import GaveUp, eventually

_RUNTIME: Final = "in-memory"  # as it calls itself


def given(kubeconfig: str) -> tuple[Access, Api]:
    """Return how to reach its API server, and a client for whom the kubeconfig names.

    Raises:
        Unavailable: nobody is reached so, or somebody's VPAs are there.
    """
    try:
        access, admin = _read(kubeconfig)
        admin.call("GET", "/api")
    except (ConfigException, OSError, Refusal, httpx.HTTPError) as error:
        raise Unavailable(f"the cluster that KUBECONFIG names is not reached: {error}") from error
    try:
        eventually(lambda: not _vpas(admin), "those of a former run are gone")
    except GaveUp as error:
        raise Unavailable(
            f"the cluster that KUBECONFIG names has VPAs, such as {_vpas(admin)[0]}: name one that "
            "has none, for tests put definitions and webhooks of their own in the place of its own"
        ) from error
    return access, admin


def _vpas(admin: Api) -> list[str]:
    """Return the VPAs that are there."""
    try:
        found = [each["metadata"] for each in admin.list(VPAS)]
    except Refusal as refusal:
        if refusal.status != NOT_FOUND:
            raise
        return []
    return [f"{each['namespace']}/{each['name']}" for each in found]


def _read(kubeconfig: str) -> tuple[Access, Api]:
    found = Configuration()
    load_kube_config(  # type: ignore[no-untyped-call]  # the package has no types here
        config_file=kubeconfig, client_configuration=found
    )
    if not found.ssl_ca_cert:
        raise ConfigException(f"{kubeconfig} names no certificate authority to trust")
    ca_pem = Path(str(found.ssl_ca_cert)).read_text("utf-8")
    trust = ssl.create_default_context(cadata=ca_pem)
    if found.cert_file:
        trust.load_cert_chain(found.cert_file, found.key_file)
    token = next(iter(found.api_key.values()), "").removeprefix("Bearer ")
    return Access(found.host, ca_pem), Api(found.host, trust, token)


def has_our_nodes(admin: Api) -> bool:
    """Say whether the runtime of a node is the one in memory."""
    told = [node["status"]["nodeInfo"]["containerRuntimeVersion"] for node in admin.list(NODES)]
    return any(text.startswith(f"{_RUNTIME}://") for text in told)
