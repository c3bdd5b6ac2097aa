"""Programs that a test starts: each writes a log, and ends when it is told to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 60.0  # for machines that have much else to do
_START_SECONDS = 240.0  # on which much starts at the same moment
_POLL_SECONDS = 0.05


class GaveUp(AssertionError):
    """What was waited for did not come about."""


def eventually(
    look: Callable[[], T], what: str, *, seconds: float = PATIENCE_SECONDS, every: float = 0.0
) -> T:
    """Return what a look gives as soon as it is true; a look that asserts in vain is no yes."""
    until = time.monotonic() + seconds
    pause = Event()
    while True:
        reason: object = ""
        try:
            found = look()
            if found:
                return found
        except AssertionError as error:
            reason = error
        if time.monotonic() >= until:
            raise GaveUp(f"not within {seconds:g} s: {what}\n{reason}")
        pause.wait(every or _POLL_SECONDS)


def during(seconds: float, check: Callable[[], None]) -> None:
    """Make a check again and again for so long."""
    until = time.monotonic() + seconds
    pause = Event()
    while time.monotonic() < until:
        check()
        pause.wait(_POLL_SECONDS)


def free_port() -> int:
    """Return a port of loopback that nobody listens on, and that nobody else gets for a while.

    What holds it is in nobody's way who listens with SO_REUSEADDR, as servers on Linux do. Let go
    at once, two of forty ports are the same one in every dozenth cluster.
    """
    if len(_held) == _MOST_HELD:
        _held.popleft().close()
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    port: int = holder.getsockname()[1]
    return port


_MOST_HELD: Final = 200
_held: Final[deque[socket.socket]] = deque()


class Program:
    """One program, started anew as often as is asked; its log goes on."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = log
        self._command = tuple(command)
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; 0 while it is not running."""
        return self._process.pid if self._process is not None else 0

    @property
    def exit_code(self) -> int | None:
        """How it ended by itself; None while it runs."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Begin."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def wait_until(self, ready: Callable[[], bool], seconds: float = _START_SECONDS) -> None:
        """Return when it is ready; an end by itself is told with the last lines of its log."""

        def look() -> bool:
            if self.exit_code is not None:
                raise RuntimeError(f"{self.name} ended with {self.exit_code}:\n{self.tail()}")
            return ready()

        try:
            eventually(look, f"{self.name} is ready", seconds=seconds)
        except GaveUp as error:
            raise RuntimeError(f"{error}\n{self.tail()}") from error

    def halt(self) -> None:
        """Let it, and whatever it has started, do nothing."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on after a halt."""
        self._signal(signal.SIGCONT)

    def stop(self, seconds: float = 5.0) -> int:
        """Ask it to end, end it after so many seconds; return its exit code."""
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            code = process.wait()
        self._process = None
        return code

    def kill(self) -> None:
        """End it, and whatever it has started, without a word."""
        self._signal(signal.SIGKILL)
        self.stop()

    def tail(self, lines: int = 25) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)
