"""Tells in the log what is not read, for all watched resources of a process at once.

Strategy: reflectors only say how they stand; here they are looked at once a second. So an API
server that is away, or lists that do not come, are one line that names all resources it is about.
While that lasts there is a line a minute, with how often it failed since the last one, and at the
end one that says that it is over.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from app.kube.reflector import Reflector
from app.ports import Clock

log = logging.getLogger("kube.watch")

LOOK_SECONDS: Final = 1.0
SLOW_SECONDS: Final = 10.0  # from which on a list that does not come is told of
REPEAT_SECONDS: Final = 60.0
_SLOW: Final = "slow"  # what is wrong with a resource that has not failed, and is not read


@dataclass(slots=True)
class _Trouble:
    """What was told of a resource, and since when it is in trouble."""

    since: float = inf
    failures: int = 0  # that were told
    is_told: bool = False
    quiet_until: dict[str, float] = field(default_factory=dict)  # by what is wrong


class WatchReport:
    """Logs what is not read, and when it is read; add from any thread, look from one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._troubles: dict[Reflector, _Trouble] = {}
        self._next_look = -inf

    def add(self, reflectors: Iterable[Reflector]) -> None:
        """Look at these as well, and no more at what has been stopped."""
        kept = {one: trouble for one, trouble in self._troubles.items() if not one.is_stopped}
        self._troubles = {**kept, **{one: _Trouble() for one in reflectors}}

    def look(self) -> None:
        """Log what is due; too soon after the last look nothing is."""
        now = self._clock.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        wrong: dict[str, list[Reflector]] = defaultdict(list)
        over = []
        for one, trouble in self._troubles.items():
            state = one.state
            if one.is_stopped:
                continue
            if trouble.is_told and state.synced and not state.problem:
                over.append(one)
            elif kind := self._kind(one, trouble):
                unread = self._unread_seconds(one) if kind is _SLOW else 0.0
                trouble.since = min(trouble.since, now - unread)
                wrong[kind].append(one)
        for kind, found in wrong.items():
            if any(now >= self._troubles[one].quiet_until.get(kind, now) for one in found):
                self._tell(kind, found, now)
        if over:
            self._tell_end(over, now)

    def _kind(self, one: Reflector, trouble: _Trouble) -> str:
        """Return what is wrong with a resource, empty if nothing is, or no more than was told."""
        state = one.state
        if state.missing and trouble.is_told:
            return ""  # it is asked for now and then, and not in trouble
        if state.problem or state.failed_steps > trouble.failures:
            return state.failure
        if state.synced or state.missing:
            return ""
        return _SLOW if self._unread_seconds(one) >= SLOW_SECONDS else ""

    def _unread_seconds(self, one: Reflector) -> float:
        return one.stale_seconds(self._clock.now())

    def _tell(self, kind: str, found: Sequence[Reflector], now: float) -> None:
        extra = {"resources": _names(found), "seconds": self._seconds(found, now)}
        if kind is _SLOW:
            pages = {one.resource.plural: one.state.pages for one in found}
            log.warning("resources still not read", extra={**extra, "pages": pages})
        else:
            pause = round(min(one.state.pause_seconds for one in found), 1)
            error = found[0].state.last_problem
            more = {"error": error, "times": self._times(found), "pause_seconds": pause}
            log.warning("resources not read, will ask again", extra={**extra, **more})
        for one in found:
            trouble = self._troubles[one]
            trouble.failures, trouble.is_told = one.state.failed_steps, True
            trouble.quiet_until[kind] = now + REPEAT_SECONDS

    def _tell_end(self, found: Sequence[Reflector], now: float) -> None:
        extra = {"resources": _names(found), "seconds": self._seconds(found, now)}
        log.info("resources read", extra={**extra, "times": self._times(found)})
        for one in found:
            trouble = self._troubles[one]
            trouble.since, trouble.is_told = inf, False
            trouble.failures = one.state.failed_steps

    def _times(self, found: Iterable[Reflector]) -> int:
        """Return how often some resources failed since that was told."""
        return sum(one.state.failed_steps - self._troubles[one].failures for one in found)

    def _seconds(self, found: Iterable[Reflector], now: float) -> int:
        """Return for how long the first of some resources is in trouble."""
        return round(now - min(self._troubles[one].since for one in found))


def _names(found: Iterable[Reflector]) -> Sequence[str]:
    return sorted(one.resource.plural for one in found)
