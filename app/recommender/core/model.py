"""The recommender's model: told what happens, asked what to publish and what to store.

    model = Model(rules)
    model.vpa_seen(ObservedVpa(vpa, selector_of_target, problem), now)
    model.restore(checkpoints, now)          # all there are; or `only` of some VPAs
    model.pod_seen(pod, now, top=topmost)    # kills are found by comparing with the pod before
    model.usage(read_metrics(body), now)
    model.killed(evicted(event, share_resource=True), now)
    for publication in model.tick(now): ...  # and `urgent(now)` in between, after kills
    for checkpoint in model.checkpoints(now, budget=300): ...
    explained([(vpa, model.derivations()[key])], rules)

Strategy: it may be told things in any order and at any time; only `tick`, `urgent` and
`checkpoints` answer. What they answer counts as done unless `not_published`, `not_stored` or
`not_dropped` says otherwise. It keeps no clock, no lock and no file: its owner calls it from one
thread at a time. Upstream's model has the same face, `RecommenderModel`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Protocol

import numpy as np

from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.recommender.core.backfill import Backfill
from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.estimation import VpaDerivation
from app.recommender.core.history import RowCheckpoints
from app.recommender.core.intake import Intake, Quality, SampleTally, TargetChange, UsageComparison
from app.recommender.core.membership import Membership
from app.recommender.core.moments import HOUR, UNSET, nanoseconds
from app.recommender.core.oom import OomKills, OomRecord, new_kills
from app.recommender.core.rules import RecommenderLimit, RecommenderRules
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.status import Publication
from app.recommender.core.status_selector import StatusSelector
from app.recommender.core.targets import ObservedVpa, VpaKey
from app.recommender.core.usage import PastUsage, UsageBatch


class RecommenderModel(Protocol):
    """What a model can be told and asked; `app.recommender.core.model` says how."""

    rules: RecommenderRules
    skipped: SkippedObjects  # what was left out; who tells the model something may add to it

    def vpa_seen(self, observed: ObservedVpa, now: datetime) -> None:
        """Take a VPA as it is now, or as its target has turned out to be."""

    def vpa_gone(self, key: VpaKey, now: datetime) -> None:
        """Let a VPA go."""

    def pod_seen(self, pod: Pod, now: datetime, *, top: ObjectKey | None = None) -> None:
        """Take a pod as it is now; `top` is its topmost controller, None if not known."""

    def pod_gone(self, namespace: str, name: str) -> None:
        """Let a pod go in the next round."""

    def usage(self, batch: UsageBatch, now: datetime | None = None) -> None:
        """Take usage samples; with `now`, none that are dated far from it."""

    def killed(self, records: Iterable[OomRecord], now: datetime) -> None:
        """Take OOM kills."""

    def learn_past(
        self, past: PastUsage, now: datetime, *, only: Collection[VpaKey] | None = None
    ) -> None:
        """Take usage of the past, once for each VPA, for all that there are or for some."""

    def awaited(self) -> list[VpaKey]:
        """Return the VPAs whose checkpoints should be read and given to `restore`."""

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

    def not_published(self, namespace: str, name: str) -> None:
        """Note that a publication failed."""

    def not_stored(self, checkpoint: Checkpoint) -> None:
        """Note that a checkpoint could not be written."""

    def not_dropped(self, namespace: str, name: str) -> None:
        """Note that an abandoned checkpoint could not be deleted."""

    def tick(self, now: datetime, *, expiry_now: datetime | None = None) -> list[Publication]:
        """Return the statuses that are worth a write.

        History expires by the earlier of the two times, so that a clock that is ahead costs none.
        """

    def urgent(self, now: datetime) -> list[Publication]:
        """Return the statuses that kills since the last tick have made worth a write."""

    def checkpoints(self, now: datetime, budget: int | None) -> list[Checkpoint]:
        """Return the most urgent checkpoints, or with no budget all there are to write."""

    def abandoned(self) -> list[tuple[str, str]]:
        """Return, once, namespace and name of checkpoints to delete."""

    def derivations(self) -> Mapping[VpaKey, VpaDerivation]:
        """Return how what stands published came about; later ticks change nothing in it."""

    def overlapping_pods(self) -> dict[str, int]:
        """Return, by namespace, how many pods several VPAs claim by selectors."""

    def quality(self) -> tuple[list[UsageComparison], list[TargetChange]]:
        """Return, once, how usage and targets compared with what stood."""

    def limits_reached(self) -> Mapping[tuple[RecommenderLimit, str], int]:
        """Return, once, how often which limits were reached, and by which VPA or namespace."""

    @property
    def tally(self) -> SampleTally:
        """What became of all samples and kills so far."""

    @property
    def row_count(self) -> int:
        """How many histories are kept."""


class Model:
    """History per VPA and container, and all that follows from it."""

    def __init__(self, rules: RecommenderRules) -> None:
        self.rules = rules
        self.members = Membership(rules)
        self.skipped = self.members.skipped
        gathers = rules.gathers_quality
        self._quality = Quality(self.members.rows, self.members.vpa_table, gathers=gathers)
        self._intake = Intake(self.members, self._quality, rules)
        self._oom_kills = OomKills(self.members, self._intake)
        self._backfill = Backfill(self.members, self._oom_kills, self._intake.tally, rules)
        self._checkpoints = RowCheckpoints(self.members, self._oom_kills, rules)
        self._selector = StatusSelector(self.members, self._quality, rules)
        self._tidied_ns = UNSET

    # --- telling

    def vpa_seen(self, observed: ObservedVpa, now: datetime) -> None:
        """Take a VPA as it is now, or as its target has turned out to be.

        What pods that it did not have tell of kills counts for it too.
        """
        known = self.members.vpas.get(observed.key)
        before = set() if known is None else set(known.pods)
        self.members.see_vpa(observed, nanoseconds(now))
        for key in self.members.vpas[observed.key].pods - before:
            self.killed(new_kills(None, self.members.pods[key].pod), now)

    def vpa_gone(self, key: VpaKey, now: datetime) -> None:
        """Let a VPA go."""
        self.members.lose_vpa(key, nanoseconds(now))

    def pod_seen(self, pod: Pod, now: datetime, *, top: ObjectKey | None = None) -> None:
        """Take a pod as it is now; `top` is its topmost controller, None if not known."""
        if not self.rules.native_sidecars:
            pod = pod.without_sidecars()
        before = self.members.pods.get((pod.namespace, pod.name))
        old = before.pod if before is not None and before.pod.uid == pod.uid else None
        if self.members.see_pod(pod, top, nanoseconds(now)) is None or old is pod:
            return
        if found := new_kills(old, pod):
            self.killed(found, now)

    def pod_gone(self, namespace: str, name: str) -> None:
        """Let a pod go at the next tick; until then kills are still counted for it."""
        self.members.lose_pod((namespace, name))

    def usage(self, batch: UsageBatch, now: datetime | None = None) -> None:
        """Count usage samples; with `now`, those are refused that are dated far from it."""
        now_ns = UNSET if now is None else nanoseconds(now)
        self._intake.take(batch, now_ns, self._oom_kills.amend)

    def killed(self, records: Iterable[OomRecord], now: datetime) -> None:
        """Count OOM kills."""
        self._oom_kills.count(records, nanoseconds(now))

    def learn_past(
        self, past: PastUsage, now: datetime, *, only: Collection[VpaKey] | None = None
    ) -> None:
        """Take usage of the past, once for each VPA, for all that there are or for some."""
        self._backfill.learn(past, nanoseconds(now), only)

    def awaited(self) -> list[VpaKey]:
        """Return the VPAs for which `restore` has not been called yet."""
        return self._checkpoints.awaited()

    def restore(
        self,
        checkpoints: Iterable[Checkpoint],
        now: datetime,
        *,
        only: Collection[VpaKey] | None = None,
        lost: Collection[VpaKey] = (),
    ) -> list[str]:
        """Take in every checkpoint there is, of all VPAs or of some only.

        `lost` are those of which some cannot be read. Returns sentences about others that cannot be
        used.
        """
        problems = self._checkpoints.restore(checkpoints, nanoseconds(now), only)
        self._checkpoints.lose(lost)
        self._oom_kills.count_held(nanoseconds(now))
        return problems

    def not_published(self, namespace: str, name: str) -> None:
        """Note that a publication failed; it will come again."""
        tracked = self.members.vpas.get((namespace, name))
        if tracked is not None:
            tracked.sent = tracked.sent_for = None
            self.members.vpa_table.is_dirty[tracked.line] = True
            self.members.vpa_table.published_ns[tracked.line] = UNSET  # its turn is not over

    def not_stored(self, checkpoint: Checkpoint) -> None:
        """Note that a checkpoint could not be written; it will come again."""
        self._checkpoints.failed(checkpoint)

    def not_dropped(self, namespace: str, name: str) -> None:
        """Note that an abandoned checkpoint could not be deleted; it will come again."""
        self._checkpoints.kept(namespace, name)

    # --- asking

    def tick(self, now: datetime, *, expiry_now: datetime | None = None) -> list[Publication]:
        """Return the statuses that are worth a write.

        History expires by the earlier of the two times, so that a clock that is ahead costs none.
        """
        now_ns = nanoseconds(now)
        self._oom_kills.count_held(now_ns)
        self.members.give_up_broken(now_ns)
        self.members.forget_lost_pods(now_ns)
        self._checkpoints.drop_displaced()
        if not 0 <= now_ns - self._tidied_ns < HOUR:
            self._tidied_ns = now_ns
            with self.skipped.guard("upkeep", "of every hour"):
                self._checkpoints.tidy(min(now_ns, nanoseconds(expiry_now or now)))
        return self._selector.select(now)

    def urgent(self, now: datetime) -> list[Publication]:
        """Return the statuses that kills since the last tick have made worth a write."""
        lines = np.flatnonzero(self.members.vpa_table.is_urgent).tolist()
        return self._selector.select(now, lines) if lines else []

    def checkpoints(self, now: datetime, budget: int | None) -> list[Checkpoint]:
        """Return the most urgent checkpoints, or with no budget all that changed at all."""
        return self._checkpoints.checkpoints(nanoseconds(now), budget)

    def abandoned(self) -> list[tuple[str, str]]:
        """Return, once, namespace and name of checkpoints to delete."""
        return self._checkpoints.abandoned()

    def derivations(self) -> Mapping[VpaKey, VpaDerivation]:
        """Return how what stands published came about; later ticks change nothing in it."""
        return dict(self._selector.derivations)

    def quality(self) -> tuple[list[UsageComparison], list[TargetChange]]:
        """Return, once, how usage and targets compared with what stood; see the rules."""
        return self._quality.take()

    def limits_reached(self) -> Mapping[tuple[RecommenderLimit, str], int]:
        """Return, once, how often which limits were reached, and by which VPA or namespace."""
        found = dict(self.members.reached)
        self.members.reached.clear()
        return found

    @property
    def tally(self) -> SampleTally:
        """What became of all samples and kills so far."""
        return self._intake.tally

    @property
    def row_count(self) -> int:
        """How many histories are kept."""
        return len(self.members.rows)

    def overlapping_pods(self) -> dict[str, int]:
        """Return, by namespace, how many pods several VPAs claim by selectors."""
        return dict(self._selector.overlaps.pods)
