"""`plumbline recommender` and `plumbline updater` as programs, each with its own account."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import orjson

from app.model.fields import Json
from tests.acceptance.cluster import Cluster
from tests.acceptance.logs import Logs
from tests.acceptance.process import Process
from tests.cluster.programs import eventually

_FRESH_SECONDS: Final = 0.5
QUIET_ROUNDS: Final = 20  # of an updater in which nothing happened: it does not want to


class Worker(Process):
    """One process."""

    def __init__(
        self, verb: str, cluster: Cluster, folder: Path, flags: Iterable[str], name: str
    ) -> None:
        flags = (f"--{verb}-interval=1s", *flags)
        super().__init__(verb, cluster, folder, flags, name or verb)
        self._asking = threading.Lock()
        self._asked, self._rounds = 0.0, 0.0

    def rounds(self) -> float:
        """Return how often it has looked at the cluster; many ask at the same time."""
        with self._asking:
            if time.monotonic() - self._asked > _FRESH_SECONDS:
                name = f"vpa_{self.verb}_execution_latency_seconds_count"
                self._rounds = self.number(name, step="total")
                self._asked = time.monotonic()
            return self._rounds

    def wait_rounds(self, count: int = QUIET_ROUNDS) -> None:
        """Return after so many more rounds, the one that is under way not counted."""
        until = self.rounds() + 1 + count
        eventually(
            lambda: self.rounds() >= until, f"{count} rounds", seconds=60 + 6 * count, every=1
        )

    def decisions(self, namespace: str) -> Sequence[Json]:
        """Return what an updater decided in its last round."""
        page = self.page(f"/v1/decisions?{urlencode({'namespace': namespace})}")
        found: Sequence[Json] = orjson.loads(page)["decisions"]
        return found

    def recommendation(self, namespace: str, name: str, token: str) -> Json:
        """Return what a recommender answers to somebody."""
        path = f"/v1/namespaces/{namespace}/recommendations/{name}"
        found: Json = orjson.loads(self.page(path, {"Authorization": f"Bearer {token}"}))
        return found


Start = Callable[..., Worker]  # verb, and flags


@contextmanager
def starting(cluster: Cluster, folder: Path, logs: Logs) -> Iterator[Start]:
    """Give what starts processes; end them all."""
    with ExitStack() as stack:

        def start(verb: str, *flags: str, name: str = "") -> Worker:
            found = Worker(verb, cluster, folder, flags, name)
            stack.callback(found.program.kill)
            found.start(logs)
            return found

        yield start
