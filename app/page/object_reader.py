"""Asks the API server while somebody waits: for the few objects of which a page needs the text.

Strategy: a cluster that gives no answer is not asked again for some seconds, so that pages are made
of what is watched and nobody waits for the rest. Whether it answers at all is asked all the time,
because watches that are silent tell that only late.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from app.model.errors import ClusterError, NotFound, Refused, Unavailable
from app.model.fields import Json
from app.ports import Clock, Cluster, Ref
from app.runtime.live import Connection

SECONDS: Final = 1.5  # for which somebody waits for all objects of a page
_PAUSE_SECONDS: Final = 10.0
_INTERVAL_SECONDS: Final = 5.0
_QUICK_SECONDS: Final = 1.0  # while it gives none
_PATH: Final = "/version"  # for which nobody needs a right, and which costs nothing


class ObjectReader:
    """Objects as they were written; any thread may ask."""

    def __init__(self, cluster: Connection, clock: Clock) -> None:
        self._cluster, self._clock = cluster, clock
        self._paused_until = 0.0
        self.problem = ""  # why an object could not be read a moment ago

    def read(self, refs: Iterable[Ref]) -> list[Json]:
        """Return objects, without those that went, that may not be or cannot be read."""
        if self._clock.monotonic() < self._paused_until:
            return []
        found: list[Json] = []
        cluster = self._cluster.until(self._clock.monotonic() + SECONDS)
        for ref in refs:
            try:
                item = cluster.get(ref)
            except (NotFound, Refused):
                continue
            except ClusterError as error:
                self._paused_until = self._clock.monotonic() + _PAUSE_SECONDS
                self.problem = f"objects cannot be read as they were written: {error}"
                return found
            kind = {"apiVersion": ref.resource.api_version, "kind": ref.resource.kind}
            found.append(item | kind)
        self.problem = ""
        return found


class Reachability:
    """Asks the least that can be asked; `tick` is for a loop, and any thread may read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.problem = ""  # why there was no answer a moment ago

    def tick(self, _now: datetime) -> float:
        """Ask; return the seconds until the next time."""
        try:
            self._cluster.request("GET", _PATH)
            self.problem = ""
        except Unavailable as error:
            self.problem = f"the API server gives no answer: {error}"
            return _QUICK_SECONDS
        except ClusterError:  # no is an answer, too
            self.problem = ""
        return _INTERVAL_SECONDS
