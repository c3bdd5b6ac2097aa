"""`python -m tests.attack.attacker FLOOD PORT COUNT`: floods a port of loopback, bounded in count.

It says `done` when all is sent that is taken, and keeps its connections until its input ends.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

Connect = Callable[[], socket.socket]
Flood = Callable[[Connect, int, bytes], list[socket.socket]]

_REFUSED_SECONDS: Final = 1.0  # after which no more is sent to a server that does not take it
_MIB: Final = 1024 * 1024
_GET: Final = b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n"
_POST: Final = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def _sent(connect: Connect, *parts: bytes) -> socket.socket | None:
    """Send as much as is taken over a connection; None if there is none."""
    try:
        connection = connect()
    except OSError:  # refused, or cut off within the handshake
        return None
    with suppress(OSError):
        for part in parts:
            connection.sendall(part)
    return connection


def _many(connect: Connect, count: int, *parts: bytes) -> list[socket.socket]:
    found = (_sent(connect, *parts) for _ in range(count))
    return [connection for connection in found if connection is not None]


def pipelined(connect: Connect, count: int, path: bytes) -> list[socket.socket]:
    """Send requests over one connection without reading an answer."""
    piece = _GET % path * 1000
    return _many(connect, 1, *([piece] * (count // 1000)))


def half_heads(connect: Connect, count: int, _path: bytes) -> list[socket.socket]:
    """Begin requests with megabytes of tiny headers."""
    return _many(connect, count, _POST, *([b"aa:\r\n" * (_MIB // 5)] * 5))


def half_bodies(connect: Connect, count: int, _path: bytes) -> list[socket.socket]:
    """Send requests of 5 MiB without their last byte."""
    size = 5 * _MIB
    head = _POST + b"Content-Length: %d\r\n\r\n" % size
    return _many(connect, count, head, *([b" " * _MIB] * 4), b" " * (_MIB - 1))


def idle(connect: Connect, count: int, _path: bytes) -> list[socket.socket]:
    """Open connections and send nothing."""
    return _many(connect, count)


def unread(connect: Connect, count: int, path: bytes) -> list[socket.socket]:
    """Ask for pages, and read none."""
    return _many(connect, count, _GET % path)


FLOODS: Final[Mapping[str, Flood]] = {
    "pipelined": pipelined,
    "half-heads": half_heads,
    "half-bodies": half_bodies,
    "idle": idle,
    "unread": unread,
}


def connected(port: int, *, is_tls: bool) -> socket.socket:
    """Open a connection, its handshake being over."""
    plain = socket.create_connection(("127.0.0.1", port), 10.0)
    if not is_tls:
        plain.settimeout(_REFUSED_SECONDS)
        return plain
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        secure = context.wrap_socket(plain)
    except BaseException:
        plain.close()
        raise
    secure.settimeout(_REFUSED_SECONDS)
    return secure


def main() -> None:
    """Do one flood."""
    reader = argparse.ArgumentParser(prog="python -m tests.attack.attacker")
    reader.add_argument("flood", choices=FLOODS)
    reader.add_argument("port", type=int)
    reader.add_argument("count", type=int)
    reader.add_argument("--path", default="/metrics")
    reader.add_argument("--tls", action="store_true")
    reader.add_argument("--without-handshake", action="store_true")
    asked = reader.parse_args()
    is_tls = asked.tls and not asked.without_handshake
    connect = partial(connected, asked.port, is_tls=is_tls)
    held = FLOODS[asked.flood](connect, asked.count, asked.path.encode())
    sys.stdout.write("done\n")
    sys.stdout.flush()
    sys.stdin.read()
    for connection in held:
        connection.close()


if __name__ == "__main__":
    main()
