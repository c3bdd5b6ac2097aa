"""A recommender or an updater of either side, and what it tells of its rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from bench.stage import Stage, page
from tests.cluster.control_plane import HOST
from tests.cluster.numbers import total
from tests.cluster.programs import Program, eventually, free_port

_PATIENCE_SECONDS: Final = 600


class Replica:
    """One process."""

    def __init__(
        self,
        on: Stage,
        side: str,
        verb: str,
        interval: int,
        flags: Sequence[str] = (),
        name: str = "only",
    ) -> None:
        self._port, self._interval = free_port(), interval
        self._metric = f"vpa_{verb}_execution_latency_seconds"
        told = (f"--address={HOST}:{self._port}", f"--{verb}-interval={interval}s", *flags)
        self.program: Program = on.program(side, verb, told, f"{side}-{verb}-{name}")

    def is_up(self) -> bool:
        """Whether it answers at all."""
        return bool(page(self._port))

    def rounds(self) -> float:
        """How often it has looked at the cluster."""
        return total(page(self._port), f"{self._metric}_count", step="total")

    def round_seconds(self) -> float:
        """How long all rounds took together."""
        return total(page(self._port), f"{self._metric}_sum", step="total")

    def wait_rounds(self, count: int) -> None:
        """Return at the end of a round, after so many more; to be asked costs it, so it is late."""
        until = self.rounds() + count
        time.sleep((count - 0.2) * self._interval)
        until = max(until, self.rounds() + 1)
        patiently(lambda: self.rounds() >= until, f"{self.program.name} does {count} rounds")


def patiently(look: Callable[[], object], what: str) -> None:
    """Return when a look gives something."""
    eventually(look, what, seconds=_PATIENCE_SECONDS, every=0.25)
