"""What the processes of a session have spent, told by /proc."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path


def cpu_seconds(session: int) -> float:
    """Return the CPU time of all processes of a session, in user and system mode."""
    total = 0
    for path in _processes(session):
        with suppress(OSError):  # it has ended
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def memory_mb(session: int) -> float:
    """Return the resident memory of a session; what its processes share counts once."""
    return sum(_kilobytes(path / "smaps_rollup", "Pss") for path in _processes(session)) / 1024


def peak_mb(session: int) -> float:
    """Return the most that each process of a session had resident, added up."""
    return sum(_kilobytes(path / "status", "VmHWM") for path in _processes(session)) / 1024


def _kilobytes(path: Path, word: str) -> int:
    with suppress(OSError):
        if found := re.search(rf"^{word}:\s+(\d+) kB", path.read_text(), re.MULTILINE):
            return int(found[1])
    return 0


def _processes(session: int) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(path.name)) == session:
                found.append(path)
    return found
