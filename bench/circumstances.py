"""Where, when and with what a bench runs."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.runtime.clock import SystemClock
from bench import upstream
from bench.figures import SIDES, Result, Row
from tests.cluster.parts import KUBERNETES, pinned

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Options:
    """How much of a bench is wanted."""

    rounds: int
    is_quick: bool

    def size(self, full: int, quick: int) -> int:
        """Return how much of something there is to be."""
        return quick if self.is_quick else full

    def turns(self) -> Iterator[tuple[int, str]]:
        """Yield the number of the round and the side whose turn it is; who begins changes."""
        for number in range(1, self.rounds + 1):
            for side in SIDES if number % 2 else reversed(SIDES):
                yield number, side


def result(
    name: str,
    title: str,
    options: Options,
    rows: Sequence[Row],
    commands: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Result:
    """Return what a bench found, with the circumstances."""
    date = f"{SystemClock().now():%Y-%m-%d %H:%M} UTC"
    title = f"{title}, {options.rounds} rounds" if options.rounds > 1 else title
    return Result(
        name, title, date, _machine(), _versions(), options.is_quick, tuple(rows),
        tuple(commands), tuple(notes),
    )  # fmt: skip


def _machine() -> str:
    told = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.+)$", told, re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = os.cpu_count() or 1
    name = model[1] if model else platform.machine()
    kernel = platform.release().partition("-")[0]
    return f"{cores} cores of {name}, {memory:.0f} GiB, Linux {kernel}"


def _versions() -> dict[str, str]:
    return {
        "Plumbline": _said(["git", "describe", "--always", "--dirty"]) or "unknown",
        "Python": platform.python_version(),
        "upstream": upstream.version(),
        "Go": _said(["go", "env", "GOVERSION"]).removeprefix("go") or "unknown",
        "Kubernetes": pinned(KUBERNETES),
        "wrk": _found(r"wrk (\S+)", _said(["wrk", "-v"])),
    }


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else "unknown"


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
