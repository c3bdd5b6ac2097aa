"""Feeds the recommender's model with usage, of now and of the past.

Strategy: what was read counts even if the rest cannot be. The past comes when it is known, for
each VPA once and as soon as its target is known; until then everything goes on without it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from app.model.errors import BadObject, ClusterError
from app.model.fields import Object
from app.recommender.backfill import Remembering
from app.recommender.cluster_feed import Lookout
from app.recommender.core.model import RecommenderModel
from app.recommender.core.targets import VpaKey
from app.recommender.core.usage import UsageLimits, read_metrics
from app.recommender.metrics import RecommenderMetrics

log = logging.getLogger("recommender.usage")

_MOST_TOLD: Final = 5  # sentences about one list


class Sources:
    """What feeds one model."""

    def __init__(
        self,
        model: RecommenderModel,
        lookout: Lookout,
        metrics: RecommenderMetrics,
        past: Remembering | None,
        limits: UsageLimits,
    ) -> None:
        self._model = model
        self._lookout = lookout
        self._metrics = metrics
        self._past = past
        self._missing: set[VpaKey] = set()  # what they used in the past is not known yet
        self._limits = limits

    def miss(self, vpas: Iterable[VpaKey]) -> None:
        """Note that some VPAs have come."""
        self._missing.update(vpas)

    def recall(self, now: datetime) -> None:
        """Learn what was found of the past."""
        known = self._lookout.vpas
        self._missing &= known.keys()
        if self._past is None:
            return
        ready = {key for key in self._missing if known[key].selector is not None}
        self._past.ask(ready, now)
        for found in self._past.taken():
            only = None if found.only is None else ready & found.only
            self._missing -= ready if only is None else only
            with self._model.skipped.guard("past", "of all pods"):
                self._model.learn_past(found.usage, now, only=only)

    def read_usage(self, pages: Iterable[Sequence[Object]], now: datetime) -> int:
        """Take usage page by page; return how many containers were told of."""
        count, problems, error = 0, list[str](), ""
        skipped = self._model.skipped
        try:
            for page in pages:
                found = read_metrics({"items": page}, self._limits, skipped=skipped)
                self._model.usage(found.batch, now)
                count += len(found.batch)
                problems += found.problems
        except (ClusterError, BadObject) as caught:
            error = str(caught)
            log.warning("usage not read", extra={"error": error, "samples": count})
        self._metrics.usage_answer("default-metrics-client", is_error=bool(error))
        _tell("usage cannot be counted", problems)
        return count


def _tell(message: str, problems: Sequence[str]) -> None:
    """Log some sentences of a list, and how many there are."""
    for problem in problems[:_MOST_TOLD]:
        log.warning(message, extra={"problem": problem, "problems": len(problems)})
