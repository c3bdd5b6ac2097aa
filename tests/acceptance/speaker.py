"""A process under test that tells of itself over HTTP on loopback."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection

from tests.cluster.numbers import total
from tests.cluster.programs import free_port


class Speaker:
    """What it says of itself, and the port at which it says it."""

    def __init__(self) -> None:
        self.told_at = free_port()

    def problem(self) -> str:
        """Return why it is not ready; OK when it is."""
        try:
            return self.page("/readyz")
        except OSError as error:
            return repr(error)

    def number(self, name: str, **labels: str) -> float:
        """Return a number it publishes."""
        return total(self.page("/metrics"), name, **labels)

    def page(self, path: str, headers: Mapping[str, str] | None = None) -> str:
        """Return a page."""
        with closing(HTTPConnection("127.0.0.1", self.told_at, timeout=10)) as connection:
            connection.request("GET", path, headers=dict(headers or {}))
            return connection.getresponse().read().decode()
