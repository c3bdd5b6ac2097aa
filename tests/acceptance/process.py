"""`plumbline VERB` as a program: it has an account of its own, and tells of itself on loopback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

from tests.acceptance.cluster import Cluster
from tests.acceptance.logs import Logs
from tests.acceptance.rights import account_token
from tests.cluster.numbers import total
from tests.cluster.programs import Program, free_port

_ROOT: Final = Path(__file__).parents[2]


class Process:
    """The program, what it says of itself, and the port at which it says it."""

    def __init__(
        self, verb: str, cluster: Cluster, folder: Path, flags: Iterable[str], name: str
    ) -> None:
        self.verb = verb
        self.told_at = free_port()
        token = account_token(cluster.admin, verb)
        kubeconfig = cluster.access.kubeconfig(folder / f"{name}.kubeconfig", token)
        command = [
            *(sys.executable, "-m", "app", verb),
            f"--kubeconfig={kubeconfig}",
            f"--address=127.0.0.1:{self.told_at}",
            *flags,
        ]
        environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_ROOT)}
        self.program = Program(name, command, folder / f"{name}.log", environment)

    def start(self, logs: Logs) -> None:
        """Begin; return when it is ready."""
        logs.add(self.program.name, self.program.log)
        self.restart()

    def restart(self) -> None:
        """Begin again after an end; return when it is ready."""
        self.program.start()
        self.program.wait_until(lambda: self.problem() == "OK")

    def stop(self, seconds: float = 60.0) -> int:
        """End it; return its exit code."""
        return self.program.stop(seconds)

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


@contextmanager
def halted(program: Program) -> Iterator[None]:
    """Let a program, and whatever it has started, do nothing meanwhile."""
    program.halt()
    try:
        yield
    finally:
        program.go_on()
