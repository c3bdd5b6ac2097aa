"""Ports for programs, told without starting any."""

from __future__ import annotations

import socket

from tests.cluster.programs import free_port


def test_ports() -> None:
    """Each is given once, and can be listened on by several who share it."""
    ports = [free_port() for _ in range(100)]
    assert len(set(ports)) == len(ports)
    for is_shared in (False, True):
        with socket.create_server(("127.0.0.1", ports[0]), reuse_port=is_shared) as first:
            address = first.getsockname()
            if is_shared:
                socket.create_server(address, reuse_port=True).close()
