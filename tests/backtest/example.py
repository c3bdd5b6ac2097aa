"""The recording of docs/examples: `python -m tests.backtest.example` writes it again.

Two weeks of a small shop, a quarter of an hour at a time: `web` has more CPU than it needs, `cart`
less than it would use, `db` more memory, `search` is killed for memory now and then, and `report`
runs every night. One pod has no owner that is known, and one night nothing was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import numpy as np

from app.backtest.recording import RecordedContainer, Recording
from app.backtest.recording_file import save_recording

EXAMPLE: Final = Path(__file__).parents[2] / "docs/examples/shop.npz"

_START: Final = 1_767_571_200  # 2026-01-05T00:00:00Z, a Monday
_STEP: Final = 900
_DAY: Final = 86_400 // _STEP
_DAYS: Final = 14
_SILENT: Final = range(9 * _DAY + 4, 9 * _DAY + 20)
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class _Workload:
    """What the containers of a workload are given, and about what they use."""

    kind: str
    name: str
    cpu: float  # cores
    memory: float  # MiB
    cpu_request: float
    memory_request: float
    cpu_limit: float = 0.0
    memory_limit: float = 0.0
    pods: int = 2
    by_day: float = 0.5  # share by which usage rises and falls


_WORKLOADS: Final = (
    _Workload("Deployment", "web", 0.3, 300, 1, 512, by_day=0.8, pods=3),
    _Workload("Deployment", "cart", 0.45, 180, 0.5, 256, cpu_limit=0.5),
    _Workload("StatefulSet", "db", 0.2, 1400, 0.5, 4096, memory_limit=4096, pods=1, by_day=0.1),
    _Workload("Deployment", "search", 0.25, 330, 0.2, 512, memory_limit=512),
)
_REPORT: Final = _Workload("CronJob", "report", 0.9, 700, 1, 1024, pods=1)


def example() -> Recording:
    """Return the recording."""
    dice = Random(2026)
    rows = list(_rows())
    found = Recording.unknown(_START, _STEP, _DAYS * _DAY, [row for row, _, _ in rows])
    for index, (_, workload, steps) in enumerate(rows):
        for at in steps:
            _fill(found, index, at, workload, dice)
    for measure in (found.cpu, found.memory):
        measure[:, _SILENT.start : _SILENT.stop] = np.nan
    return found


def _rows() -> Iterator[tuple[RecordedContainer, _Workload, range]]:
    for one in _WORKLOADS:
        for pod in range(one.pods):
            name = f"{one.name}-{pod}"
            yield (
                RecordedContainer("shop", one.kind, one.name, name, "app"),
                one,
                range(_DAYS * _DAY),
            )
    for day in range(_DAYS):
        night = range(day * _DAY + 8, day * _DAY + 14)
        yield RecordedContainer("shop", "CronJob", "report", f"report-{day}", "app"), _REPORT, night
    stray = RecordedContainer("shop", "", "", "debug", "shell")
    yield stray, _REPORT, range(3 * _DAY, 3 * _DAY + 30)


def _fill(found: Recording, row: int, at: int, one: _Workload, dice: Random) -> None:
    found.cpu_request[row, at], found.cpu_limit[row, at] = one.cpu_request, one.cpu_limit
    found.memory_request[row, at] = one.memory_request * _MIB
    found.memory_limit[row, at] = one.memory_limit * _MIB
    wave = 1 + one.by_day * math.sin((at / _DAY - 0.3) * math.tau)
    is_weekend = at // _DAY % 7 >= 5
    cpu = one.cpu * wave * dice.lognormvariate(0, 0.25) * (0.6 if is_weekend else 1)
    memory = one.memory * _MIB * (1 + 0.2 * (wave - 1)) * dice.lognormvariate(0, 0.03)
    if one.name == "search" and dice.random() < 0.004:
        memory *= dice.uniform(1.3, 1.8)
    most = one.memory_limit * _MIB or memory
    found.oom_kills[row, at] = found.restarts[row, at] = memory > most
    wanted, limit = cpu, one.cpu_limit or cpu
    found.cpu[row, at] = round(min(wanted, limit), 3)
    found.throttled[row, at] = round(max(1 - limit / wanted, 0.0), 2)
    found.memory[row, at] = round(min(memory, most) / 2**16) * 2**16


if __name__ == "__main__":
    save_recording(example(), EXAMPLE)
