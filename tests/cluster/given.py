"""A cluster that somebody else runs, reached through a kubeconfig."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

import httpx
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_kube_config

from app.ports import NODES
from tests.cluster.api import Api, Refusal
from tests.cluster.control_plane import Access
from tests.cluster.parts import Unavailable

_RUNTIME: Final = "in-memory"  # as it calls itself


def given(kubeconfig: str) -> tuple[Access, Api]:
    """Return how to reach its API server, and a client for whom the kubeconfig names.

    Raises:
        Unavailable: nobody is reached so.
    """
    try:
        access, admin = _read(kubeconfig)
        admin.call("GET", "/api")
    except (ConfigException, OSError, Refusal, httpx.HTTPError) as error:
        raise Unavailable(f"the cluster that KUBECONFIG names is not reached: {error}") from error
    return access, admin


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
