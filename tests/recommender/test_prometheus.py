"""A Prometheus is asked over real HTTP; whatever it does, there is an answer or a sentence."""

from __future__ import annotations

import gzip
import os
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.model.errors import (
    BadSetting,
    ClusterError,
    Invalid,
    NotFound,
    Refused,
    TooMany,
    Unavailable,
)
from app.recommender.prometheus import PrometheusServer
from app.recommender.prometheus_connection import PrometheusConnection
from tests.cases import cases
from tests.kube.issuing import issued
from tests.prometheus_server import PrometheusServer as Server
from tests.prometheus_server import Reply, matrix, prometheus

AT = datetime(2026, 1, 13, 12, 0, 0, 123_456, tzinfo=UTC)
NOTHING = {"status": "success", "data": {"resultType": "matrix", "result": []}}
BASIC = "Basic dXNlcjpwYXNz"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on loopback."""
    with prometheus() as found:
        yield found


class Client:
    """A client that notes what is counted, closed in the end."""

    def __init__(self, address: str, *, largest: int = 1000, **more: object) -> None:
        self.observed: list[tuple[str, str]] = []
        told: dict[str, Any] = {"timeout_seconds": 5.0, **more}
        access = PrometheusConnection(address, **told)
        self.server = PrometheusServer(access, self._observe, largest_answer=largest)

    def _observe(self, code: str, method: str, seconds: float) -> None:
        assert seconds >= 0
        self.observed.append((code, method))

    def __enter__(self) -> PrometheusServer:
        return self.server

    def __exit__(self, *_: object) -> None:
        self.server.close()


def test_questions(server: Server) -> None:
    """Queries are posted with their times to the millisecond; requests are counted."""
    client = Client(f"{server.url}/prom/")
    server.ready.append(matrix(({"a": "b"}, [(1.0, 2)])))
    with client as asker:
        found = asker.query("up[8d]", AT)
        asker.query_range("up", AT - timedelta(hours=1), AT, timedelta(minutes=1))

    assert found["data"]["result"][0]["values"] == [[1.0, "2"]]
    instant, ranged = server.asked
    assert (instant.method, instant.path) == ("POST", "/prom/api/v1/query")
    assert instant.told == {"query": "up[8d]", "time": "1768305600.123", "timeout": "5.000"}
    assert ranged.path == "/prom/api/v1/query_range"
    assert (ranged.told["start"], ranged.told["end"]) == ("1768302000.123", "1768305600.123")
    assert ranged.told["step"] == "60.000"
    assert client.observed == [("200", "post"), ("200", "post")]


def test_servers_that_take_no_post(server: Server) -> None:
    """They are asked with GET, from then on at once."""
    server.ready += [Reply(b"", 405), Reply(), Reply()]
    client = Client(server.url)
    with client as asker:
        assert asker.query("up", AT) == NOTHING
        assert asker.query("up", AT) == NOTHING

    assert [one.method for one in server.asked] == ["POST", "GET", "GET"]
    assert server.asked[1].told["query"] == "up"
    assert client.observed == [("405", "post"), ("200", "get"), ("200", "get")]


@cases(
    "reply kind status sentence",
    {
        "bad query": (Reply.of(400, "bad_data", "parse error"), Invalid, 400, "parse error"),
        "too much": (Reply.of(422, "execution", "too many samples"), Invalid, 422, "too many"),
        "its timeout": (Reply.of(503, "timeout", "late"), Unavailable, 504, "late"),
        "who are you": (Reply(b"no", 401), Refused, 401, "HTTP status 401"),
        "not there": (Reply(b"<html>", 404), NotFound, 404, "HTTP status 404"),
        "broken": (Reply(b"", 500), Unavailable, 500, "HTTP status 500"),
        "a list": (Reply(b"[1]"), Unavailable, 0, "no JSON object"),
        "not JSON": (Reply(b"<html>ok"), Unavailable, 0, "no JSON object"),
        "cut JSON": (Reply(b'{"status":"suc'), Unavailable, 0, "no JSON object"),
        "says nothing": (Reply(b"{}"), Unavailable, 200, "HTTP status 200"),
        "half a body": (Reply(b'{"st', missing=40), Unavailable, 0, "no connection"),
        "broken compression": (
            Reply(b"\x1f\x8b none", headers={"Content-Encoding": "gzip"}),
            Unavailable,
            0,
            "no connection",
        ),
        "huge": (Reply(b" " * 1001), Invalid, 413, "larger than 1000 bytes"),
        "huge once it is unpacked": (
            Reply(gzip.compress(b" " * 10**6), headers={"Content-Encoding": "gzip"}),
            Invalid,
            413,
            "larger than",
        ),
    },
)
def test_faults(
    server: Server, reply: Reply, kind: type[ClusterError], status: int, sentence: str
) -> None:
    """Each fault is an error with a sentence, and the next question is answered."""
    server.ready.append(reply)
    with Client(server.url) as asker:
        with pytest.raises(kind, match=sentence) as caught:
            asker.query("up", AT)
        assert caught.value.status == status
        assert f"Prometheus at {server.url.removeprefix('http://')}: " in str(caught.value)
        assert asker.query("up", AT) == NOTHING


def test_too_many_requests(server: Server) -> None:
    """It is told when to ask again."""
    server.ready.append(Reply(b"", 429, {"Retry-After": "7"}))
    with Client(server.url) as asker, pytest.raises(TooMany) as caught:
        asker.query("up", AT)
    assert caught.value.retry_after_seconds == 7


def test_slow_server(server: Server) -> None:
    """A question is given up when its time is over."""
    server.ready.append(Reply(waits=True))
    with (
        Client(server.url, timeout_seconds=0.05) as asker,
        pytest.raises(Unavailable, match="no answer in time") as caught,
    ):
        asker.query("up", AT)
    assert caught.value.status == 504


def test_endless_answer(server: Server) -> None:
    """An answer that comes in time bit by bit, but never ends, is given up too."""
    server.ready.append(Reply(b" " * 100_000))
    with (
        Client(server.url, timeout_seconds=1e-9, largest=10**9) as asker,
        pytest.raises(Unavailable) as caught,
    ):
        asker.query("up", AT)
    assert caught.value.status in {0, 504}


def test_nobody_there() -> None:
    """A server that is down is a sentence."""
    with prometheus() as gone:
        url = gone.url
    client = Client(url)
    with client as asker, pytest.raises(Unavailable, match="no connection"):
        asker.query("up", AT)
    assert client.observed == []


@cases(
    "told header",
    {
        "nobody": ({}, None),
        "a user": ({"username": "user", "password": "pass"}, BASIC),
        "and a file": (
            {"username": "user", "password": "no", "password_file": "p"},
            BASIC,
        ),
        "a token comes first": ({"token": "abc", "username": "user"}, "Bearer abc"),
        "a file before it": ({"token": "abc", "token_file": "t"}, "Bearer file"),
    },
)
def test_who_we_are(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    told: dict[str, Any],
    header: str | None,
) -> None:
    """A token outranks a user, a token in a file both, a password in a file one in a flag."""
    monkeypatch.chdir(tmp_path)
    Path("p").write_text("pass\n")
    Path("t").write_text(" file\n")
    with Client(server.url, **told) as asker:
        asker.query("up", AT)
    assert server.asked[0].headers.get("Authorization") == header


def test_user_in_the_address(server: Server) -> None:
    """A user may stand in the address; it is not told in errors."""
    server.ready.append(Reply(b"", 500))
    with (
        Client(server.url.replace("//", "//user:pass@")) as asker,
        pytest.raises(Unavailable) as caught,
    ):
        asker.query("up", AT)
    assert server.asked[0].headers["Authorization"] == BASIC
    assert "pass" not in str(caught.value)


def test_token_that_changes(server: Server, tmp_path: Path) -> None:
    """The file is read for each question; one that cannot be used is a sentence without it."""
    file = tmp_path / "token"
    with Client(server.url, token_file=str(file)) as asker:
        for content in (b"one", b"two\n"):
            file.write_bytes(content)
            asker.query("up", AT)
        for content in (b"", b"sec\nret", b"\xff\xfe"):
            file.write_bytes(content)
            with pytest.raises(Refused, match="token") as caught:
                asker.query("up", AT)
            assert "sec" not in str(caught.value)
        file.unlink()
        with pytest.raises(Refused, match="cannot be read"):
            asker.query("up", AT)

    assert [one.headers["Authorization"] for one in server.asked] == ["Bearer one", "Bearer two"]


def test_password_that_changes(server: Server, tmp_path: Path) -> None:
    """The file is read for each question; one that cannot be read is a sentence."""
    file = tmp_path / "password"
    with Client(server.url, username="user", password_file=str(file)) as asker:
        for content in ("one", "pass"):
            file.write_text(content)
            asker.query("up", AT)
        file.unlink()
        with pytest.raises(Refused, match=r"the password in .* cannot be read"):
            asker.query("up", AT)
    first, second = (one.headers["Authorization"] for one in server.asked)
    assert first != second == BASIC


def test_redirects_keep_secrets(server: Server) -> None:
    """A redirect is followed; to another server without the token."""
    with prometheus() as other:
        server.ready.append(Reply(b"", 307, {"Location": f"{other.url}/api/v1/query"}))
        with Client(server.url, token="abc") as asker:
            assert asker.query("up", AT) == NOTHING
        assert other.asked[0].told["query"] == "up"
        assert "Authorization" not in other.asked[0].headers


def test_certificates(tmp_path: Path) -> None:
    """Its certificate is checked against the CA that is given, unless that is not wanted."""
    authority = issued("ca", datetime(2026, 1, 1, tzinfo=UTC))
    found = issued("server", datetime(2026, 1, 1, tzinfo=UTC), by=authority, names=("localhost",))
    for name, content in (("ca", authority.pem), ("crt", found.pem), ("key", found.key_pem())):
        (tmp_path / name).write_text(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    ca_file = str(tmp_path / "ca")
    with prometheus(context) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        with Client(url, ca_file=ca_file) as asker:
            assert asker.query("up", AT) == NOTHING
        with Client(url, is_insecure=True) as asker:
            assert asker.query("up", AT) == NOTHING
        with Client(url) as asker, pytest.raises(Unavailable, match="certificate is not trusted"):
            asker.query("up", AT)


def test_mutual_tls(tmp_path: Path) -> None:
    """Our certificate is shown, also when it has become another one; without it there is no way."""
    ca = issued("ca", AT)
    issue = {name: issued(name, AT, by=ca, names=(name,)) for name in ("localhost", "a", "b")}
    for name, text in (("ca", ca.pem), ("crt", issue["localhost"].pem)):
        (tmp_path / name).write_text(text)
    (tmp_path / "key").write_text(issue["localhost"].key_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    context.load_verify_locations(tmp_path / "ca")
    context.verify_mode = ssl.CERT_REQUIRED
    ours = tmp_path / "ours"
    ours.write_text(issue["a"].pem + issue["a"].key_pem())
    ca_file = str(tmp_path / "ca")
    with prometheus(context) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        with Client(url, ca_file=ca_file, certificate_file=str(ours)) as asker:
            assert asker.query("up", AT) == NOTHING
            ours.write_text(issue["b"].pem + issue["b"].key_pem())
            os.utime(ours, (1, 1))
            assert asker.query("up", AT) == NOTHING
        with Client(url, ca_file=ca_file) as asker, pytest.raises(Unavailable):
            asker.query("up", AT)
        ours.write_text("none")
        with pytest.raises(BadSetting, match=r"client-certificate: .* no certificate with its"):
            Client(url, ca_file=ca_file, certificate_file=str(ours))


@cases(
    "address ca_file sentence",
    {
        "no scheme": ("prometheus:9090", "", "--prometheus-address takes"),
        "nothing": ("", "", "--prometheus-address takes"),
        "no address": ("http://[::1", "", "--prometheus-address takes"),
        "no such CA": ("https://a", "missing", "--prometheus-ca-file: missing"),
        "no CA": ("https://a", __file__, "--prometheus-ca-file"),
    },
)
def test_bad_settings(address: str, ca_file: str, sentence: str) -> None:
    """What can never work is said at once, with the flag."""
    with pytest.raises(BadSetting, match=sentence):
        Client(address, ca_file=ca_file)
