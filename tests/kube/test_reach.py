"""What is read without the `kubernetes` package says the same as the package."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.admission.certificates import issue
from app.kube.packaged import packaged_reach
from app.kube.reach import Origin, Reach, is_loopback, plain_reach
from app.ports import Json
from tests.cases import cases
from tests.kube.connecting import kubeconfig, write

URL = "https://127.0.0.1:6443"
CA = issue(("127.0.0.1",), datetime(2020, 1, 1, tzinfo=UTC), 36_500).ca_pem
TRUST_DATA = {"certificate-authority-data": b64encode(CA.encode()).decode()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a CA and a token."""
    (tmp_path / "ca.crt").write_text(CA)
    (tmp_path / "token").write_text("abc\n")
    return tmp_path


def shown(reach: Reach) -> dict[str, object]:
    """Return what makes a difference to the API server; data of a CA may lie in a file."""
    kept = {key: value for key, value in reach.pool.connection_pool_kw.items() if value is not None}
    if "ca_certs" in kept:
        kept["ca_cert_data"] = Path(kept.pop("ca_certs")).read_text()
    return {"host": reach.host, "says": reach.authorization()} | kept


@cases(
    "user cluster",
    {
        "no user": ({}, {}),
        "token": ({"token": "abc"}, {"server": f"{URL}/"}),
        "token file beside the kubeconfig": ({"tokenFile": "token"}, {}),
        "CA file beside the kubeconfig": ({}, {"certificate-authority": "ca.crt"}),
        "CA in the kubeconfig": ({}, TRUST_DATA),
        "any CA": ({}, {"insecure-skip-tls-verify": True}),
        "CAs of the machine": ({}, {"insecure-skip-tls-verify": False}),
    },
)
def test_kubeconfigs(user: Json, cluster: Json, folder: Path) -> None:
    """A kubeconfig that is read here leads to the same place in the same way."""
    path = write(folder / "config", kubeconfig(URL, user=user, cluster=cluster))

    plain = plain_reach(Origin(path, environ={}))

    assert plain is not None
    assert shown(plain) == shown(packaged_reach(Origin(path, environ={})))


@pytest.mark.parametrize("host", ["10.0.0.1", "fd00::1"])
def test_service_account(host: str, folder: Path) -> None:
    """The account of a pod leads to the same place in the same way."""
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    origin = Origin(environ=environ, service_account=folder)

    plain = plain_reach(origin)

    assert plain is not None
    assert shown(plain) == shown(packaged_reach(origin))


def test_fresh_tokens_are_used(folder: Path) -> None:
    """A token that is written again is used; while it is missing the last one stays in use."""
    path = write(folder / "config", kubeconfig(URL, user={"tokenFile": "token"}))
    reach = plain_reach(Origin(path, environ={}))
    assert reach is not None

    (folder / "token").write_text("fresh")
    assert reach.authorization() == "Bearer fresh"
    (folder / "token").unlink()
    assert reach.authorization() == "Bearer fresh"


@cases(
    "user cluster",
    {
        "exec plugin": ({"exec": {"command": "login"}}, {}),
        "login": ({"auth-provider": {"name": "oidc"}}, {}),
        "certificate": ({"client-certificate": "crt", "client-key": "key"}, {}),
        "password": ({"username": "me", "password": "pw"}, {}),
        "two tokens": ({"token": "abc", "tokenFile": "token"}, {}),
        "no such token file": ({"tokenFile": "missing"}, {}),
        "no such CA": ({}, {"certificate-authority": "missing"}),
        "no CA": ({}, {"certificate-authority-data": "?"}),
        "another name": ({}, {"tls-server-name": "other"}),
        "proxy": ({}, {"proxy-url": "http://proxy"}),
        "no server": ({}, {"server": ""}),
        "no URL": ({}, {"server": "https://h:99999"}),
        "a CA that is none": ({}, {"certificate-authority": "token"}),
    },
)
def test_what_is_left_to_the_package(user: Json, cluster: Json, folder: Path) -> None:
    """Everything else is read by the package, or refused in its words."""
    path = write(folder / "config", kubeconfig(URL, user=user, cluster=cluster))

    assert plain_reach(Origin(path, environ={})) is None


def test_a_proxy_of_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that the environment names is left to the package."""
    path = write(folder / "config", kubeconfig(URL, user={"token": "abc"}))
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")

    assert plain_reach(Origin(path, environ={})) is None


@cases(
    "process spared",
    {
        "webhook": ("admission", "kubernetes numpy requests oauthlib websocket"),
        "updater": ("updater", "kubernetes numpy cryptography requests"),
        "recommender": ("recommender", "kubernetes cryptography requests"),
    },
)
def test_processes_import_little(process: str, spared: str) -> None:
    """No process holds megabytes of libraries that it does not use."""
    script = (
        f"import sys, app.{process}.process\n"
        f"print(*sorted(sys.modules.keys() & set({spared.split()!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == []


TWO_CONTEXTS = """
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
def test_namespace_of_a_context(tmp_path: Path, context: str, namespace: str) -> None:
    """A context names a namespace, or means `default`; connecting refuses unknown ones."""
    path = tmp_path / "config"
    path.write_text(TWO_CONTEXTS, "utf-8")
    origin = Origin(context=context, environ={"KUBECONFIG": str(path)})
    assert origin.namespace() == namespace


@pytest.mark.parametrize(
    ("files", "namespace"), [(("token", "namespace"), "infra"), (("token",), "default")]
)
def test_namespace_of_a_pod(tmp_path: Path, files: tuple[str, ...], namespace: str) -> None:
    """In a pod it is the pod's own, as its service account tells."""
    for name in files:
        (tmp_path / name).write_text("infra\n", "utf-8")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert Origin(environ=environ, service_account=tmp_path).namespace() == namespace


@cases(
    "host expected",
    {
        "IPv4": ("127.0.0.1", True),
        "another of these": ("127.8.9.10", True),
        "IPv6": ("::1", True),
        "in brackets": ("[::1]", True),
        "IPv4 within IPv6": ("::ffff:127.0.0.1", True),
        "by name": ("localhost", True),
        "all": ("", False),
        "all of IPv4": ("0.0.0.0", False),
        "all of IPv6": ("::", False),
        "another machine": ("10.0.0.1", False),
        "another machine within IPv6": ("::ffff:10.0.0.1", False),
        "a name like it": ("localhost.example.com", False),
        "another name": ("recommender", False),
    },
)
def test_loopback(host: str, expected: bool) -> None:
    """Only addresses that no other machine reaches are exempt; names are not looked up."""
    assert is_loopback(host) is expected
