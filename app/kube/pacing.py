"""How often calls go out: they wait for a token of one bucket, but never past their time.

Strategy: a token is given in the order in which it is asked for, also one that is still owed. A
caller that may begin no later than at some moment learns at once that its token would come later,
takes none, and need not wait to hear it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from threading import Lock

from app.model.errors import TooLate
from app.model.token_bucket import TokenBucket


class Pacer:
    """The bucket of one connection; safe to use from many threads."""

    def __init__(
        self,
        bucket: TokenBucket,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bucket = bucket
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = Lock()

    def reserve(self, call: object, not_after: float = inf) -> float:
        """Take a token; return how many seconds it is still owed.

        Raises:
            TooLate: there is none until `not_after`, a moment of the monotonic clock.
        """
        with self._lock:
            now = self._monotonic()
            seconds = self._bucket.wait_for_one(now)
            check_time(call, now + seconds, not_after)
            self._bucket = self._bucket.less_one(now)
        return seconds

    def wait(self, call: object, not_after: float = inf) -> None:
        """Take a token, and wait while it is owed; raises as `reserve` does."""
        seconds = self.reserve(call, not_after)
        if seconds > 0:
            self._sleep(seconds)


def check_time(call: object, moment: float, not_after: float) -> None:
    """Raise `TooLate` for a call that would begin at a moment when it must be over."""
    if moment >= not_after:
        raise TooLate(f"{call}: not sent, for its time would be over")
