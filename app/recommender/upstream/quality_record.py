"""How samples compare with what the loop before recommended, and how far that goes in each loop.

Strategy: what stands is known by aggregate. At the beginning of a loop the aggregates of all VPAs
are noted with what was recommended last, so that a VPA that is new counts as one without.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from app.model.update_modes import mode_rules
from app.recommender.core.histograms import Floats
from app.recommender.core.intake import PER_UNIT, TargetChange, UsageComparison
from app.recommender.core.rules import CPU, MEMORY
from app.recommender.core.targets import VpaKey
from app.recommender.upstream.cluster_state import AggregateKey, UpstreamVpa

Targets = tuple[int, int]  # millicores and bytes, 0 where nothing was recommended


class _Standing(NamedTuple):
    """Whose an aggregate is, and what was recommended for it."""

    mode: str
    pods: int
    targets: Targets


class QualityRecord:
    """Gathers comparisons until they are asked for."""

    def __init__(self) -> None:
        self._standing: dict[AggregateKey, _Standing] = {}
        self._samples: defaultdict[tuple[str, str, bool], list[tuple[int, int]]]
        self._changes: defaultdict[tuple[str, str, int], list[tuple[int, int]]]
        self._samples, self._changes = defaultdict(list), defaultdict(list)

    def begin(self, vpas: Iterable[UpstreamVpa], pods: Mapping[VpaKey, int]) -> None:
        """Begin a loop with the VPAs there are now, and how many pods each selects."""
        before, self._standing = self._standing, {}
        for vpa in vpas:
            policy = vpa.observed.vpa.update_policy
            mode = (policy.mode or "") if policy is not None else ""
            for key in vpa.links:
                targets = before[key].targets if key in before else (0, 0)
                self._standing[key] = _Standing(mode, pods[vpa.observed.key], targets)

    def note(self, key: AggregateKey, resource: str, used: int, *, is_oom: bool = False) -> None:
        """Compare a sample that counted."""
        found = self._standing.get(key)
        if found is not None and mode_rules(found.mode).on_creation:
            recommended = found.targets[resource == MEMORY]
            self._samples[found.mode, resource, is_oom].append((used, recommended))

    def recommend(self, key: AggregateKey, targets: Targets) -> None:
        """Note what is recommended now."""
        found = self._standing.get(key)
        if found is None:
            return
        for resource, old, new in zip((CPU, MEMORY), found.targets, targets, strict=True):
            if old and new:
                self._changes[found.mode, resource, found.pods].append((old, new))
        self._standing[key] = found._replace(targets=targets)

    def take(self) -> tuple[list[UsageComparison], list[TargetChange]]:
        """Return everything since the last time."""
        comparisons = [
            UsageComparison(mode, resource, is_oom, *_columns(pairs, resource))
            for (mode, resource, is_oom), pairs in self._samples.items()
        ]
        changes = [
            TargetChange(mode, resource, pods, *_columns(pairs, resource))
            for (mode, resource, pods), pairs in self._changes.items()
        ]
        self._samples.clear()
        self._changes.clear()
        return comparisons, changes


def _columns(pairs: list[tuple[int, int]], resource: str) -> tuple[Floats, Floats]:
    first, second = np.array(pairs, dtype=np.float64).T / PER_UNIT[resource]
    return first, second
