"""What is compared: settings of a recommender, each with an update mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.backtest.core.recorded_fleet import RecordedWorkload
from app.model.limits import NO_LIMITS, NamespaceLimits
from app.model.update_modes import UpdateMode
from app.model.vpa import Vpa
from app.recommender.core.rules import RecommenderRules

AS_IT_WAS = "as it was"  # the name of what was requested in the recording


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to recommend and to update."""

    name: str
    rules: RecommenderRules
    mode: UpdateMode = UpdateMode.IN_PLACE_OR_RECREATE
    flags: tuple[str, ...] = ()  # that ask for it, beside those of the present


@dataclass(frozen=True, slots=True)
class Given:
    """What objects ask for; a workload without a VPA has one that asks for nothing."""

    vpas: Mapping[RecordedWorkload, Vpa] = field(default_factory=dict)
    limits: Mapping[str, NamespaceLimits] = field(default_factory=dict)  # by namespace

    def vpa(self, workload: RecordedWorkload) -> Vpa:
        """Return the VPA of a workload."""
        return self.vpas.get(workload) or Vpa(
            namespace=workload.namespace,
            name=workload.name,
            uid="",
            generation=0,
            created=None,
            deleted=None,
            annotations={},
            target=None,
            selector=None,
            update_policy=None,
            policies=None,
            startup_boost=None,
            recommenders=(),
            recommendation=None,
            conditions=(),
            observed_generation=None,
        )

    def limits_of(self, namespace: str) -> NamespaceLimits:
        """Return what the LimitRanges of a namespace ask for."""
        return self.limits.get(namespace, NO_LIMITS)
