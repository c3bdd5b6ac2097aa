"""What the page has seen of Events about pods; a cluster forgets them after an hour."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from app.diagnosis.core.pod_events import PodEvent, read_event
from app.ports import Delta

_MOST: Final = 2000
_KEPT: Final = timedelta(days=14)  # as far back as charts go


class SeenEvents:
    """The latest events; one thread notes, any may ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._happened: dict[tuple[str, str], PodEvent] = {}  # by namespace and name

    def latest(self) -> Sequence[PodEvent]:
        """Return what happened to pods, the latest first."""
        with self._lock:
            return sorted(self._happened.values(), key=lambda one: one.at, reverse=True)

    def note(self, changes: Sequence[Delta], now: datetime) -> None:
        """Note what is new or changed; what the cluster has forgotten stays."""
        with self._lock:
            for one in changes:
                found = read_event(one.object) if one.object is not None else None
                if found is not None and found.pod:  # and not about its VPA
                    self._happened[one.namespace, one.name] = found
            kept = [item for item in self._happened.items() if item[1].at >= now - _KEPT]
            if len(kept) < len(self._happened) or len(kept) > _MOST:
                kept.sort(key=lambda item: item[1].at)
                self._happened = dict(kept[-_MOST:])
