"""The model with upstream's face, numbers and timing.

Strategy: what is told between two ticks waits for the next one, which then goes through the
steps of upstream's loop in their order: VPAs, pods, samples, kills, pods that went, statuses.
Checkpoints come after that when they are asked for, and aggregates are collected before the next
loop begins, which is the same moment. Views of all VPAs are laid into rows, and from there on
everything is computed by the same arrays as for our own model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import numpy as np

from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.vpa import ContainerRecommendation
from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.estimation import (
    Derivations,
    Estimation,
    VpaDerivation,
    estimate_rows,
    rows_in_use,
)
from app.recommender.core.intake import SampleTally, TargetChange, UsageComparison
from app.recommender.core.moments import moment, nanoseconds
from app.recommender.core.oom import OomRecord
from app.recommender.core.rules import (
    CPU,
    MEMORY,
    RecommenderLimit,
    RecommenderRules,
    container_rules,
)
from app.recommender.core.shaping import shape_rows
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.status import (
    ConditionInputs,
    Difference,
    Publication,
    VpaStatus,
    conditions_for,
    difference,
    fetches_history,
    problem_of,
    publication,
    status_of,
)
from app.recommender.core.tables import MEMORY_OFFSET, TARGET, RowTable
from app.recommender.core.targets import ObservedVpa, VpaKey
from app.recommender.core.usage import ABSENT, PastUsage, UsageBatch
from app.recommender.upstream.cluster_state import PodKey, UpstreamCluster, UpstreamVpa
from app.recommender.upstream.containers import Aggregate, kills_by_transition
from app.recommender.upstream.quality_record import QualityRecord

_PENDING = "Pending"


class UpstreamModel:
    """History per label set, and all that follows from it."""

    def __init__(self, rules: RecommenderRules) -> None:
        self.rules = rules
        self.skipped = SkippedObjects()
        self._tally = SampleTally()
        self._cluster = UpstreamCluster(rules)
        self._observed: dict[VpaKey, ObservedVpa] = {}
        self._pods: dict[PodKey, Pod] = {}
        self._usage: list[UsageBatch] = []
        self._kills: list[OomRecord] = []
        self._has_started = False
        self._has_looped = False
        self._table = RowTable(rules.aggregation)
        self._rows: dict[VpaKey, dict[str, int]] = {}  # of the last loop
        self._estimation: Estimation | None = None  # of these rows
        self._looped_at = moment(0)
        self._judge = QualityRecord() if rules.gathers_quality else None

    # --- telling; moments do not matter before the next loop

    def vpa_seen(self, observed: ObservedVpa, now: datetime) -> None:
        """Take a VPA as it is now, or as its target has turned out to be."""
        del now
        self._observed[observed.key] = observed

    def vpa_gone(self, key: VpaKey, now: datetime) -> None:
        """Let a VPA go."""
        del now
        self._observed.pop(key, None)

    def pod_seen(self, pod: Pod, now: datetime, *, top: ObjectKey | None = None) -> None:
        """Take a pod as it is now; labels alone decide whose it is."""
        del now, top
        pod = pod.without_sidecars()
        key = (pod.namespace, pod.name)
        before = self._pods.get(key)
        if pod.phase == _PENDING:
            self._pods.pop(key, None)
            return
        self._pods[key] = pod
        if before is not pod:
            self._kills += kills_by_transition(before, pod)

    def pod_gone(self, namespace: str, name: str) -> None:
        """Let a pod go."""
        self._pods.pop((namespace, name), None)

    def usage(self, batch: UsageBatch, now: datetime | None = None) -> None:
        """Take usage samples for the next loop."""
        del now
        self._usage.append(batch)

    def killed(self, records: Iterable[OomRecord], now: datetime) -> None:
        """Take OOM kills for the next loop."""
        del now
        self._kills += records

    def learn_past(
        self, past: PastUsage, now: datetime, *, only: Collection[VpaKey] | None = None
    ) -> None:
        """Take history in at once, before the first loop; the pods vanish with that."""
        del only
        self._cluster.now_ns = nanoseconds(now)
        self._cluster.recall_pods(past)
        times = past.times.tolist()
        for line, key in enumerate(past.containers):
            container = self._cluster.pods[key[:2]].containers[key[2]]
            for time_ns, cpu, memory in zip(
                times,
                past.cpu_millicores[line].tolist(),
                past.memory_bytes[line].tolist(),
                strict=True,
            ):
                self._tally.cpu += container.use_cpu(cpu, time_ns)
                self._tally.memory += container.use_memory(memory, time_ns)

    def awaited(self) -> list[VpaKey]:
        """Return the VPAs whose checkpoints are wanted: all at start, later none."""
        return [] if self._has_started else list(self._observed)

    def restore(
        self,
        checkpoints: Iterable[Checkpoint],
        now: datetime,
        *,
        only: Collection[VpaKey] | None = None,
        lost: Collection[VpaKey] = (),
    ) -> list[str]:
        """Take in every checkpoint there is, once, at start."""
        del only, lost
        if self._has_started:
            return []
        self._has_started = True
        self._cluster.now_ns = nanoseconds(now)
        self._cluster.load_vpas(self._observed.values())
        for found in checkpoints:
            vpa = self._cluster.vpas.get(found.vpa_key)
            if vpa is not None:
                state = Aggregate(self.rules.aggregation, nanoseconds(now))
                state.load(found)
                vpa.initial[found.container] = state
        return []

    def not_published(self, namespace: str, name: str) -> None:
        """Note that a publication failed; the next loop compares with what stands anyway."""

    def not_stored(self, checkpoint: Checkpoint) -> None:
        """Note that a checkpoint could not be written; its VPA comes first again."""
        vpa = self._cluster.vpas.get(checkpoint.vpa_key)
        if vpa is not None:
            vpa.stored_ns = vpa.stored_before_ns

    def not_dropped(self, namespace: str, name: str) -> None:
        """Do nothing: none is ever abandoned."""

    # --- asking

    def tick(self, now: datetime, *, expiry_now: datetime | None = None) -> list[Publication]:
        """Go through one loop, and return the statuses that differ from what stands."""
        del expiry_now  # no checkpoint is deleted
        cluster = self._cluster
        if self._has_looped:
            cluster.collect()
        self._has_started = self._has_looped = True
        cluster.now_ns = nanoseconds(now)
        cluster.load_vpas(self._observed.values())
        gone = cluster.load_pods(self._pods)
        if self._judge is not None:
            self._judge.begin(cluster.vpas.values(), cluster.matching_pods())
        batches, self._usage = self._usage, []
        for batch in batches:
            self._take(batch)
        records, self._kills = self._kills, []
        for record in records:
            self._count(record)
        cluster.forget_pods(gone)
        return self._publications(now)

    def urgent(self, now: datetime) -> list[Publication]:
        """Return nothing: kills wait for the next loop."""
        del now
        return []

    def checkpoints(self, now: datetime, budget: int | None) -> list[Checkpoint]:
        """Return all checkpoints, those of the VPAs that were stored longest ago first."""
        del budget  # time alone limits how many are written
        cluster, now_ns = self._cluster, nanoseconds(now)
        cluster.now_ns = now_ns
        running, found = cluster.running(), list[Checkpoint]()
        for vpa in sorted(cluster.vpas.values(), key=lambda vpa: vpa.stored_ns):
            if fetches_history(vpa.observed.vpa):
                continue
            view = cluster.view_to_store(vpa, running)
            found += [_checkpoint(vpa, name, state, now_ns) for name, state in view.items()]
            vpa.stored_before_ns, vpa.stored_ns = vpa.stored_ns, now_ns
        return found

    def limits_reached(self) -> Mapping[tuple[RecommenderLimit, str], int]:
        """Return nothing: as upstream, it follows all containers."""
        return {}

    def abandoned(self) -> list[tuple[str, str]]:
        """Return nothing: checkpoints live as long as their VPA."""
        return []

    def derivations(self) -> Mapping[VpaKey, VpaDerivation]:
        """Return how the recommendations of the last loop came about."""
        if self._estimation is None:
            return {}
        every = np.ones(len(self._estimation.rows), dtype=np.bool_)
        found = Derivations(self._table, self._estimation, every, self._looped_at)
        return {key: found.of(line) for line, key in enumerate(self._rows)}

    def quality(self) -> tuple[list[UsageComparison], list[TargetChange]]:
        """Return, once, how usage and targets compared with what stood; see the rules."""
        return self._judge.take() if self._judge is not None else ([], [])

    @property
    def tally(self) -> SampleTally:
        """What became of all samples and kills so far."""
        return self._tally

    @property
    def row_count(self) -> int:
        """How many aggregates are kept."""
        return len(self._cluster.aggregates)

    def overlapping_pods(self) -> dict[str, int]:
        """Return nothing: upstream does not look."""
        return {}

    # --- inside

    def _take(self, batch: UsageBatch) -> None:
        """Count samples one by one; what is not told counts as nothing used."""
        tally = self._tally
        tally.unreadable += batch.unreadable
        amounts = np.stack([batch.cpu_millicores, batch.memory_bytes, batch.times], axis=1)
        amounts[:, :2][amounts[:, :2] == ABSENT] = 0
        for name, (cpu, memory, time_ns) in zip(batch.containers, amounts.tolist(), strict=True):
            container = self._cluster.container(*name)
            if container is None:
                tally.unknown += 1
                continue
            counted = container.use_cpu(cpu, time_ns)
            tally.cpu, tally.cpu_repeated = tally.cpu + counted, tally.cpu_repeated + (not counted)
            if counted:
                self._compare(name, CPU, cpu)
            counted = container.use_memory(memory, time_ns)
            tally.memory, tally.memory_late = (
                tally.memory + counted,
                tally.memory_late + (not counted),
            )
            if counted:
                self._compare(name, MEMORY, memory)

    def _count(self, record: OomRecord) -> None:
        pod = self._cluster.pods.get((record.namespace, record.pod))
        container = pod.containers.get(record.container) if pod is not None else None
        if container is None:
            self._tally.kills_unknown += 1
            return
        needed = container.needed(record.memory_bytes)
        if container.kill(record.memory_bytes, record.time_ns):
            self._tally.kills += 1
            self._compare(
                (record.namespace, record.pod, record.container), MEMORY, needed, is_oom=True
            )
        else:
            self._tally.kills_late += 1

    def _compare(
        self, container: tuple[str, str, str], resource: str, used: int, *, is_oom: bool = False
    ) -> None:
        if self._judge is not None:
            pod = self._cluster.pods[container[:2]]
            self._judge.note(pod.key(container[2]), resource, used, is_oom=is_oom)

    def _publications(self, now: datetime) -> list[Publication]:
        lines = self._lay_rows()
        table = self._table
        estimation = estimate_rows(table, rows_in_use(table), nanoseconds(now), self.rules)
        self._estimation, self._looped_at = estimation, now
        self._note_targets(estimation)
        every = np.ones(len(estimation.rows), dtype=np.bool_)
        entries = shape_rows(table, estimation, every, self.rules.format)
        pods = self._cluster.matching_pods()
        found = []
        for line, (key, vpa) in enumerate(lines):
            stands = status_of(vpa.observed.vpa)
            new = _status(vpa, entries.get(line, []), now, matches_pods=pods[key] > 0)
            moved = difference(new, stands, 0.0)
            if moved is not Difference.NONE:
                found.append(publication(vpa.observed, new, stands, moved, killed=False))
        return found

    def _note_targets(self, estimation: Estimation) -> None:
        if self._judge is None:
            return
        amounts = estimation.amounts[:, (TARGET, MEMORY_OFFSET + TARGET)].tolist()
        targets = dict(zip(estimation.rows.tolist(), amounts, strict=True))
        for key, vpa in self._cluster.vpas.items():
            for link in vpa.links:
                self._judge.recommend(link, tuple(targets[self._rows[key][link[2]]]))

    def _lay_rows(self) -> list[tuple[VpaKey, UpstreamVpa]]:
        """Lay the views of all VPAs into rows, the lines of which are in the order returned."""
        self._table = table = RowTable(self.rules.aggregation)
        self._rows = {}
        lines = list(self._cluster.vpas.items())
        for line, (key, vpa) in enumerate(lines):
            rows = self._rows[key] = {}
            for container, state in self._cluster.view(vpa).items():
                rows[container] = row = table.start(container, state.created_ns)
                rules = container_rules(vpa.observed.vpa, container, self.rules)
                table.follow(row, line, rules)
                table.cpu.put(row, state.cpu.weights, state.cpu.total, state.cpu.reference_ns)
                table.memory.put(
                    row, state.memory.weights, state.memory.total, state.memory.reference_ns
                )
                table.first[row], table.last[row] = state.first_ns, state.last_ns
                table.counts[row] = state.count
        return lines


def _status(
    vpa: UpstreamVpa, entries: list[ContainerRecommendation], now: datetime, *, matches_pods: bool
) -> VpaStatus:
    found = vpa.observed.vpa
    standing = ConditionInputs(
        is_provided=bool(entries), matches_pods=matches_pods, problem=problem_of(vpa.observed)
    )
    conditions = conditions_for(found.conditions, standing, now)
    return VpaStatus(tuple(entries), conditions, found.generation or None)


def _checkpoint(vpa: UpstreamVpa, container: str, state: Aggregate, now_ns: int) -> Checkpoint:
    namespace, name = vpa.observed.key
    return Checkpoint(
        namespace=namespace,
        name=f"{name}-{container}",
        vpa=name,
        container=container,
        cpu=state.cpu.store(),
        memory=state.memory.store(),
        first_ns=state.first_ns,
        last_ns=state.last_ns,
        count=state.count,
        updated_ns=now_ns,
    )
