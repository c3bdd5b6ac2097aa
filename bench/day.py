"""A day of the built-in shop, as fast as it can be worked out: time and memory that it takes.

    python -m bench.day [HOURS]

Garbage is collected before memory is looked at, so that what is told is what is held.
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path

from app.settings.command_line import parse
from app.settings.run import RunSettings
from app.web.server import bound
from app.wiring.brought import manifests, shop
from app.wiring.scenes import InMemory
from app.wiring.screen.picture import summary, told
from app.wiring.screen.view import What

_HOURS = 24
_STEP_SECONDS = 10
_PAGE_BYTES = 4096


def main() -> None:
    """Play, and print a line an hour."""
    hours = int(sys.argv[1]) if len(sys.argv) > 1 else _HOURS
    sockets = bound("localhost", 0, "--port"), bound("localhost", 0, "--admission-port")
    words = ["--recommender-port=0", "--updater-port=0"]
    scene = InMemory(parse(RunSettings, words, {}), manifests([shop()]), sockets)
    scene.start()
    began, begun = time.process_time(), time.monotonic()
    for hour in range(1, hours + 1):
        _play_an_hour(scene)
        gc.collect()
        cpu, wall = time.process_time() - began, time.monotonic() - begun
        print(f"hour {hour:2}: {cpu:6.1f} s CPU, {wall:6.1f} s, {_held_mib():6.1f} MiB", flush=True)
    print(*summary(scene.onlooker.view("", "")), sep="\n")
    scene.stop()


def _play_an_hour(scene: InMemory) -> None:
    for _ in range(3600 // _STEP_SECONDS):
        scene.advance(_STEP_SECONDS)
        troubles = (found for found in scene.onlooker.news() if found.what is What.TROUBLE)
        print("".join(f"{told(found)}\n" for found in troubles), end="")


def _held_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * _PAGE_BYTES / 2**20


if __name__ == "__main__":
    main()
