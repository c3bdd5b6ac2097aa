"""How a review reaches a webhook: over HTTPS.

Strategy: as an API server does, the certificate is verified against the CA bundle of the
configuration and for the name of the service, wherever the service really listens, and
connections are kept open. A connection that was closed while it was idle is not a failure:
the review is sent again on a new one.
"""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from queue import Empty, Full, LifoQueue
from typing import NamedTuple
from urllib.parse import urlsplit

import orjson

from app.ports import Json

IDLE_CONNECTIONS = 32  # that are kept for each webhook

_CLOSED_MEANWHILE = (
    http.client.RemoteDisconnected,
    BrokenPipeError,
    ConnectionResetError,
    ssl.SSLEOFError,
    ssl.SSLZeroReturnError,
)


class CallFailed(Exception):
    """A webhook did not answer, or not with JSON."""


class Service(NamedTuple):
    """A port of a service, as a `clientConfig` names it."""

    namespace: str
    name: str
    port: int = 443


class Endpoint(NamedTuple):
    """Where it really listens."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class _Target:
    """Whom to call."""

    address: Endpoint
    server_name: str
    path: str
    ca_bundle: str

    def __str__(self) -> str:
        return f'Post "https://{self.server_name}:{self.address.port}{self.path}"'


class WebhookClient:
    """Calls over TLS; services are found where the sandbox was told they listen."""

    def __init__(self, services: Mapping[Service, Endpoint] | None = None) -> None:
        self._services = dict(services or {})
        self._idle: dict[_Target, LifoQueue[http.client.HTTPConnection]] = {}

    def call(self, client: Json, review: Json, seconds: float) -> Json:
        """Send a review to where a `clientConfig` points; return the answer.

        Raises:
            CallFailed: there was no answer in so many seconds.
        """
        target = self._target(client)
        body = orjson.dumps(review)
        try:
            status, answer = self._post(target, body, seconds)
        except TimeoutError:
            raise CallFailed(f"{target}: context deadline exceeded") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise CallFailed(f"{target}: {error}") from error
        if status != http.client.OK:
            raise CallFailed(f"{target}: the server answered with status {status}")
        try:
            found = orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            raise CallFailed(f"{target}: the answer is no JSON: {error}") from None
        if not isinstance(found, dict):
            raise CallFailed(f"{target}: the answer is no JSON object")
        return found

    def close(self) -> None:
        """Close all connections that are kept open."""
        for connections in list(self._idle.values()):  # other threads may add some
            with suppress(Empty):
                while True:
                    connections.get_nowait().close()

    def _target(self, client: Json) -> _Target:
        ca_bundle = client.get("caBundle") or ""
        if client.get("url"):
            parts = urlsplit(client["url"])
            host = parts.hostname or ""
            return _Target(Endpoint(host, parts.port or 443), host, parts.path or "/", ca_bundle)
        found = client["service"]
        service = Service(found["namespace"], found["name"], found.get("port") or 443)
        address = self._services.get(service)
        if address is None:
            raise CallFailed(f'service "{service.name}" not found')
        name = f"{service.name}.{service.namespace}.svc"
        return _Target(address, name, found.get("path") or "/", ca_bundle)

    def _post(self, target: _Target, body: bytes, seconds: float) -> tuple[int, bytes]:
        with suppress(Empty, *_CLOSED_MEANWHILE):
            connection = self._idle_to(target).get_nowait()
            return self._exchange(target, connection, body, seconds)
        return self._exchange(target, _connected(target, seconds), body, seconds)

    def _exchange(
        self, target: _Target, connection: http.client.HTTPConnection, body: bytes, seconds: float
    ) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        try:
            if connection.sock is not None:
                connection.sock.settimeout(seconds)
            path = f"{target.path}?timeout={seconds:g}s"
            connection.request("POST", path, body, {"Host": target.server_name, **headers})
            response = connection.getresponse()
            answer = response.read()
            if not response.will_close:  # else it is closed by now
                self._idle_to(target).put_nowait(connection)
        except Full:
            connection.close()
        except BaseException:
            connection.close()
            raise
        return response.status, answer

    def _idle_to(self, target: _Target) -> LifoQueue[http.client.HTTPConnection]:
        return self._idle.setdefault(target, LifoQueue(IDLE_CONNECTIONS))


def _connected(target: _Target, seconds: float) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(target.server_name, target.address.port)
    plain = socket.create_connection(target.address, seconds)
    try:
        # Head and body are sent apart; the second would wait for the first to be acknowledged.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = _context(target.ca_bundle)
        connection.sock = context.wrap_socket(plain, server_hostname=target.server_name)
    except BaseException:
        plain.close()
        raise
    return connection


@lru_cache(16)
def _context(ca_bundle: str) -> ssl.SSLContext:
    if not ca_bundle:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode())
