"""Keep an annotation on each VPA that sums up what is done about its pods, and why.

Strategy: an annotation, for the status belongs to the recommender, which writes it as a whole.
It is written only when its words change, over a connection of its own; of several changes that
wait only the latest is written. What was written is believed while the watch may not show it.
Without the right to do so nothing is written for a while.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.model.errors import ClusterError, NotFound, Refused, TooMany, Unavailable
from app.model.vpa import Vpa
from app.ports import VPAS, Cluster, PatchKind, Ref
from app.updater.core.decisions import Decision
from app.updater.core.events import summary
from app.updater.resting import Resting

log = logging.getLogger("updater.summaries")

ANNOTATION: Final = "vpaUpdaterActing"

_PAUSE_SECONDS: Final = 1.0
_WITHOUT_RIGHT: Final = timedelta(minutes=10)
_LONGEST_LAG: Final = timedelta(minutes=2)  # of the watch


@dataclass(frozen=True, slots=True)
class _Words:
    """What is to be written, or was, on a VPA that showed other words."""

    uid: str
    text: str
    before: str | None


class Summaries:
    """Writes the annotation; `offer` may be called from any thread, `tick` is for a loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], _Words] = {}
        self._written: dict[tuple[str, str], tuple[_Words, datetime]] = {}  # lately
        self._until: datetime | None = None  # nothing is written before
        self._resting = Resting()

    def offer(self, vpas: Mapping[str, Vpa], decisions: Iterable[Decision]) -> None:
        """Have written what changed for the VPAs of a namespace."""
        by_vpa: dict[str, list[Decision]] = {name: [] for name in vpas}
        for decision in decisions:
            if decision.vpa in by_vpa:
                by_vpa[decision.vpa].append(decision)
        for name, found in by_vpa.items():
            self._offer(vpas[name], found)

    def _offer(self, vpa: Vpa, decisions: list[Decision]) -> None:
        shown, place = vpa.annotations.get(ANNOTATION), (vpa.namespace, vpa.name)
        text = text_of(decisions)
        with self._lock:
            written, _ = self._written.get(place, (None, None))
            is_lag = written is not None and (written.uid, written.before) == (vpa.uid, shown)
            stands = written.text if written is not None and is_lag else shown
            if text == stands or (stands is None and not decisions):
                self._waiting.pop(place, None)
            else:
                self._waiting[place] = _Words(vpa.uid, text, shown)

    def tick(self, now: datetime) -> float:
        """Write what waits; return the seconds until the next look.

        Raises:
            ClusterError: the API server is in trouble; what waits is written later.
        """
        with self._lock:
            self._written = {
                place: (words, at)
                for place, (words, at) in self._written.items()
                if abs(now - at) < _LONGEST_LAG
            }
            places = list(self._waiting)
        for place in places:
            if self._until is not None and now < self._until:
                break
            with self._lock:
                is_held = self._resting.holds(place[0], now)
                words = None if is_held else self._waiting.pop(place, None)
            if words is None:
                continue
            try:
                self._write(place, words, now)
            except Refused as error:
                log.warning("VPAs not annotated, for want of a right", extra={"error": str(error)})
                self._until = now + _WITHOUT_RIGHT
            except (Unavailable, TooMany) as error:
                with self._lock:
                    self._waiting.setdefault(place, words)
                if not self._resting.begin(place[0], error, now):
                    raise
                log.debug("VPAs not annotated", extra={"vpa": "/".join(place), "error": str(error)})
            except ClusterError as error:
                if not isinstance(error, NotFound):
                    extra = {"vpa": "/".join(place), "error": str(error)}
                    log.warning("VPA not annotated", extra=extra)
        return _PAUSE_SECONDS

    def _write(self, place: tuple[str, str], words: _Words, now: datetime) -> None:
        metadata = {"uid": words.uid, "annotations": {ANNOTATION: words.text}}
        body = {"metadata": metadata}
        self._cluster.patch(Ref(VPAS, *place), body, kind=PatchKind.MERGE)
        with self._lock:
            self._written[place] = words, now


def text_of(decisions: Iterable[Decision]) -> str:
    """Return the words for the pods of one VPA; the same decisions give the same words."""
    found = summary(decisions)
    return f"{found.status}, {found.reason}: {found.message}"
