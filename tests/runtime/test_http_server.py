"""A server binds its port, or says with which flag it cannot."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack, closing
from pathlib import Path
from struct import unpack_from

import pytest

from app.model.errors import BadSetting
from app.runtime.http_server import Server, allow_descriptors, bound, bound_beside, reserved
from tests.cases import cases
from tests.cluster.programs import free_port
from tests.runtime.serving import WAIT_SECONDS
from tests.waiting import eventually


def test_a_port_that_is_taken() -> None:
    """A port that another program listens on is told with the flag that asked for it."""
    with closing(bound("127.0.0.1", 0, "--port")) as first:
        port = first.getsockname()[1]
        with pytest.raises(BadSetting) as caught:
            bound("127.0.0.1", port, "--port")
    assert str(caught.value) == f"--port: cannot listen on 127.0.0.1:{port}: Address already in use"


@cases(
    "host",
    {
        "an address of another machine": ("192.0.2.1",),
        "no name": ("no such host",),
        "a name too long to be one": ("x" * 100,),
        "an address of another machine, the new way": ("::ffff:192.0.2.1",),
    },
)
def test_addresses_that_are_not_ours(host: str) -> None:
    """An address that cannot be listened on is told in a sentence."""
    with pytest.raises(BadSetting) as caught:
        bound(host, 0, "--address")
    assert str(caught.value).startswith(f"--address: cannot listen on {host}:0: ")


@pytest.mark.parametrize("host", ["", "127.0.0.1", "localhost"])
def test_ports_can_be_shared(host: str) -> None:
    """Several processes listen on one port if all of them agree to."""
    with closing(bound(host, 0, "--port", shared=True)) as first:
        port = first.getsockname()[1]
        with closing(bound(host, port, "--port", shared=True)) as second:
            assert second.getsockname()[1] == port


def test_two_installations_do_not_share_a_port() -> None:
    """Processes of one installation share a port; another installation learns that it is taken."""
    port = free_port()
    with ExitStack() as stack:
        kept = stack.enter_context(closing(reserved("127.0.0.1", port, "--port")))
        for _ in range(2):
            stack.enter_context(closing(bound_beside(kept))).listen()
        with pytest.raises(BadSetting) as caught:
            reserved("127.0.0.1", port, "--port")
    assert str(caught.value) == f"--port: cannot listen on 127.0.0.1:{port}: Address already in use"


def test_all_addresses_are_listened_on() -> None:
    """Without a host both kinds of addresses lead here."""
    with closing(bound("", 0, "--port")) as listener:
        for host in ("127.0.0.1", "::1") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
            socket.create_connection((host, listener.getsockname()[1]), WAIT_SECONDS).close()


@cases(
    "soft wanted allowed",
    {
        "too few": (1024, 3000, 3000),
        "enough": (4096, 3000, 4096),
    },
)
def test_full_ports_leave_descriptors(soft: int, wanted: int, allowed: int) -> None:
    """A process may open more descriptors than clients can take; no limit gets lower."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        allow_descriptors(wanted)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (allowed, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def queue_length(listener: socket.socket) -> int:
    """Return how many connections may wait to be accepted, as Linux tells it of a listener."""
    told = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
    (length,) = unpack_from("I", told, 28)
    return int(length)


async def silent(_scope: object, _receive: object, _send: object) -> None:
    """Answer nothing."""


def test_many_connections_may_wait_to_be_accepted() -> None:
    """A burst of connections is not lost, whoever made the listener listen before."""
    most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    listener = bound("127.0.0.1", 0, "--port", listens=False)
    listener.listen(1)
    server = Server(silent, listener)
    server.start("test")
    try:
        assert eventually(lambda: queue_length(listener) == min(most, 2048))
    finally:
        server.end(WAIT_SECONDS)


@pytest.mark.parametrize("is_started", [True, False])
def test_a_port_is_free_again(is_started: bool) -> None:
    """A server that is stopped before it served anything, or was never started, frees its port."""
    listener = bound("127.0.0.1", 0, "--port")
    server = Server(silent, listener)
    server.stop()
    if is_started:
        server.start("test")
    server.end(WAIT_SECONDS)
    assert listener.fileno() == -1
