"""The past as upstream reads it: each query once and whole; one bad series spoils everything.

Strategy: amounts that cannot be are bent until they can, but for what is not a number. What
fails is not asked again, and the past of VPAs that come later is never read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import numpy as np

from app.model.fields import Object
from app.recommender.core.histograms import Amounts
from app.recommender.core.promql import Numbers, PastRules, Series, answer, bent, series_of
from app.recommender.core.reading import Reading


class ReadingOnce(Reading):
    """The past of all containers, or of those in one namespace, up to a moment."""

    is_repeated = False
    live_age = timedelta(0)

    def __init__(self, rules: PastRules, end: datetime, namespace: str = "") -> None:
        super().__init__(rules, end, namespace)
        self._piece = self._most = self._columns

    def was_refused(self, *, is_too_much: bool) -> bool:
        """Know no other way."""
        del is_too_much
        return False

    def _points(self, count: int) -> int:
        del count
        return self._columns

    def _labels_query(self) -> str:
        return self._rules.pod_labels_metric

    def _series(self, body: Object) -> Iterator[Series]:
        kind, items = answer(body, ("matrix",), self.flaws)
        return (series_of(item, kind, index) for index, item in enumerate(items))

    def _amounts(self, values: Numbers, scale: float) -> Amounts:
        return bent(values, scale, ~np.isnan(values))

    @contextmanager
    def _doubt(self) -> Iterator[None]:
        yield
