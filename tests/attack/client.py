"""The others: clients that ask in good order, and the attacker beside them."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

import httpx
import orjson

from tests import make
from tests.attack.processes import Attacked
from tests.waiting import eventually

_PAUSE_SECONDS: Final = 0.005
_JSON: Final = {"content-type": "application/json"}


class Client:
    """Asks one thing after another over connections that are kept, and times the answers."""

    def __init__(self, at: Attacked, *, reviews: bool) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        base = f"https://127.0.0.1:{at.tls_port}" if reviews else f"http://127.0.0.1:{at.port}"
        self._http = httpx.Client(base_url=base, verify=context, timeout=20, headers=_JSON)
        review = orjson.dumps(make.review_json(make.pod_json(cpu="100m")))
        self._asked = ("POST", "/mutate", review) if reviews else ("GET", "/livez", b"")
        self.seconds: list[float] = []
        self.failures: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Client:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._over.set()
        self._thread.join()
        self._http.close()

    def _run(self) -> None:
        method, path, body = self._asked
        while not self._over.wait(_PAUSE_SECONDS):
            began = monotonic()
            try:
                self._http.request(method, path, content=body).raise_for_status()
            except httpx.HTTPError as error:
                self.failures.append(repr(error))
            self.seconds.append(monotonic() - began)

    def p99(self, least: int = 200) -> float:
        """Return the time within which 99 of 100 were answered, of at least so many, in seconds."""
        assert eventually(lambda: len(self.seconds) >= least)
        found = sorted(self.seconds)
        return found[int(len(found) * 0.99)]


@contextmanager
def flood(name: str, port: int, count: int, *words: str) -> Iterator[None]:
    """Flood a port; the block begins when all is sent, and connections are held until it ends."""
    command = [sys.executable, "-m", "tests.attack.attacker", name, str(port), str(count), *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as attacker:
        assert attacker.stdout is not None
        try:
            assert attacker.stdout.readline() == b"done\n"
            yield
        finally:
            attacker.communicate(timeout=30)
