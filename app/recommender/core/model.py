"""The face of every model.

The recommender's model: told what happens, asked what to publish and what to store.

    model = Model(rules)
    model.vpa_seen(ObservedVpa(vpa, selector_of_target, problem), now)
    model.restore(checkpoints, now)          # all there are; or `only` of some VPAs
    model.pod_seen(pod, now, top=topmost)    # kills are found by comparing with the pod before
    model.usage(read_metrics(body).batch, now)
    model.killed(evicted(event, share_resource=True), now)
    for publication in model.tick(now): ...  # and `urgent(now)` in between, after kills
    for checkpoint in model.checkpoints(now, budget=300): ...
    model.explain("default", "web", "app", now)

Strategy: it may be told things in any order and at any time; only `tick`, `urgent` and
`checkpoints` answer. What they answer counts as done unless `not_published`, `not_stored` or
`not_dropped` says otherwise. It keeps no clock, no lock and no file: whoever owns it calls it
from one thread at a time. `models` names the face that it shares with another model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Protocol

import numpy as np

from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.recommender.core.backfill import Recollection
from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.estimation import Derivation
from app.recommender.core.explaining import Explanation, explain
from app.recommender.core.history import History, Upkeep
from app.recommender.core.intake import Intake, Tally
from app.recommender.core.membership import Roster
from app.recommender.core.moments import HOUR, UNSET, nanoseconds
from app.recommender.core.oom import Killings, OomRecord, kills
from app.recommender.core.quality import Change, Comparison, Quality
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.skipped import Mishaps
from app.recommender.core.status import Publication
from app.recommender.core.status_publisher import Announcer
from app.recommender.core.targets import ObservedVpa, VpaKey
from app.recommender.core.usage import PastUsage, UsageBatch


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


class Model:
    """History per VPA and container, and all that follows from it."""

    def __init__(self, rules: RecommenderRules) -> None:
        self.rules = rules
        self.roster = Roster(rules)
        self.mishaps = self.roster.mishaps
        gathers = rules.gathers_quality
        self._quality = Quality(self.roster.rows, self.roster.table, gathers=gathers)
        self._intake = Intake(self.roster, self._quality, rules)
        self._killings = Killings(self.roster, self._intake, rules)
        self._recollection = Recollection(self.roster, self._killings, self._intake.tally, rules)
        self._history = History(self.roster, self._killings, rules)
        self._upkeep = Upkeep(self.roster, self._history, self._killings)
        self._announcer = Announcer(self.roster, self._quality, rules)
        self._tidied_ns = UNSET

    # --- telling

    def vpa_seen(self, observed: ObservedVpa, now: datetime) -> None:
        """Take a VPA as it is now, or as its target has turned out to be.

        What pods that it did not have tell of kills counts for it too.
        """
        known = self.roster.vpas.get(observed.key)
        before = set() if known is None else set(known.pods)
        self.roster.see_vpa(observed, nanoseconds(now))
        for key in self.roster.vpas[observed.key].pods - before:
            self.killed(kills(None, self.roster.pods[key].pod), now)

    def vpa_gone(self, key: VpaKey, now: datetime) -> None:
        """Let a VPA go."""
        self.roster.lose_vpa(key, nanoseconds(now))

    def pod_seen(self, pod: Pod, now: datetime, *, top: ObjectKey | None = None) -> None:
        """Take a pod as it is now; `top` is its topmost controller, None if not known."""
        before = self.roster.pods.get((pod.namespace, pod.name))
        old = before.pod if before is not None and before.pod.uid == pod.uid else None
        if self.roster.see_pod(pod, top, nanoseconds(now)) is None or old is pod:
            return
        if found := kills(old, pod):
            self.killed(found, now)

    def pod_gone(self, namespace: str, name: str) -> None:
        """Let a pod go at the next tick; until then kills are still counted for it."""
        self.roster.lose_pod((namespace, name))

    def usage(self, batch: UsageBatch, now: datetime | None = None) -> None:
        """Count usage samples; with `now`, those are refused that are dated far from it."""
        now_ns = UNSET if now is None else nanoseconds(now)
        self._intake.take(batch, now_ns, self._killings.amend)

    def killed(self, records: Iterable[OomRecord], now: datetime) -> None:
        """Count OOM kills."""
        self._killings.count(records, nanoseconds(now))

    def learn_past(
        self, past: PastUsage, now: datetime, *, only: Collection[VpaKey] | None = None
    ) -> None:
        """Take usage of the past, once for each VPA, for all that there are or for some."""
        self._recollection.learn(past, nanoseconds(now), only)

    def awaited(self) -> list[VpaKey]:
        """Return the VPAs for which `restore` has not been called yet."""
        return self._history.awaited()

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
        problems = self._history.restore(checkpoints, nanoseconds(now), only)
        self._history.lose(lost)
        self._killings.count_held(nanoseconds(now))
        return problems

    def not_published(self, namespace: str, name: str) -> None:
        """Note that a publication failed; it will come again."""
        tracked = self.roster.vpas.get((namespace, name))
        if tracked is not None:
            tracked.sent = tracked.sent_for = None
            self.roster.table.is_dirty[tracked.line] = True

    def not_stored(self, checkpoint: Checkpoint) -> None:
        """Note that a checkpoint could not be written; it will come again."""
        self._history.failed(checkpoint)

    def not_dropped(self, namespace: str, name: str) -> None:
        """Note that an abandoned checkpoint could not be deleted; it will come again."""
        self._history.kept(namespace, name)

    # --- asking

    def tick(self, now: datetime) -> list[Publication]:
        """Return the statuses that are worth a write."""
        now_ns = nanoseconds(now)
        self._killings.count_held(now_ns)
        self.roster.give_up_broken(now_ns)
        self.roster.forget_lost_pods(now_ns)
        if not 0 <= now_ns - self._tidied_ns < HOUR:
            self._tidied_ns = now_ns
            with self.mishaps.guard("upkeep", "of every hour"):
                self._upkeep.tidy(now_ns)
        return self._announcer.announce(now)

    def urgent(self, now: datetime) -> list[Publication]:
        """Return the statuses that kills since the last tick have made worth a write."""
        lines = np.flatnonzero(self.roster.table.is_urgent).tolist()
        return self._announcer.announce(now, lines) if lines else []

    def checkpoints(self, now: datetime, budget: int | None) -> list[Checkpoint]:
        """Return the most urgent checkpoints, or with no budget all that changed at all."""
        history, now_ns = self._history, nanoseconds(now)
        due = history.all_changed(now_ns) if budget is None else history.due(now_ns)[:budget]
        return history.store(due, now_ns)

    def abandoned(self) -> list[tuple[str, str]]:
        """Return, once, namespace and name of checkpoints to delete."""
        return self._history.abandoned()

    def explain(
        self, namespace: str, vpa: str, container: str, now: datetime
    ) -> Explanation | None:
        """Derive a recommendation step by step, None for a container without history."""
        tracked = self.roster.vpas.get((namespace, vpa))
        if tracked is None or container not in tracked.rows:
            return None
        rows = list(tracked.rows.values())
        return explain(self.roster.rows, rows, container, now, self.rules)

    def derivations(self) -> Mapping[VpaKey, Derivation]:
        """Return how what stands published came about; later ticks change nothing in it."""
        return dict(self._announcer.derivations)

    def quality(self) -> tuple[list[Comparison], list[Change]]:
        """Return, once, how usage and targets compared with what stood; see the rules."""
        return self._quality.take()

    @property
    def tally(self) -> Tally:
        """What became of all samples and kills so far."""
        return self._intake.tally

    @property
    def row_count(self) -> int:
        """How many histories are kept."""
        return len(self.roster.rows)

    def overlapping_pods(self) -> dict[str, int]:
        """Return, by namespace, how many pods several VPAs claim by selectors."""
        return dict(self._announcer.overlaps.pods)
