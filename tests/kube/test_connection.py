"""Every way to say where the cluster is and who we are."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.admission.certificates import issue
from app.admission.core.rotation import CertificateSet
from app.kube.client import connect
from app.kube.connection import ApiAccess, load
from app.kube.reach import Origin
from app.model.errors import BadSetting, NotSent, Refused, Unavailable
from app.ports import PODS, Json
from app.runtime.tls import ServerTls
from tests.cases import cases
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import kubeconfig, write

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def issued() -> CertificateSet:
    """The certificate of a server on loopback, with its CA."""
    return issue(("127.0.0.1",), LONG_AGO, 36_500)


@pytest.fixture
def server(issued: CertificateSet) -> Iterator[ApiServer]:
    """A server behind TLS that wants the token `sesame`."""
    with serving(PODS, tls=ServerTls(issued.cert_pem, issued.key_pem).context) as found:
        found.token = "sesame"
        yield found


@pytest.fixture
def authority(issued: CertificateSet, tmp_path: Path) -> Path:
    """The file of its CA."""
    path = tmp_path / "ca.crt"
    path.write_text(issued.ca_pem)
    return path


def answers(origin: Origin) -> bool:
    """Connect and tell whether the cluster lets us in."""
    with closing(connect(origin=origin)) as cluster:
        return cluster.list(PODS).items == []


def trusting(server: ApiServer, authority: Path, **user: str) -> Origin:
    """Return a kubeconfig beside the authority's file, which it names."""
    trust = {"certificate-authority": str(authority)}
    config = kubeconfig(server.url, user=user, cluster=trust)
    return Origin(write(authority.with_name("config"), config))


def authorization(user: Json, folder: Path) -> str:
    """Return what is sent for a user of a kubeconfig."""
    path = write(folder / "config", kubeconfig("http://127.0.0.1:1", user=user))
    return ApiAccess(Origin(path)).session().authorization


def plugin(folder: Path, script: str) -> Json:
    """Return a user whose credentials a program prints."""
    program = folder / "plugin"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(program), "interactiveMode": "Never"}}


def printing(token: str, expires: str = "") -> str:
    """Return the shell lines that print credentials; the shell expands the token."""
    ends = f', "expirationTimestamp": "{expires}"' if expires else ""
    head = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"'
    status = f'{head}, "status": {{"token": "{token}"{ends}}}}}'
    return f"cat <<END\n{status}\nEND"


def test_kubeconfig(server: ApiServer, authority: Path) -> None:
    """Server, authority and token come from the file given."""
    assert answers(trusting(server, authority, token="sesame"))


@pytest.mark.usefixtures("authority")
def test_service_account(server: ApiServer, tmp_path: Path) -> None:
    """In a pod nothing need be given."""
    (tmp_path / "token").write_text("sesame")
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
    server.token = ""

    assert answers(Origin(environ=environ, service_account=tmp_path))
    assert server.requests[-1].headers["authorization"] == "bearer sesame"


def test_unknown_authority(server: ApiServer, tmp_path: Path) -> None:
    """A server that cannot be trusted is no server."""
    path = write(tmp_path / "config", kubeconfig(server.url, user={"token": "sesame"}))

    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        answers(Origin(path))


def test_a_new_token_in_the_file(server: ApiServer, authority: Path, tmp_path: Path) -> None:
    """A token that the server no longer takes is looked for again, and the call succeeds."""
    (tmp_path / "token").write_text("old\n")
    with closing(connect(origin=trusting(server, authority, tokenFile="token"))) as cluster:
        (tmp_path / "token").write_text("sesame\n")

        assert cluster.list(PODS).items == []


def test_expired_plugin_token(tmp_path: Path) -> None:
    """A plugin is asked again when what it said has expired."""
    (tmp_path / "secret").write_text("first")
    user = plugin(tmp_path, printing(f"$(cat {tmp_path}/secret)", "2020-01-01T00:00:00Z"))
    path = write(tmp_path / "config", kubeconfig("http://127.0.0.1:1", user=user))
    access = ApiAccess(Origin(path))
    (tmp_path / "secret").write_text("second")

    assert access.session().authorization == "Bearer second"


@cases(
    "user expected",
    {
        "no user": ({}, ""),
        "token": ({"token": "abc"}, "Bearer abc"),
        "password": ({"username": "me", "password": "pw"}, "Basic bWU6cHc="),
    },
)
def test_users(user: Json, expected: str, tmp_path: Path) -> None:
    """Each kind of user proves itself in its way."""
    assert authorization(user, tmp_path) == expected


def test_plugin(tmp_path: Path) -> None:
    """A program may say who we are."""
    assert authorization(plugin(tmp_path, printing("abc")), tmp_path) == "Bearer abc"


def test_a_reload_that_fails_changes_nothing(tmp_path: Path) -> None:
    """What was read before stays in use while the file cannot be read."""
    path = write(tmp_path / "config", kubeconfig("http://127.0.0.1:1", user={"token": "abc"}))
    access = ApiAccess(Origin(path))
    before = access.session()
    Path(path).write_text("{")

    assert not access.renew(before.generation)
    assert access.session() == before


def test_a_reload_serves_all_who_ask(tmp_path: Path) -> None:
    """Many callers refused at once lead to one reading."""
    path = write(tmp_path / "config", kubeconfig("http://127.0.0.1:1", user={"token": "abc"}))
    access = ApiAccess(Origin(path))
    refused = access.session().generation

    assert [access.renew(refused) for _ in range(3)] == [True, True, True]
    assert access.session().generation == refused + 1


IN_A_POD = {"KUBERNETES_SERVICE_HOST": "h", "HOME": "/h"}


@cases(
    "kubeconfig context environ token expected",
    {
        "given": ("/a", "", {"KUBECONFIG": "/b"}, True, "/a"),
        "environment": ("", "", {"KUBECONFIG": "/b:/c"}, True, "/b:/c"),
        "pod": ("", "", {"KUBERNETES_SERVICE_HOST": "h"}, True, ""),
        "no pod": ("", "", {"HOME": "/h"}, True, "/h/.kube/config"),
        "pod without token": ("", "", IN_A_POD, False, "/h/.kube/config"),
        "with a context": ("", "prod", IN_A_POD, True, "/h/.kube/config"),
    },
)
def test_where_it_is_looked_for(
    kubeconfig: str,
    context: str,
    environ: dict[str, str],
    token: bool,
    expected: str,
    tmp_path: Path,
) -> None:
    """What is given wins, then the environment, then the pod, then the home directory."""
    if token:
        (tmp_path / "token").write_text("abc")
    origin = Origin(kubeconfig, context, environ, tmp_path)

    assert origin.kubeconfig_path() == expected


def test_contexts_of_several_files(tmp_path: Path) -> None:
    """A context may be in any of the files, whichever is the current one."""
    first = write(tmp_path / "first", kubeconfig("http://first:1"))
    other = kubeconfig("http://second:2") | {"current-context": "there"}
    other["contexts"] = [{"name": "there", "context": {"cluster": "there"}}]
    other["clusters"] = [{"name": "there", "cluster": {"server": "http://second:2"}}]
    both = {"KUBECONFIG": f"{first}:{write(tmp_path / 'second', other)}:{tmp_path}/none"}

    assert load(Origin(environ=both)).host == "http://second:2"
    assert load(Origin(context="here", environ=both)).host == "http://first:1"


FULL, BARE = (json.dumps(kubeconfig(url)) for url in ("http://127.0.0.1:1", ""))
STRAY = FULL.replace('"user": "me"', '"user": "you"')
WORD = "contexts: [{name: here, context: hello}]"


@cases(
    "text context message",
    {
        "missing": (None, "", "no such file; give one with --kubeconfig"),
        "empty": ("", "", "the file is empty"),
        "no YAML": ("a: [", "", r"invalid YAML: expected .* \(line 1, column 5\)"),
        "tabs": ("a:\n\t- b", "", r"invalid YAML: .* \(line 2, column 1\)"),
        "a control character": ("a: \x01", "", "invalid YAML: it is not a text file"),
        "a list": ("- a", "", "not a kubeconfig: it holds no object"),
        "passwords": ("root:x:0:0:root:/root:/bin/sh", "", "not a kubeconfig: it holds no object"),
        "a number": ("clusters: 3", "", "clusters is not a list"),
        "no contexts": ("{}", "", "it has no contexts, so it names no cluster"),
        "no context": (FULL.replace('"here"', '""', 1), "", "no context is current; .*: here"),
        "unknown context": (FULL, "prod", 'no context "prod"; there are: here'),
        "unknown user": (STRAY, "", 'context "here" names user "you", which'),
        "null": ("contexts: [null]", "here", r"contexts\[0\] is not an object with a name"),
        "no cluster": (WORD, "here", 'context "here" names no cluster'),
        "no server": (BARE, "", "names no server"),
        "no URL": (json.dumps(kubeconfig("no url")), "", 'the server "no url" is not a URL'),
        "no port": (
            json.dumps(kubeconfig("https://h:99999")),
            "",
            '"https://h:99999" is not a URL',
        ),
    },
)
def test_bad_kubeconfigs(text: str | None, context: str, message: str, tmp_path: Path) -> None:
    """What cannot be used is told with the file's name."""
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)

    with pytest.raises(BadSetting, match=message) as found:
        connect(str(path), context)

    assert str(path) in str(found.value)


@cases(
    "user cluster message",
    {
        "no CA file": (
            {},
            {"certificate-authority": "none"},
            "certificate-authority of cluster here: none: no such file or directory",
        ),
        "a CA that is none": (
            {},
            {"certificate-authority": "noise"},
            "the certificate authority holds no PEM certificate",
        ),
        "CA data that is none": (
            {},
            {"certificate-authority-data": "%%%"},
            "the certificate authority holds no PEM certificate",
        ),
        "no certificate": (
            {"client-certificate": "none", "client-key": "noise"},
            {},
            "client-certificate of user me: none: no such file or directory",
        ),
        "a folder": ({"client-key": "."}, {}, "client-key of user me: .: is a directory"),
        "no pair": (
            {"client-certificate": "noise", "client-key": "noise"},
            {},
            "client certificate and key are not a pair in PEM, or the key has a password",
        ),
        "no token": ({"tokenFile": "none"}, {}, "tokenFile of user me: none: no such file or"),
    },
)
def test_bad_files_of_a_kubeconfig(user: Json, cluster: Json, message: str, tmp_path: Path) -> None:
    """A file that a kubeconfig names is told by its field, and what is wrong in plain words."""
    (tmp_path / "noise").write_bytes(bytes(range(256)))
    config = kubeconfig("https://127.0.0.1:1", user=user, cluster=cluster)
    path = write(tmp_path / "config", config)

    with pytest.raises(BadSetting) as found:
        connect(path)

    assert str(found.value).startswith(f"kubeconfig {path}: {message}")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """Bytes that are no text are no kubeconfig."""
    path = tmp_path / "config"
    path.write_bytes(b"\xff\xfe\x80")

    with pytest.raises(BadSetting, match=f"kubeconfig {path}: not a text file"):
        connect(str(path))


def test_a_server_that_is_away(tmp_path: Path) -> None:
    """The server is named, with what the system said; nothing of the libraries between."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    path = write(tmp_path / "config", kubeconfig(f"https://127.0.0.1:{port}"))

    with pytest.raises(NotSent) as found:
        answers(Origin(path))

    assert str(found.value) == f"https://127.0.0.1:{port}: connection refused"


def test_a_plugin_that_fails(tmp_path: Path) -> None:
    """Without a login there is no access: the file is right, but gives no credentials."""
    config = kubeconfig("http://127.0.0.1:1", user=plugin(tmp_path, "exit 3"))
    path = write(tmp_path / "config", config)

    with pytest.raises(Refused, match=f'{path}: .* of user "me" gave no credentials') as found:
        connect(path)

    assert found.value.status == 401


def test_a_plugin_that_is_not_installed(tmp_path: Path) -> None:
    """A program that is not there is named."""
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-login"}}
    path = write(tmp_path / "config", kubeconfig("http://127.0.0.1:1", user=user))

    with pytest.raises(Refused, match='exec plugin "no-such-login" of user "me" was not found'):
        connect(path)


def test_a_pod_without_authority(tmp_path: Path) -> None:
    """A service account that is not whole is told by its folder."""
    (tmp_path / "token").write_text("abc")
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}

    with pytest.raises(BadSetting, match=f"service account {tmp_path}"):
        load(Origin(environ=environ, service_account=tmp_path))


def test_a_watch_behind_tls_ends_when_closed(server: ApiServer, authority: Path) -> None:
    """Closing ends a thread that waits for a watch, also behind TLS."""
    cluster = connect(origin=trusting(server, authority, token="sesame"))
    server.put(PODS, "web-0")
    events = cluster.watch(PODS, resource_version="100")
    next(events)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(list, events)
        cluster.close()

        with pytest.raises(Unavailable):
            waiting.result()
