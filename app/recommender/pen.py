"""Makes writes side by side, the most urgent first, in the time that there is.

Strategy: one thread owns the queue and hands each write to a thread that is free; so nobody
waits for a slow one but who wants to write the same object. A write whose time was over before
its turn came, or that was no longer allowed by then, is put off, which is no failure.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from queue import SimpleQueue

from app.model.errors import ClusterError
from app.ports import Clock

log = logging.getLogger("recommender.writes")

Target = tuple[str, str, str]  # kind, namespace and name


class Fate(StrEnum):
    """What became of a write."""

    WRITTEN = "written"
    FAILED = "failed"
    PUT_OFF = "put off"


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """A write that shall be made."""

    target: Target
    make: Callable[[], object]  # in any thread
    ended: Callable[[Fate], object]  # in the thread that owns the queue
    until: float = inf  # by the monotonic clock; it is not begun later


class Pen:
    """A queue of writes, and some threads that make them."""

    def __init__(self, clock: Clock, threads: int, may: Callable[[], bool]) -> None:
        self._clock = clock
        self._threads = threads
        self._may = may
        self._waiting: OrderedDict[Target, Write] = OrderedDict()
        self._under_way: dict[Target, Write] = {}
        self._ended: SimpleQueue[tuple[Write, str]] = SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
        self._errors: list[str] = []

    @property
    def is_waiting(self) -> bool:
        """Whether there are writes that were neither begun nor put off."""
        return bool(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Whether there are writes that have not ended."""
        return bool(self._waiting or self._under_way)

    def add(self, writes: Iterable[Write], *, urgent: bool = False) -> None:
        """Queue writes, in place of what they put out of date; urgent ones go first."""
        for write in writes:
            self._waiting[write.target] = write
            if urgent:
                self._waiting.move_to_end(write.target, last=False)

    def step(self) -> None:
        """Begin or put off one write; or wait until one has ended, if nobody is free."""
        target = next((one for one in self._waiting if one not in self._under_way), None)
        if target is None or len(self._under_way) >= self._threads:
            self._end_one()
            return
        write = self._waiting.pop(target)
        if self._clock.monotonic() >= write.until or not self._may():
            write.ended(Fate.PUT_OFF)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "pen")
        self._under_way[target] = write
        self._pool.submit(self._make, write)

    def rest(self) -> None:
        """Let the threads go, and say in one line what failed."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        errors, self._errors = self._errors, []
        if errors:
            extra = {"failed": len(errors), "error": errors[0]}
            log.warning("not everything was written", extra=extra)

    def _make(self, write: Write) -> None:
        error = "it failed unexpectedly"
        try:
            write.make()
            error = ""
        except ClusterError as caught:
            error = str(caught) or type(caught).__name__
        except Exception:
            log.exception("a write failed unexpectedly", extra={"target": "/".join(write.target)})
        finally:
            self._ended.put((write, error))

    def _end_one(self) -> None:
        write, error = self._ended.get()
        del self._under_way[write.target]
        if error:
            self._errors.append(error)
        write.ended(Fate.FAILED if error else Fate.WRITTEN)
