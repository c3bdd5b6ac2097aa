"""`plumbline recommender` and `plumbline updater` as programs, each with its own account."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import orjson

from tests.acceptance.logs import Logs
from tests.acceptance.rights import account_token
from tests.acceptance.speaker import Speaker
from tests.cluster.api import Api, Json
from tests.cluster.control_plane import Access
from tests.cluster.programs import Program, eventually

_ROOT: Final = Path(__file__).parents[2]
_ROUNDS: Final = {
    "updater": ("vpa_updater_execution_latency_seconds_count", "total"),
    "recommender": ("vpa_recommender_execution_latency_seconds_count", "total"),
}
_FRESH_SECONDS: Final = 0.5
QUIET_ROUNDS: Final = 20  # of an updater in which nothing happened: it does not want to


class Worker(Speaker):
    """One process."""

    def __init__(
        self,
        verb: str,
        access: Access,
        admin: Api,
        folder: Path,
        flags: Iterable[str] = (),
        *,
        name: str = "",
    ) -> None:
        super().__init__()
        self.verb = verb
        self._asking = threading.Lock()
        self._asked, self._rounds = 0.0, 0.0
        name = name or verb
        kubeconfig = access.kubeconfig(folder / f"{name}.kubeconfig", account_token(admin, verb))
        command = [
            *(sys.executable, "-m", "app", verb),
            f"--kubeconfig={kubeconfig}",
            f"--address=127.0.0.1:{self.told_at}",
            f"--{verb}-interval=1s",
            *flags,
        ]
        environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_ROOT)}
        self.program = Program(name, command, folder / f"{name}.log", environment)

    def start(self, logs: Logs) -> None:
        """Begin; return when it knows the cluster."""
        logs.add(self.program.name, self.program.log)
        self.restart()

    def restart(self) -> None:
        """Begin anew after an end; return when it knows the cluster."""
        self.program.start()
        self.program.wait_until(lambda: self.problem() == "OK")

    def stop(self, seconds: float = 60.0) -> int:
        """End it; return its exit code."""
        return self.program.stop(seconds)

    def rounds(self) -> float:
        """Return how often it has looked at the cluster; many ask at the same time."""
        with self._asking:
            if time.monotonic() - self._asked > _FRESH_SECONDS:
                name, step = _ROUNDS[self.verb]
                self._rounds = self.number(name, step=step)
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
