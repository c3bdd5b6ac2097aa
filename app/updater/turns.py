"""Whose turn it is: the most urgent step first, one at a time for each owner.

Strategy: walks wait in a heap by the urgency of their next step. Who finds no token of its rate
waits in a room of that rate, so that only those wait who have to; when there may be one again,
the most urgent of the room comes back.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.updater.core.action_queue import ActionQueue, QueueCursor, QueueStep, Rank

Rate = tuple[bool, str]  # of evictions or not; of one namespace, or empty for all together


class Turn(NamedTuple):
    """The next step of a walk, its place taken already."""

    rank: Rank
    number: int
    walk: QueueCursor
    queue: ActionQueue
    step: QueueStep
    has_waited: bool = False  # for a token


@dataclass(slots=True)
class _Room:
    """Turns that wait for a token of one rate."""

    not_before: float  # by the monotonic clock
    turns: list[Turn] = field(default_factory=list)


class Turns:
    """Walks that wait for their turn; shared by the workers."""

    def __init__(self, queues: Sequence[ActionQueue]) -> None:
        self._lock = threading.Lock()
        self._ready: list[Turn] = []
        self._rooms: dict[Rate, _Room] = {}
        self._abandoned: set[int] = set()
        self.ended: list[QueueCursor] = []  # with what got no turn
        self.abandoned: list[QueueCursor] = []
        for number, queue in enumerate(queues):
            self._put(number, QueueCursor(queue), queue)

    def take(self, now: float, *, is_over: bool = False) -> Turn | float | None:
        """Return the most urgent turn, else the seconds until there may be one, None for never.

        Args:
            now: the time by the monotonic clock.
            is_over: nobody waits any longer.
        """
        with self._lock:
            self._let_one_back(now, is_over=is_over)
            if self._ready:
                return heapq.heappop(self._ready)
            if not self._rooms:
                return None
            return min(room.not_before for room in self._rooms.values()) - now

    def _let_one_back(self, now: float, *, is_over: bool) -> None:
        """Let the most urgent turn of each room come back if there may be a token for it."""
        for rate, room in list(self._rooms.items()):
            if is_over or room.not_before <= now:
                heapq.heappush(self._ready, heapq.heappop(room.turns))
                if not room.turns:
                    del self._rooms[rate]

    def wait(self, turn: Turn, rate: Rate, not_before: float) -> None:
        """Let a turn wait for a token."""
        with self._lock:
            room = self._rooms.setdefault(rate, _Room(not_before))
            room.not_before = not_before
            heapq.heappush(room.turns, turn._replace(has_waited=True))

    def put_back(self, turn: Turn) -> None:
        """Let a walk go on."""
        with self._lock:
            if turn.number in self._abandoned:
                self.abandoned.append(turn.walk)
            else:
                self._put(turn.number, turn.walk, turn.queue)

    def abandon(self, turn: Turn) -> None:
        """Let a walk end here."""
        with self._lock:
            self._abandoned.add(turn.number)

    def _put(self, number: int, walk: QueueCursor, queue: ActionQueue) -> None:
        step = walk.next()
        if step is None:
            self.ended.append(walk)
            return
        heapq.heappush(self._ready, Turn(step.rank, number, walk, queue, step))
