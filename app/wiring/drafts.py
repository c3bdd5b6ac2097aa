"""Recommendations that were not sent, as if they stood in the cluster.

Strategy: whoever looks at the cluster is shown the VPAs as they would be, so that webhook and
updater tell what they would do with what the recommender would write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from threading import Lock

from app.adapters.mirror import Standing, Transition
from app.model.errors import BadObject
from app.model.snapshot import Collection, Replacement, Snapshot
from app.model.vpa import Vpa, read_vpa
from app.ports import Json
from app.wiring.place import Mirrored


class Drafts:
    """The latest status of each VPA that was not sent; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._vpas: dict[tuple[str, str], Vpa] = {}
        self.count = 0  # of drafts that were taken in

    def take(self, item: Json) -> Vpa | None:
        """Take in a VPA as it would be; return it, None if nobody could read it."""
        with suppress(BadObject):
            vpa = read_vpa(item)
            with self._lock:
                self._vpas[vpa.namespace, vpa.name] = vpa
                self.count += 1
            return vpa
        return None

    def over(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with what was not sent."""
        with self._lock:
            drafts = list(self._vpas.values())
        return snapshot.changed(_changes(snapshot, drafts))


def _changes(snapshot: Snapshot, drafts: Sequence[Vpa]) -> Iterator[Replacement]:
    for draft in drafts:
        found = snapshot.of(draft.namespace).vpas.get(draft.name)
        if found is not None and found.uid == draft.uid:
            shown = replace(found, recommendation=draft.recommendation, conditions=draft.conditions)
            yield Replacement(Collection.VPAS, draft.namespace, draft.name, shown)


class Drafted:
    """A mirror with drafts over it."""

    def __init__(self, mirror: Mirrored, drafts: Drafts) -> None:
        self._mirror = mirror
        self._drafts = drafts
        self._shown = (Snapshot(), 0, Snapshot())  # what is below, how many drafts, both together

    @property
    def snapshot(self) -> Snapshot:
        """The newest state, as it would be."""
        below, count = self._mirror.snapshot, self._drafts.count
        if self._shown[0] is not below or self._shown[1] != count:
            self._shown = (below, count, self._drafts.over(below))
        return self._shown[2]

    @property
    def synced(self) -> bool:
        """Whether all that is served was read."""
        return self._mirror.synced

    def listen(self, listener: Callable[[Sequence[Transition]], None], /) -> None:
        """Have changes told, of the cluster alone."""
        self._mirror.listen(listener)

    def start(self) -> None:
        """Begin to read."""
        self._mirror.start()

    def stop(self) -> None:
        """Read no more."""
        self._mirror.stop()

    def join(self, seconds: float, /) -> bool:
        """Wait until all has ended; tell whether it has."""
        return self._mirror.join(seconds)

    def standings(self, now: datetime, /) -> Sequence[Standing]:
        """Tell of each resource how well it is known."""
        return self._mirror.standings(now)
