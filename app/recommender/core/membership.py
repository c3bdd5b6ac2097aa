"""Which containers of which pods feed which rows of which VPAs.

Strategy: everything is brought up to date when something is seen, not when a tick comes, so a
pod that changes its labels changes its rows at that moment. Pods that went stay until the next
tick, for kills that are told late. A target that cannot be resolved keeps its last pods for a
grace period. Rows whose VPA went away or points elsewhere are detached, and wait for its return:
until then they are neither published nor stored, and they are dropped when they expire.

Names of containers may be invented without end, so the rows of a VPA are limited: of those that no
living container feeds, the longest silent ones make room.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

import numpy as np

from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.times import believed, later
from app.recommender.core.moments import HOUR, UNSET, moment, nanoseconds
from app.recommender.core.rules import RecommenderLimit, RecommenderRules, container_rules
from app.recommender.core.samples import SampleRoutes, UnclaimedWindows
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.status import fetches_history
from app.recommender.core.tables import NOWHERE, RowTable, VpaTable
from app.recommender.core.targets import ObservedVpa, VpaKey
from app.recommender.core.tracked import (
    Claim,
    Claims,
    DetachedRows,
    PodKey,
    TrackedPod,
    TrackedVpa,
    VpaLines,
    claim_of,
    target_of,
)
from app.sizing.boost import boost_overdue_at

_PENDING: Final = "Pending"
_END_TAKES: Final = timedelta(minutes=1)  # at most, from when a boost is over to the smaller size
_DETACHED_NS: Final = HOUR  # for the rows of deleted VPAs
MOST_ROWS: Final = 500  # of a VPA
_AT_ONCE: Final = 50  # rows that go together, for each time costs


class Membership:
    """VPAs and pods, and the streams between them."""

    def __init__(self, rules: RecommenderRules) -> None:
        self.rules = rules
        self.skipped = SkippedObjects()
        self.rows = RowTable(rules.aggregation)
        self.routes = SampleRoutes()
        self.vpa_table = VpaTable()
        self.vpas: dict[VpaKey, TrackedVpa] = {}
        self.by_line: dict[int, TrackedVpa] = {}
        self.pods: dict[PodKey, TrackedPod] = {}
        self.instances: dict[tuple[str, str, str], int] = {}  # by namespace, pod, container
        self.pod_of_instance: dict[int, TrackedPod] = {}
        self.shared: set[PodKey] = set()  # pods that several VPAs with selectors claim
        self.unclaimed_windows = UnclaimedWindows()
        self.reached: Counter[tuple[RecommenderLimit, str]] = Counter()  # by limit, and whose it is
        self.detached = DetachedRows(self.rows, self.reached)
        self.displaced: list[tuple[VpaKey, str]] = []  # containers that had to make room
        self._claims = Claims()
        self._by_namespace: defaultdict[str, dict[str, TrackedPod]] = defaultdict(dict)
        self._leaving: set[PodKey] = set()
        self._broken: set[VpaKey] = set()

    # --- VPAs

    def see_vpa(self, observed: ObservedVpa, now_ns: int) -> TrackedVpa:
        """Take a VPA as it is now."""
        tracked = self.vpas.get(observed.key)
        if tracked is None:
            tracked = self._enter(observed, now_ns)
        elif tracked.observed == observed:
            before, now = tracked.observed.vpa, observed.vpa
            if (before.scaled_by, before.role_problem) != (now.scaled_by, now.role_problem):
                tracked.observed = observed  # only what its conditions say has changed
                self.vpa_table.is_dirty[tracked.line] = True
            return tracked
        elif target_of(tracked.observed) != target_of(observed):
            self._change_target(tracked, observed, now_ns)
        before, tracked.observed = tracked.observed.vpa, observed
        tracked.sent = tracked.sent_for = None
        tracked.is_fetched_for = fetches_history(observed.vpa)
        self.vpa_table.is_dirty[tracked.line] = True
        policy = observed.vpa.update_policy
        self.vpa_table.set_mode(tracked.line, (policy.mode or "") if policy is not None else "")
        self._note_problem(tracked, now_ns)
        for container, row in tracked.rows.items():
            rules = container_rules(observed.vpa, container, self.rules)
            self.rows.follow(row, tracked.line, rules)
        self._claim(tracked, claim_of(tracked, None), now_ns)
        vpa = observed.vpa
        if (before.startup_boost, before.policies) != (vpa.startup_boost, vpa.policies):
            for key in tracked.pods:
                self._note_boosts(self.pods[key], now_ns)
        return tracked

    def lose_vpa(self, key: VpaKey, now_ns: int) -> None:
        """Let a VPA go; its rows wait for its return for a while."""
        tracked = self.vpas.pop(key, None)
        if tracked is None:
            return
        self._empty(tracked, now_ns)
        self._claims.remove(tracked.line)
        for pod in self._by_namespace[key[0]].values():
            pod.forget(tracked.line)
        target, until_ns = target_of(tracked.observed), now_ns + _DETACHED_NS
        self.detached.detach(key, target, tracked.rows, until_ns=until_ns)
        self._broken.discard(key)
        del self.by_line[tracked.line]
        self.vpa_table.release(tracked.line)

    def give_up_broken(self, now_ns: int) -> None:
        """Let the pods go of targets that could not be resolved for too long."""
        for key in list(self._broken):
            with self.skipped.guard("VPA", *key):
                tracked = self.vpas[key]
                self._claim(tracked, claim_of(tracked, now_ns), now_ns)

    def row_of(
        self, tracked: TrackedVpa, container: str, now_ns: int, *, may_displace: bool = True
    ) -> int | None:
        """Return the row of a container, a new one if there is none; None if there is no room."""
        row = tracked.rows.get(container)
        if row is None:
            if len(tracked.rows) >= MOST_ROWS:
                self.reached[RecommenderLimit.VPA_CONTAINERS, "/".join(tracked.key)] += 1
                if not (may_displace and self._make_room(tracked)):
                    return None
            row = self.rows.start(container, now_ns)
            rules = container_rules(tracked.vpa, container, self.rules)
            self.rows.follow(row, tracked.line, rules)
            self.rows.is_left_alone[row] = container in tracked.left_alone
            tracked.rows[container] = row
            tracked.had_rows = True
        return row

    def _make_room(self, tracked: TrackedVpa) -> bool:
        """Drop rows without living containers, the longest silent ones; return whether any went."""
        dead = {row: name for name, row in tracked.rows.items() if not self.rows.live[row]}
        rows = np.fromiter(dead, dtype=np.intp)
        oldest = rows[np.argsort(self.rows.youth(rows), kind="stable")][:_AT_ONCE].tolist()
        for row in oldest:
            self.displaced.append((tracked.key, dead[row]))
            del tracked.rows[dead[row]]
        self.drop_rows(oldest)
        return bool(oldest)

    def drop_rows(self, rows: Iterable[int]) -> None:
        """Forget rows that no pod feeds."""
        gone = dict.fromkeys(rows)  # in their order
        self.routes.cut(gone, self.rows.capacity)
        self.unclaimed_windows.drop(lambda row, _window: row in gone)
        for row in gone:
            self.rows.drop(row)

    def _enter(self, observed: ObservedVpa, now_ns: int) -> TrackedVpa:
        tracked = TrackedVpa(self.vpa_table.take(), observed, Claim(observed.key[0]), now_ns)
        if self.rules.expects_past:
            tracked.inherited = observed.vpa.recommendation or ()
        self._claims.put(tracked.line, tracked.claim)
        self.vpa_table.published_ns[tracked.line] = now_ns
        self.vpas[tracked.key] = self.by_line[tracked.line] = tracked
        rows = self.detached.take_back(tracked.key, target_of(observed))
        if rows is not None:
            tracked.rows, tracked.awaits_history = rows, False
            tracked.had_rows = True
        return tracked

    def _change_target(self, tracked: TrackedVpa, observed: ObservedVpa, now_ns: int) -> None:
        """Start again for another target, or go on where it was left."""
        self._empty(tracked, now_ns)
        self.detached.detach(tracked.key, target_of(tracked.observed), tracked.rows)
        tracked.rows = self.detached.take_back(tracked.key, target_of(observed)) or {}
        tracked.awaits_history = False

    def _empty(self, tracked: TrackedVpa, now_ns: int) -> None:
        for key in list(tracked.pods):
            pod = self.pods[key]
            self._settle(pod, pod.vpas - {tracked.line}, now_ns)

    def _note_problem(self, tracked: TrackedVpa, now_ns: int) -> None:
        if tracked.observed.selector is not None:
            tracked.broken_since_ns = None
            self._broken.discard(tracked.key)
        elif tracked.broken_since_ns is None:
            tracked.broken_since_ns = now_ns
            self._broken.add(tracked.key)

    def _claim(self, tracked: TrackedVpa, claim: Claim, now_ns: int) -> None:
        if claim == tracked.claim:
            return
        tracked.claim = claim
        self._claims.put(tracked.line, claim)
        line = tracked.line
        for pod in self._by_namespace[tracked.key[0]].values():
            is_member = line in pod.vpas
            wanted = claim.admits(pod.pod.labels, pod.top, before=is_member)
            if wanted != is_member:
                self._settle(pod, pod.vpas ^ {line}, now_ns)

    # --- pods

    def see_pod(self, pod: Pod, top: ObjectKey | None, now_ns: int) -> TrackedPod | None:
        """Take a pod as it is now; pending ones are not followed."""
        key = (pod.namespace, pod.name)
        if pod.phase == _PENDING:
            self.lose_pod(key)
            return None
        tracked = self.pods.get(key)
        if tracked is not None and tracked.pod.uid != pod.uid:
            self._forget_pod(tracked, now_ns)
            tracked = None
        self._leaving.discard(key)
        if tracked is None:
            tracked = self.pods[key] = TrackedPod(pod, top)
            self._by_namespace[pod.namespace][pod.name] = tracked
            self._see_containers(tracked, now_ns)
            vpas = self._claims.of(pod.namespace, pod.labels, top, frozenset())
            self._settle(tracked, vpas, now_ns)
        else:
            self._see_again(tracked, pod, top, now_ns)
        self._note_boosts(tracked, now_ns)
        return tracked

    def uses_boosted_cpu(self, pod: TrackedPod, container: str, now_ns: int) -> bool:
        """Whether what a container uses now is its boost's, and therefore not learned."""
        instance = pod.instances.get(container)
        return instance is not None and int(self.routes.instances.boosted_until[instance]) > now_ns

    def lose_pod(self, key: PodKey) -> None:
        """Let a pod go, once the next tick has heard what is still told of it."""
        if key in self.pods:
            self._leaving.add(key)

    def selecting(self, pod: TrackedPod) -> list[int]:
        """Return the VPAs that claim a pod by a selector of their own."""
        return [line for line in pod.vpas if self._claims.has_own_selector(line)]

    def claiming(self, namespace: str, labels: Mapping[str, str]) -> frozenset[int]:
        """Return the VPAs that claim any pod with such labels, whatever owns it."""
        return self._claims.of(namespace, labels, None, frozenset())

    def streams_at(self, pod: TrackedPod, instance: int, time_ns: int) -> list[int]:
        """Return the streams that a container of a pod fed at a time."""
        name = next(name for name, found in pod.instances.items() if found == instance)
        rows = (self.by_line[line].rows.get(name) for line in sorted(pod.vpas_at(time_ns)))
        return [self.routes.between(instance, row) for row in rows if row is not None]

    def forget_lost_pods(self, now_ns: int) -> None:
        """Forget the pods that went."""
        leaving, self._leaving = self._leaving, set()
        for key in leaving:
            with self.skipped.guard("pod", *key):
                self._forget_pod(self.pods[key], now_ns)

    def _see_again(self, tracked: TrackedPod, pod: Pod, top: ObjectKey | None, now_ns: int) -> None:
        before, was_alive = tracked.pod, tracked.is_alive
        top = top if top is not None else tracked.top
        tracked.pod = pod
        if tracked.is_alive != was_alive:
            for line in tracked.vpas:
                self._count(tracked, line, 1 if tracked.is_alive else -1, now_ns)
        if before.containers is not pod.containers:
            self._see_containers(tracked, now_ns)
        if before.labels != pod.labels or top != tracked.top:
            tracked.top = top
            vpas = self._claims.of(pod.namespace, pod.labels, top, tracked.vpas)
            self._settle(tracked, vpas, now_ns, is_move=True)

    def _see_containers(self, tracked: TrackedPod, now_ns: int) -> None:
        """Take new containers in; old ones stay as long as the pod does."""
        for container in tracked.pod.containers:
            if (name := container.name) in tracked.instances:
                continue
            instance = self.routes.instances.take()
            tracked.instances[name] = instance
            self.instances[*tracked.key, name] = instance
            self.pod_of_instance[instance] = tracked
            for line in tracked.vpas:
                self._join(tracked, line, name, now_ns)

    def _forget_pod(self, tracked: TrackedPod, now_ns: int) -> None:
        self._settle(tracked, frozenset(), now_ns)
        for name, instance in tracked.instances.items():
            self.routes.drop(instance)
            del self.instances[*tracked.key, name], self.pod_of_instance[instance]
        namespace, pod = tracked.key
        del self.pods[namespace, pod], self._by_namespace[namespace][pod]
        for row in self.unclaimed_windows.rows_of(tracked.key):
            if self.rows.vpa[row] != NOWHERE:  # else the pod may come back with the VPA
                self.unclaimed_windows.take(tracked.key, row)

    def _note_boosts(self, tracked: TrackedPod, now_ns: int) -> None:
        """Note until when what containers use is their boost's; one that is over stays so."""
        if not self.rules.cpu_startup_boost:
            return
        until = self.routes.instances.boosted_until
        for name, instance in tracked.instances.items():
            before = int(until[instance])
            if UNSET < before <= now_ns:
                continue
            ends = self._boost_ends(tracked, name, now_ns)
            until[instance] = now_ns if ends == UNSET != before else ends

    def _boost_ends(self, tracked: TrackedPod, container: str, now_ns: int) -> int:
        """Return when the boost of a container ends, also if nothing ends it; UNSET without one.

        Others may write the annotation, and it stays while an end fails, so it says only that
        there may be a boost.
        """
        pod = tracked.pod
        if container not in pod.boosted_containers:
            return UNSET
        vpas = (self.by_line[line].vpa for line in tracked.vpas)
        asked = [boost.lasts for vpa in vpas if (boost := vpa.boost(container)) is not None]
        if not asked:
            return UNSET
        if pod.ready is None:
            return nanoseconds(boost_overdue_at(pod, max(asked)))
        since = believed(pod.ready.last_transition, moment(now_ns))
        return now_ns if since is None else nanoseconds(later(since, max(asked) + _END_TAKES))

    # --- what feeds what

    def _settle(
        self, pod: TrackedPod, vpas: VpaLines, now_ns: int, *, is_move: bool = False
    ) -> None:
        """Let a pod feed the rows of other VPAs than before."""
        left, joined = pod.vpas - vpas, vpas - pod.vpas
        if not (left or joined):
            return
        for line in left:
            self._leave(pod, line, now_ns)
        if is_move:
            pod.move(vpas, now_ns)
            for instance in pod.instances.values():
                self.routes.instances.moved[instance] = now_ns
        else:
            pod.vpas = vpas
        for line in joined:
            self.by_line[line].pods.add(pod.key)
            self.vpa_table.pods[line] += 1
            self.vpa_table.is_dirty[line] = True
            for container in pod.instances:
                self._join(pod, line, container, now_ns)
            self._leave_alone(pod.pod, line)
        self._note_boosts(pod, now_ns)
        (self.shared.add if len(self.selecting(pod)) > 1 else self.shared.discard)(pod.key)

    def _leave(self, pod: TrackedPod, line: int, now_ns: int) -> None:
        tracked = self.by_line[line]
        tracked.pods.discard(pod.key)
        self.vpa_table.pods[line] -= 1
        self.vpa_table.is_dirty[line] = True
        if pod.is_alive:
            self._count(pod, line, -1, now_ns)
        for container, instance in pod.instances.items():
            if (row := tracked.rows.get(container)) is not None:
                self.routes.leave(instance, row)

    def _join(self, pod: TrackedPod, line: int, container: str, now_ns: int) -> None:
        row = self.row_of(self.by_line[line], container, now_ns)
        if row is None:
            return
        stream = self.routes.join(pod.instances[container], row, now_ns)
        if pod.is_alive:
            self.rows.live[row] += 1
        if (window := self.unclaimed_windows.take(pod.key, row)) is not None:
            self.routes.streams.resume(stream, window.end_ns, window.usage_bytes, window.oom_bytes)

    def _leave_alone(self, pod: Pod, line: int) -> None:
        """Note the native sidecars that a flag leaves alone: what was learned of them is over."""
        tracked = self.by_line[line]
        names = {one.name for one in pod.init_containers if one.is_sidecar}
        tracked.left_alone |= names
        for row in (tracked.rows[name] for name in names & tracked.rows.keys()):
            self.rows.is_left_alone[row] = True

    def _count(self, pod: TrackedPod, line: int, by: int, now_ns: int) -> None:
        for container in pod.instances:
            if (row := self.by_line[line].rows.get(container)) is not None:
                self.rows.live[row] += by
                self.rows.last_live[row] = now_ns
