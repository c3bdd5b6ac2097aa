"""A cluster that somebody else runs, reached through a kubeconfig."""

from __future__ import annotations

import ssl
from pathlib import Path

from kubernetes.client import Configuration
from kubernetes.config import load_kube_config

from tests.cluster.api import Api
from tests.cluster.control_plane import Access


def given(kubeconfig: str) -> tuple[Access, Api]:
    """Return how to reach its API server, and a client for whom the kubeconfig names."""
    found = Configuration()
    load_kube_config(  # type: ignore[no-untyped-call]  # the package has no types here
        config_file=kubeconfig, client_configuration=found
    )
    ca_pem = Path(str(found.ssl_ca_cert)).read_text("utf-8")
    trust = ssl.create_default_context(cadata=ca_pem)
    if found.cert_file:
        trust.load_cert_chain(found.cert_file, found.key_file)
    token = next(iter(found.api_key.values()), "").removeprefix("Bearer ")
    return Access(found.host, ca_pem), Api(found.host, trust, token)
