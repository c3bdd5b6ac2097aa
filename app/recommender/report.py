"""What a recommender reports: numbers, derivations, VPAs without recommendation, skipped objects.

Strategy: the owner of the model calls `show` after each change; what is shown is swapped as a
whole, so others may look at any time, from any thread.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from app.model.pods import Pod
from app.model.snapshot import Snapshot
from app.model.vpa import Vpa
from app.ports import Clock, LimitReached
from app.recommender.core.estimation import VpaDerivation
from app.recommender.core.model import RecommenderModel
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.targets import VpaKey
from app.recommender.metrics import (
    QualityMetrics,
    RecommenderMetrics,
    ResourcesSource,
    state_labels,
)

log = logging.getLogger("recommender.metrics")
rounds_log = logging.getLogger("recommender.rounds")
vpas_log = logging.getLogger("recommender.vpas")
skipped_log = logging.getLogger("recommender.skipped")

_NOTHING: Final[Mapping[VpaKey, VpaDerivation]] = {}
_LONG_SECONDS: Final = 1800.0  # without a recommendation
_MOST_NAMED: Final = 10
_MOST_AT_ONCE: Final = 5  # skipped objects, with all that is known of the error
_MOST_REMEMBERED: Final = 10_000


class RoundReport(Protocol):
    """What is reported of a model and its rounds."""

    def show(self, model: RecommenderModel) -> None:
        """Show what became of everything since the last time; this never stops a round."""

    def count(self, model: RecommenderModel, vpas: Iterable[Vpa]) -> None:
        """Show, at the end of a round, how many VPAs there are of each state."""

    def refuse(self, problem: str) -> None:
        """Report a checkpoint that cannot be used."""


class RecommenderReport:
    """What one process shows, whichever model it has."""

    def __init__(
        self,
        metrics: RecommenderMetrics,
        quality: QualityMetrics,
        snapshot: Callable[[], Snapshot],
        reached: LimitReached,
        clock: Clock,
    ) -> None:
        self.derivations = _NOTHING
        self._metrics = metrics
        self._quality = quality
        self._snapshot = snapshot
        self._reached = reached
        self._clock = clock
        self._unrecommended = UnrecommendedVpas(clock)
        self._fates: Mapping[str, int] = {}  # of the present model
        self._pods: Mapping[str, Mapping[str, Pod]] = {}  # by namespace, as last looked at

    def begin(self) -> None:
        """Show nothing of a new model yet; what the last one showed is out of date."""
        self.derivations, self._fates = _NOTHING, {}
        self._unrecommended = UnrecommendedVpas(self._clock)

    def show(self, model: RecommenderModel) -> None:
        """Show what became of everything since the last time; this never stops a round."""
        try:
            self.derivations = model.derivations()
            self._show_fates(model)
            self._show_quality(model)
            self._metrics.overlaps(model.overlapping_pods())
            self._show_looks()
        except Exception:
            log.exception("metrics are not exposed")

    def count(self, model: RecommenderModel, vpas: Iterable[Vpa]) -> None:
        """Show how many VPAs there are of each state, and which have had none for long."""
        self._metrics.aggregates(model.row_count)
        for (limit, whose), times in model.limits_reached().items():
            self._reached(limit, times, whose=whose)
        found, states = list(vpas), list[tuple[str, ...]]()
        for vpa in found:
            with model.skipped.guard("VPA", vpa.namespace, vpa.name):
                states.append(state_labels(vpa))
        self._metrics.vpas(states)
        self._unrecommended.look(found)

    def refuse(self, problem: str) -> None:
        """Log and count a checkpoint that cannot be used."""
        rounds_log.warning("checkpoint not used", extra={"problem": problem})
        self._metrics.checkpoint_refused()

    def _show_fates(self, model: RecommenderModel) -> None:
        before, self._fates = self._fates, model.tally.counts()
        self._metrics.fates({fate: self._fates[fate] - before.get(fate, 0) for fate in self._fates})

    def _show_quality(self, model: RecommenderModel) -> None:
        comparisons, changes = model.quality()
        for one in comparisons:
            self._quality.compare(
                one.mode, one.resource, one.used, one.recommended, is_oom=one.is_oom
            )
        for change in changes:
            self._quality.changed(
                change.mode, change.resource, change.pods, change.before, change.after
            )

    def _show_looks(self) -> None:
        """Count the containers of pods that came or changed by where their resources stand."""
        found: Counter[ResourcesSource] = Counter()
        views = self._snapshot().namespaces
        for namespace, view in views.items():
            before = self._pods.get(namespace, {})
            if view.pods is not before:
                news = (pod for name, pod in view.pods.items() if before.get(name) is not pod)
                found.update(_sources(news))
        self._pods = {namespace: view.pods for namespace, view in views.items()}
        for source, times in found.items():
            self._metrics.resources_read(source, times)


def _sources(pods: Iterable[Pod]) -> Iterable[ResourcesSource]:
    for pod in pods:
        reported = {status.name for status in pod.statuses if status.resources is not None}
        for container in pod.containers:
            yield ResourcesSource.STATUS if container.name in reported else ResourcesSource.SPEC


class UnrecommendedVpas:
    """Remembers since when VPAs have had none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[VpaKey, float] = {}  # or since that was last logged

    def look(self, vpas: Iterable[Vpa]) -> None:
        """Log in one line who has had none for half an hour, and again after another one."""
        now = self._clock.monotonic()
        without = ((one.namespace, one.name) for one in vpas if not one.recommendation)
        self._since = {key: self._since.get(key, now) for key in without}
        late = [key for key, since in self._since.items() if now - since > _LONG_SECONDS]
        if late:
            self._since.update(dict.fromkeys(late, now))
            names = ["/".join(key) for key in sorted(late)[:_MOST_NAMED]]
            vpas_log.info(
                "VPAs without a recommendation", extra={"count": len(late), "vpas": names}
            )


class SkippedReport:
    """Logs skipped objects, each of them once."""

    def __init__(self, metrics: RecommenderMetrics) -> None:
        self._metrics = metrics
        self._logged: dict[tuple[str, str], None] = {}

    def log(self, skipped: SkippedObjects) -> None:
        """Log and count what was left out since the last time."""
        found = skipped.taken()
        self._metrics.left_out(len(found))
        keys = {(one.kind, one.name): one for one in found}
        new = [one for key, one in keys.items() if key not in self._logged]
        for one in new[:_MOST_AT_ONCE]:
            extra = {"kind": one.kind, "object": one.name, "of": len(new)}
            skipped_log.error("skipped because of a bug", exc_info=one.error, extra=extra)
        if len(self._logged) > _MOST_REMEMBERED:
            self._logged.clear()
        self._logged.update(dict.fromkeys(keys))
