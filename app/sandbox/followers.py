"""Tells others what happens to objects, in the thread that moves the clock.

Strategy: a watch blocks whoever reads it, so each needs a thread. A follower is called instead, a
moment after something happened, with all of it in order; so a cluster and all who follow it can be
stepped together, and come to the same end each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from app.ports import Json
from app.sandbox.clock import SteppedClock
from app.sandbox.objects import Key, key_of
from app.sandbox.selecting import Matches
from app.sandbox.store import Store, Transition

LAG_SECONDS: Final = 0.02  # until something that happened is told


class Told(NamedTuple):
    """An object that came or changed, or that went (None); it is shared, and not to be changed."""

    key: Key
    object: Json | None


Listener = Callable[[Sequence[Told]], None]


class Follower:
    """Tells a listener what is there, and then every change, until it is stopped."""

    def __init__(
        self,
        store: Store,
        clock: SteppedClock,
        collection: str,
        namespace: str,
        matches: Matches,
        listener: Listener,
    ) -> None:
        self._store = store
        self._clock = clock
        self._collection = collection
        self._namespace = namespace
        self._matches = matches
        self._listener = listener
        self._news: list[Told] = []
        self._is_on = False

    def start(self) -> None:
        """Tell what is there now, and go on from there."""
        with self._store.lock:
            found = self._store.items(self._collection, self._namespace)
            self._store.listen(self._note)
            self._is_on = True
        self._listener([Told(key_of(item), item) for item in found if self._matches(item)])

    def stop(self) -> None:
        """Tell no more."""
        self._is_on = False

    def _note(self, collection: str, change: Transition) -> None:
        if not self._is_on or collection != self._collection:
            return
        if self._namespace not in ("", change.key.namespace):
            return
        after = change.after if change.after is not None and self._matches(change.after) else None
        if after is None and (change.before is None or not self._matches(change.before)):
            return
        if not self._news:
            self._clock.call_later(LAG_SECONDS, self._tell)
        self._news.append(Told(change.key, after))

    def _tell(self) -> None:
        with self._store.lock:
            news, self._news = self._news, []
        if self._is_on:
            self._listener(news)
