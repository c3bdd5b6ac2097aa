"""What a recommender shows of itself: its numbers, and how what it published came about.

Strategy: whoever owns the model calls `show` after each change; what is shown is swapped as a
whole, so others may look at any time, from any thread.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from app.model.pods import Pod
from app.model.snapshot import Snapshot
from app.recommender.core.estimation import Derivation
from app.recommender.core.model import RecommenderModel
from app.recommender.core.rules import CPU
from app.recommender.core.targets import VpaKey
from app.recommender.metrics import RecommenderMetrics, Source
from app.recommender.quality_metrics import QualityMetrics

log = logging.getLogger("recommender.metrics")

_NOTHING: Final[Mapping[VpaKey, Derivation]] = {}


class Showing:
    """What one process shows, whichever model it has."""

    def __init__(
        self,
        metrics: RecommenderMetrics,
        quality: QualityMetrics,
        snapshot: Callable[[], Snapshot],
    ) -> None:
        self.derivations = _NOTHING
        self._metrics = metrics
        self._quality = quality
        self._snapshot = snapshot
        self._fates: Mapping[str, int] = {}  # of the present model
        self._pods: Mapping[str, Mapping[str, Pod]] = {}  # by namespace, as last looked at

    def begin(self) -> None:
        """Show nothing of a new model yet; what the last one showed is out of date."""
        self.derivations, self._fates = _NOTHING, {}

    def show(self, model: RecommenderModel) -> None:
        """Show what became of everything since the last time; this never stops a round."""
        try:
            self.derivations = model.derivations()
            self._show_fates(model)
            self._show_quality(model)
            self._metrics.overlaps(model.overlapping_pods())
            self._show_looks()
        except Exception:
            log.exception("numbers are not shown")

    def _show_fates(self, model: RecommenderModel) -> None:
        before, self._fates = self._fates, model.tally.counts()
        self._metrics.fates({fate: self._fates[fate] - before.get(fate, 0) for fate in self._fates})

    def _show_quality(self, model: RecommenderModel) -> None:
        comparisons, changes = model.quality()
        for one in comparisons:
            if one.resource == CPU:
                self._quality.cpu(one.mode, one.used, one.recommended)
            else:
                self._quality.memory(one.mode, one.used, one.recommended, is_oom=one.is_oom)
        for change in changes:
            self._quality.changed(
                change.mode, change.resource, change.pods, change.before, change.after
            )

    def _show_looks(self) -> None:
        """Count the containers of pods that came or changed by where their resources stand."""
        found: Counter[Source] = Counter()
        views = self._snapshot().namespaces
        for namespace, view in views.items():
            before = self._pods.get(namespace, {})
            if view.pods is not before:
                news = (pod for name, pod in view.pods.items() if before.get(name) is not pod)
                found.update(_sources(news))
        self._pods = {namespace: view.pods for namespace, view in views.items()}
        for source, times in found.items():
            self._metrics.resources_read(source, times)


def _sources(pods: Iterable[Pod]) -> Iterable[Source]:
    for pod in pods:
        told = {status.name for status in pod.statuses if status.resources is not None}
        for container in pod.containers:
            yield Source.STATUS if container.name in told else Source.SPEC
