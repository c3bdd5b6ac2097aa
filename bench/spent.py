"""What the processes of a session have spent, told by /proc.

Strategy: memory is resident memory. What processes of one session share counts once: to what each
has alone, the largest shared part is added. For a session of one process that is its RSS, whatever
it may share with programs that are not measured.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
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
    return (
        resident_kb(
            (
                _kilobytes(path / "smaps_rollup", "Rss"),
                _kilobytes(path / "smaps_rollup", r"Private_\w+"),
            )
            for path in _processes(session)
        )
        / 1024
    )


def resident_kb(processes: Iterable[tuple[int, int]]) -> int:
    """Return the memory of processes, each told by what is resident and what is its own of it."""
    told = list(processes)
    alone = sum(own for _, own in told)
    return alone + max((resident - own for resident, own in told), default=0)


def peak_mb(session: int) -> float:
    """Return the most that each process of a session had resident, added up."""
    return sum(_kilobytes(path / "status", "VmHWM") for path in _processes(session)) / 1024


def _kilobytes(path: Path, word: str) -> int:
    """Return the sum of all lines whose name matches."""
    with suppress(OSError):
        found = re.findall(rf"^{word}:\s+(\d+) kB", path.read_text(), re.MULTILINE)
        return sum(map(int, found))
    return 0


def _processes(session: int) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(path.name)) == session:
                found.append(path)
    return found
