"""The page answers on its port as long as it runs, in the way that fits its address."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import httpx
import orjson
import pytest

from app.flags.command_line import parse
from app.model.errors import BadSetting
from app.page.access import LinkAccess, OpenAccess, TokenAccess
from app.page.flags import PageSettings
from app.page.own_tls import OwnTls
from app.page.process import Process, source_of
from app.page.sources import ClusterSource
from app.run.simulated import SimulatedRuntime
from app.runtime.clock import SystemClock
from tests import make
from tests.page.shown import shop
from tests.reached_limits import ReachedLimits
from tests.sandbox.worlds import SteppedSandbox
from tests.stepped_clock import SteppedClock
from tests.waiting import eventually


@contextmanager
def running(tmp_path: Path, *more: str) -> Iterator[Process]:
    """Show some objects."""
    path = tmp_path / "cluster.json"
    path.write_bytes(orjson.dumps(make.snapshot_json(*shop())))
    words = [f"--objects={path}", "--at=2026-01-05T10:00:00Z", "--address=127.0.0.1:0", *more]
    settings = parse(PageSettings, words, {})
    with source_of(settings, SteppedClock()) as source:
        process = Process(settings, source)
        process.start()
        try:
            yield process
        finally:
            process.stop()


def test_files_are_shown_at_an_address(tmp_path: Path) -> None:
    """The URL that is printed leads to the fleet."""
    with running(tmp_path) as process:
        assert eventually(lambda: httpx.get(process.url).status_code == 200)
        assert ">web</a>" in httpx.get(process.url).text


def test_a_link_may_be_asked_for(tmp_path: Path) -> None:
    """The URL holds the token then, and works in one browser."""
    with running(tmp_path, "--one-time-link") as process, httpx.Client() as browser:
        assert eventually(lambda: browser.get(process.url).status_code == 303, seconds=5)
        home = httpx.URL(process.url).join("/")
        assert eventually(lambda: browser.get(home).status_code == 200)
        assert httpx.get(home).status_code == 401


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """The error says how to take another one."""
    told = "Address already in use; --address=127.0.0.1:0 takes any free port"
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        address = f"--address=127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(BadSetting, match=told), running(tmp_path, address):
            pass


def test_files_name_no_users(tmp_path: Path) -> None:
    """Behind another address than loopback there would be no way to tell who may look."""
    with pytest.raises(BadSetting, match="loopback"), running(tmp_path, "--address=0.0.0.0:0"):
        pass


@pytest.mark.parametrize(
    ("words", "kind", "scheme"),
    [
        (["--address=127.0.0.1:0"], OpenAccess, "http"),
        (["--address=127.0.0.1:0", "--one-time-link"], LinkAccess, "http"),
        (["--address=0.0.0.0:0"], TokenAccess, "https"),
        (["--address=0.0.0.0:0", "--tokens-over-http"], TokenAccess, "http"),
    ],
)
def test_the_address_decides_who_may_look(words: list[str], kind: type, scheme: str) -> None:
    """Tokens are never read over plain HTTP, unless that is wanted."""
    settings = parse(PageSettings, words, {})
    sandbox = SteppedSandbox().sandbox
    source = ClusterSource(settings, SimulatedRuntime(sandbox), ReachedLimits())
    process = Process(settings, source)
    try:
        assert isinstance(process.access, kind)
        assert process.url.startswith(f"{scheme}://localhost:")
    finally:
        process.start()
        process.stop()


def served(tls: OwnTls) -> bytes:
    """Return the certificate that a client is shown."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    client = trusting.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = tls.context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return client.getpeercert(binary_form=True) or b""


def test_a_certificate_of_our_own_is_replaced_before_it_ends() -> None:
    """Of three months it is served for two."""
    tls = OwnTls(("vpa-page.kube-system.svc",), SystemClock().now())
    shown = [served(tls)]
    for days in (59, 61, 62):
        tls.tick(SystemClock().now() + timedelta(days=days))
        shown.append(served(tls))
    assert shown[0] == shown[1] != shown[2] == shown[3]
