"""The way to the API server that is in use, and how often calls go out on it.

Strategy: credentials are asked for at most every few seconds. What is not read again by
itself (client certificates) is read again with everything else once the server says 401.

Calls wait for a token of one bucket, but never past their time. A token is given in the order in
which it is asked for, also one that is still owed. A caller that may begin no later than at some
moment learns at once that its token would come later, takes none, and need not wait to hear it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from math import inf
from threading import Lock
from typing import NamedTuple

from urllib3 import PoolManager

from app.kube.reach import Origin, Reach, plain_reach
from app.model.errors import BadSetting, Refused, TooLate
from app.model.token_bucket import TokenBucket

log = logging.getLogger("kube.connection")

TOKEN_LIFE_SECONDS = 5.0  # for so long a token is used without asking for a fresher one
RELOAD_PAUSE_SECONDS = 10.0  # between two readings of the configuration


def load(origin: Origin) -> Reach:
    """Read the configuration.

    Raises:
        BadSetting: it cannot be used; the sentence names the file.
        Refused: there are no credentials to send.
    """
    plain = plain_reach(origin)
    if plain is not None:
        return plain
    from app.kube.packaged import packaged_reach  # only now: it takes many megabytes

    return packaged_reach(origin)


class Session(NamedTuple):
    """What a call needs to go out."""

    pool: PoolManager
    host: str
    authorization: str  # empty where a client certificate or nothing proves who we are
    generation: int  # of the configuration


class ApiAccess:
    """The configuration in use, read again when the server no longer knows us."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._lock = Lock()
        self._generation = 0
        self._reloaded_at = float("-inf")
        self._use(load(origin))

    def _use(self, reach: Reach) -> None:
        self._reach = reach
        self._generation += 1
        self._asked_at = float("-inf")
        self._authorization = ""

    def session(self) -> Session:
        """Return what the next call goes out with."""
        with self._lock:
            now = time.monotonic()
            if now - self._asked_at >= TOKEN_LIFE_SECONDS:
                self._asked_at = now
                self._authorization = self._reach.authorization()
            reach = self._reach
            return Session(reach.pool, reach.host, self._authorization, self._generation)

    def renew(self, generation: int) -> bool:
        """Read the configuration again if `generation` is still in use; tell if it is newer now."""
        with self._lock:
            if generation != self._generation:
                return True
            if time.monotonic() - self._reloaded_at < RELOAD_PAUSE_SECONDS:
                return False
            self._reloaded_at = time.monotonic()
            try:
                reach = load(self._origin)
            except (BadSetting, Refused) as error:
                log.warning("credentials not reloaded", extra={"error": str(error)})
                return False
            self._reach.pool.clear()
            self._use(reach)
            return True

    def close(self) -> None:
        """Close the connections that wait for use."""
        self._reach.pool.clear()


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
