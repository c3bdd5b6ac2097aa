"""The namespace that is meant where none is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.kube.context import usual_namespace
from app.kube.reach import Origin

CONFIG = """
apiVersion: v1
kind: Config
current-context: shop
clusters: [{name: one, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: me, user: {token: secret}}]
contexts:
- {name: shop, context: {cluster: one, user: me, namespace: shop}}
- {name: plain, context: {cluster: one, user: me}}
"""


@pytest.mark.parametrize(
    ("context", "namespace"),
    [("", "shop"), ("shop", "shop"), ("plain", "default"), ("none", "shop")],
)
def test_of_a_context(tmp_path: Path, context: str, namespace: str) -> None:
    """A context names a namespace, or means `default`; connecting refuses unknown ones."""
    path = tmp_path / "config"
    path.write_text(CONFIG, "utf-8")
    origin = Origin(context=context, environ={"KUBECONFIG": str(path)})
    assert usual_namespace(origin) == namespace


@pytest.mark.parametrize(
    ("files", "namespace"), [(("token", "namespace"), "infra"), (("token",), "default")]
)
def test_of_a_pod(tmp_path: Path, files: tuple[str, ...], namespace: str) -> None:
    """In a pod it is the pod's own, as its service account tells."""
    for name in files:
        (tmp_path / name).write_text("infra\n", "utf-8")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert usual_namespace(Origin(environ=environ, service_account=tmp_path)) == namespace
