"""Waiting for what a cluster does a moment later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from app.model.errors import NotFound
from app.ports import Clock

T = TypeVar("T")

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Eventually:
    """Asks again and again until the answer counts as true, and returns it."""

    clock: Clock

    def __call__(self, ask: Callable[[], T | None], seconds: float = 60) -> T:
        """Fail if so many seconds were not enough; what is not there yet is no answer."""
        until = self.clock.monotonic() + seconds
        while True:
            try:
                found = ask()
            except NotFound:
                pass
            else:
                if found:
                    return found
            assert self.clock.monotonic() < until, "it did not come to be so in time"
            self.clock.wait(POLL_SECONDS)
