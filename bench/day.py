"""A day of the built-in shop, as fast as it can be worked out: time and memory that it takes.

    python -m bench.day [HOURS]

Garbage is collected before memory is looked at, so that what is told is what is held; the screen
is drawn as it goes, once a minute of the cluster's time. Exit code 1 if what is held after the
first hour grows by more than 2 %, for so much the allocator scatters.
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path

from app.flags.command_line import parse
from app.run.flags import RunSettings
from app.run.modes import InMemoryMode
from app.run.screen import picture
from app.run.view import ActivityKind, activity_line, summary
from app.run.world import read_manifests, shop_file
from app.runtime.http_server import bound

_HOURS = 24
_STEP_SECONDS = 10
_PAGE_BYTES = 4096
_SCATTER = 0.02  # of what is held after the first hour


def main() -> int:
    """Play, print a line an hour, and judge the growth."""
    hours = int(sys.argv[1]) if len(sys.argv) > 1 else _HOURS
    sockets = bound("localhost", 0, "--port"), bound("localhost", 0, "--admission-port")
    words = ["--recommender-port=0", "--updater-port=0", "--page-port=0"]
    mode = InMemoryMode(parse(RunSettings, words, {}), read_manifests([shop_file()]), sockets)
    mode.start()
    began, begun = time.process_time(), time.monotonic()
    held: list[float] = []
    for hour in range(1, hours + 1):
        _play_an_hour(mode)
        gc.collect()
        cpu, wall = time.process_time() - began, time.monotonic() - begun
        held.append(_held_mib())
        print(f"hour {hour:2}: {cpu:6.1f} s CPU, {wall:6.1f} s, {held[-1]:6.1f} MiB", flush=True)
    print(*summary(mode.view()), sep="\n")
    mode.stop()
    growth = held[-1] / held[0] - 1
    print(f"growth after the first hour: {growth:.1%}, of {_SCATTER:.0%} that may be")
    return int(growth > _SCATTER)


def _play_an_hour(mode: InMemoryMode) -> None:
    for second in range(0, 3600, _STEP_SECONDS):
        mode.advance(_STEP_SECONDS)
        if second % 60 == 0:
            picture(mode.view(), (), 100, 40)
        troubles = (found for found in mode.feed.news() if found.kind is ActivityKind.TROUBLE)
        print("".join(f"{activity_line(found)}\n" for found in troubles), end="")


def _held_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * _PAGE_BYTES / 2**20


if __name__ == "__main__":
    sys.exit(main())
