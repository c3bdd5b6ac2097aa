"""Tells what was left out because our own code failed at it, each object once."""

from __future__ import annotations

import logging
from typing import Final

from app.recommender.core.skipped import SkippedObjects
from app.recommender.metrics import RecommenderMetrics

log = logging.getLogger("recommender.skipped")

_MOST_AT_ONCE: Final = 5  # with all that is known of the error
_MOST_REMEMBERED: Final = 10_000


class LeftOut:
    """Remembers what was told."""

    def __init__(self, metrics: RecommenderMetrics) -> None:
        self._metrics = metrics
        self._told: dict[tuple[str, str], None] = {}

    def tell(self, skipped: SkippedObjects) -> None:
        """Log and count what was left out since the last time."""
        found = skipped.taken()
        self._metrics.left_out(len(found))
        keys = {(one.kind, one.name): one for one in found}
        new = [one for key, one in keys.items() if key not in self._told]
        for one in new[:_MOST_AT_ONCE]:
            extra = {"kind": one.kind, "object": one.name, "of": len(new)}
            log.error("left out, by a defect of ours", exc_info=one.error, extra=extra)
        if len(self._told) > _MOST_REMEMBERED:
            self._told.clear()
        self._told.update(dict.fromkeys(keys))
