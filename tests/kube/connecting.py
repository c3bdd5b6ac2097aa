"""Connects to the API server of the tests through a kubeconfig, as a user would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from app.kube.client import KubeCluster, connect
from app.kube.reach import Origin
from app.kube.transport import Deadlines
from app.ports import Json
from tests.kube.api_server import ApiServer


def kubeconfig(url: str, *, user: Json | None = None, cluster: Json | None = None) -> Json:
    """Return a kubeconfig of one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": url, **(cluster or {})}}],
        "users": [{"name": "me", "user": user or {}}],
    }


def write(path: Path, config: Json) -> str:
    """Write a kubeconfig; JSON is YAML."""
    path.write_bytes(orjson.dumps(config))
    return str(path)


@contextmanager
def connected(
    server: ApiServer, deadlines: Deadlines | None = None, *, qps: float = 0, burst: float = 1
) -> Iterator[KubeCluster]:
    """Connect until the block ends."""
    with TemporaryDirectory() as folder:
        path = write(Path(folder) / "config", kubeconfig(server.url))
        origin = Origin(path, environ={})
        cluster = connect(qps=qps, burst=burst, origin=origin, deadlines=deadlines)
        try:
            yield cluster
        finally:
            cluster.close()
