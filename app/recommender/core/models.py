"""The face of every model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Protocol

from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.derivations import Derivation
from app.recommender.core.explaining import Explanation
from app.recommender.core.intake import Tally
from app.recommender.core.mishaps import Mishaps
from app.recommender.core.observations import ObservedVpa, UsageBatch, VpaKey
from app.recommender.core.oom import OomRecord
from app.recommender.core.past import PastUsage
from app.recommender.core.publications import Publication
from app.recommender.core.quality import Change, Comparison
from app.recommender.core.rules import RecommenderRules


class RecommenderModel(Protocol):
    """What a model can be told and asked; `app.recommender.core.model` says how."""

    rules: RecommenderRules
    mishaps: Mishaps  # what was left out; who tells the model something may add to it

    def vpa_seen(self, observed: ObservedVpa, now: datetime) -> None:
        """Take a VPA as it is now, or as its target has turned out to be."""
        ...

    def vpa_gone(self, key: VpaKey, now: datetime) -> None:
        """Let a VPA go."""
        ...

    def pod_seen(self, pod: Pod, now: datetime, *, top: ObjectKey | None = None) -> None:
        """Take a pod as it is now; `top` is its topmost controller, None if not known."""
        ...

    def pod_gone(self, namespace: str, name: str) -> None:
        """Let a pod go at the next tick."""
        ...

    def usage(self, batch: UsageBatch, now: datetime | None = None) -> None:
        """Take usage samples; with `now`, none that are dated far from it."""
        ...

    def killed(self, records: Iterable[OomRecord], now: datetime) -> None:
        """Take OOM kills."""
        ...

    def learn_past(
        self, past: PastUsage, now: datetime, *, only: Collection[VpaKey] | None = None
    ) -> None:
        """Take usage of the past, once for each VPA, for all that there are or for some."""
        ...

    def awaited(self) -> list[VpaKey]:
        """Return the VPAs whose checkpoints should be read and given to `restore`."""
        ...

    def restore(
        self,
        checkpoints: Iterable[Checkpoint],
        now: datetime,
        *,
        only: Collection[VpaKey] | None = None,
        lost: Collection[VpaKey] = (),
    ) -> list[str]:
        """Take in every checkpoint there is; return sentences about those that cannot be.

        `lost` are the VPAs of which some could not even be read.
        """
        ...

    def not_published(self, namespace: str, name: str) -> None:
        """Note that a publication failed."""
        ...

    def not_stored(self, checkpoint: Checkpoint) -> None:
        """Note that a checkpoint could not be written."""
        ...

    def not_dropped(self, namespace: str, name: str) -> None:
        """Note that an abandoned checkpoint could not be deleted."""
        ...

    def tick(self, now: datetime) -> list[Publication]:
        """Return the statuses that are worth a write."""
        ...

    def urgent(self, now: datetime) -> list[Publication]:
        """Return the statuses that kills since the last tick have made worth a write."""
        ...

    def checkpoints(self, now: datetime, budget: int | None) -> list[Checkpoint]:
        """Return the most urgent checkpoints, or with no budget all there are to write."""
        ...

    def abandoned(self) -> list[tuple[str, str]]:
        """Return, once, namespace and name of checkpoints to delete."""
        ...

    def explain(
        self, namespace: str, vpa: str, container: str, now: datetime
    ) -> Explanation | None:
        """Derive a recommendation step by step, None for a container without history."""
        ...

    def derivations(self) -> Mapping[VpaKey, Derivation]:
        """Return how what stands published came about; later ticks change nothing in it."""
        ...

    def overlapping_pods(self) -> dict[str, int]:
        """Return, by namespace, how many pods several VPAs claim by selectors."""
        ...

    def quality(self) -> tuple[list[Comparison], list[Change]]:
        """Return, once, how usage and targets compared with what stood."""
        ...

    @property
    def tally(self) -> Tally:
        """What became of all samples and kills so far."""
        ...

    @property
    def row_count(self) -> int:
        """How many histories are kept."""
        ...
