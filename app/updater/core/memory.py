"""What is remembered between two plans: own actions, refusals, pauses, proofs.

Strategy: everything is a value, keyed by the pod's uid, and goes when the pod goes; what must
outlive a restart stands in the pod's annotations and conditions. Own actions count until the
watch shows them, and no longer than it may lag. When the time of day is set, all moves along.

What a node refused is kept per container and resource, with the node's size at that time. It is
worth asking again when something that was too much has become clearly less, when the node
changed, or after a while.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, cast

from app.model.kinds import ObjectKey
from app.model.limits import DisruptionBudget
from app.model.pods import Pod
from app.model.quantity import SIZED, Quantity
from app.model.snapshot import Snapshot
from app.model.times import doubled, later
from app.updater.core.decisions import Pair, Reason
from app.updater.core.proof import Breaker, Breakers, Outage, Proof
from app.updater.core.resize_state import resize_state
from app.updater.core.rules import UpdateRules

_T = TypeVar("_T")
ProofKey = tuple[str, ObjectKey, str]  # namespace, owner, VPA
OwnerKey = tuple[str, ObjectKey]  # namespace and owner
NamespacedName = tuple[str, str]  # namespace and name
Wanted = Mapping[tuple[str, str], Quantity]  # by container and resource

_LONGEST_UNLISTED: Final = timedelta(days=1)
_CLEARLY_LESS: Final = 99  # percent
_IN_TEXT: Final = ("{}, requested", "resource: {}", "resources: {}", "enough {}")
_FIRST_PAUSE: Final = timedelta(seconds=10)
LONGEST_PAUSE: Final = timedelta(minutes=10)
_LONGEST_ASKED_SECONDS: Final = 3600.0  # a server that asks for more is not believed


@dataclass(frozen=True, slots=True)
class Resized:
    """A resize that was accepted and that the watch may not show yet."""

    at: datetime
    generation: int  # of the pod as the API server returned it, 0 if it did not say
    version_before: str  # the resourceVersion that was decided upon


@dataclass(frozen=True, slots=True)
class PodMemory:
    """What is remembered of one pod."""

    namespace: str
    name: str
    evicted: datetime | None = None
    resized: Resized | None = None
    resizing_since: datetime | None = None  # the first sight of the resize it is in
    infeasible: Infeasible | None = None
    pause: Pause | None = None
    unboost_tried_at: datetime | None = None  # first

    def after_unboost(self, now: datetime) -> PodMemory:
        """Return what is remembered after the end of a boost was tried."""
        return replace(self, unboost_tried_at=self.unboost_tried_at or now)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is remembered any more."""
        return self == PodMemory(self.namespace, self.name)


NOTHING = PodMemory("", "")


@dataclass(frozen=True, slots=True)
class SeenRollout:
    """A rollout and when it was first seen."""

    mark: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of all pods and workloads."""

    pods: Mapping[str, PodMemory] = field(default_factory=dict)  # by uid
    proofs: Mapping[ProofKey, Proof] = field(default_factory=dict)
    breakers: Breakers = field(default_factory=Breakers)
    # By PodDisruptionBudget, or by the owner of pods under one that is not seen.
    pdb_pauses: Mapping[NamespacedName, Pause] = field(default_factory=dict)
    rollouts: Mapping[OwnerKey, SeenRollout] = field(default_factory=dict)

    def of(self, pod: Pod) -> PodMemory:
        """Return what is remembered of a pod, empty if nothing is."""
        return self.pods.get(pod.uid) or PodMemory(pod.namespace, pod.name)

    def namespaces(self) -> set[str]:
        """Return the namespaces of which anything is remembered."""
        namespaces = {remembered.namespace for remembered in self.pods.values()}
        namespaces.update(key[0] for key in self.proofs if self.proofs[key].awaited)
        namespaces.update(key[0] for key in self.rollouts)
        return namespaces


def pdb_key(pdb: DisruptionBudget) -> NamespacedName:
    """Return the key of a PodDisruptionBudget."""
    return pdb.namespace, pdb.name


def unseen_pdb_key(namespace: str, owner: ObjectKey) -> NamespacedName:
    """Return the key of a PodDisruptionBudget over an owner's pods that the watch does not show."""
    return namespace, str(owner)


def is_unseen_pdb(key: NamespacedName) -> bool:
    """Whether a key is not the name of a PodDisruptionBudget."""
    return "/" in key[1]


def after_absence(memory: Memory) -> Memory:
    """Return what is remembered after a start, or after another process acted: how long to rest.

    What was proven may no longer be true, and every Pause goes. The breakers stay, and until when
    a workload whose proof failed has to wait, because processes that take turns would evict at
    every turn.
    """
    proofs = {
        key: Proof(proof.version, failures=proof.failures, until=proof.until)
        for key, proof in memory.proofs.items()
        if proof.has_failed
    }
    return Memory(proofs=proofs, breakers=memory.breakers.after_absence())


def after_outage(memory: Memory, outage: Outage, rules: UpdateRules) -> Memory:
    """Return the memory after the webhook is back; doing it again changes nothing.

    Pauses that began while it was away, or just before, are over: one new canary of each workload.
    """
    proofs = {key: proof.after_outage(outage, rules) for key, proof in memory.proofs.items()}
    return replace(memory, proofs=proofs, breakers=memory.breakers.after_outage(outage, rules))


def with_pods(memory: Memory, changes: Mapping[str, PodMemory]) -> Memory:
    """Return the memory with what is remembered of some pods replaced; empty ones go."""
    if not changes:
        return memory
    pods = {**memory.pods, **changes}
    for uid, remembered in changes.items():
        if remembered.is_empty:
            del pods[uid]
    return replace(memory, pods=pods)


def observed(memory: Memory, snapshot: Snapshot, rules: UpdateRules, now: datetime) -> Memory:
    """Return the memory after looking at the cluster: what is over or gone is forgotten."""
    pods: dict[str, PodMemory] = {}
    for uid, remembered in memory.pods.items():
        pod = snapshot.of(remembered.namespace).pods.get(remembered.name)
        if pod is not None and pod.uid == uid:
            after = _observed_pod(remembered, pod, rules, now)
            if not after.is_empty:
                pods[uid] = after
    pauses = {
        key: pause
        for key, pause in memory.pdb_pauses.items()
        if key[1] in snapshot.of(key[0]).budgets
        or (is_unseen_pdb(key) and now - pause.until < _LONGEST_UNLISTED)
    }
    proofs = _living(memory.proofs, snapshot, now)
    breakers = memory.breakers.living(snapshot.namespaces, rules, now)
    awaited = {uid for proof in proofs.values() for uid in proof.awaited}
    breakers = breakers.without_canaries(breakers.canaries - awaited)
    return replace(memory, pods=pods, pdb_pauses=pauses, proofs=proofs, breakers=breakers)


def _observed_pod(remembered: PodMemory, pod: Pod, rules: UpdateRules, now: datetime) -> PodMemory:
    if remembered.evicted is not None and now - remembered.evicted >= rules.watch_lag:
        remembered = replace(remembered, evicted=None)
    resized = remembered.resized
    if resized is not None and _is_shown(resized, pod, rules, now):
        remembered = replace(remembered, resized=None)
    if remembered.resizing_since is not None and not resize_state(pod).is_ongoing:
        remembered = replace(remembered, resizing_since=None)
    if remembered.unboost_tried_at is not None and not pod.is_boosted:
        remembered = replace(remembered, unboost_tried_at=None)
    return remembered


def _is_shown(resized: Resized, pod: Pod, rules: UpdateRules, now: datetime) -> bool:
    """Whether the watch shows a pod after an accepted patch, or should by now."""
    if now - resized.at >= rules.watch_lag:
        return True
    if resized.generation:
        return pod.generation >= resized.generation
    return pod.resource_version != resized.version_before


def _living(
    proofs: Mapping[ProofKey, Proof], snapshot: Snapshot, now: datetime
) -> Mapping[ProofKey, Proof]:
    """Drop what was proven of owners or VPAs that are gone; unlisted owners keep it a day.

    A pause goes on, also if the VPA is deleted and created again. An owner that wants no pods
    any more, such as one of an older template, replaces none.
    """
    living = {}
    for key, known in proofs.items():
        view = snapshot.of(key[0])
        owner = view.workloads.get(key[1])
        is_empty = owner is not None and owner.replicas == 0
        proof = known.without_replacement() if is_empty and known.awaited else known
        is_recent = proof.since is not None and now - proof.since < _LONGEST_UNLISTED
        is_resting = proof.until is not None and now < proof.until
        if is_resting or (key[2] in view.vpas and (owner is not None or is_recent)):
            living[key] = proof
    return living


def without_breaker_canaries(memory: Memory, uids: Collection[str]) -> Memory:
    """Return the memory when canaries that decide for many workloads will get no answer."""
    breakers = memory.breakers.without_canaries(uids)
    return memory if breakers is memory.breakers else replace(memory, breakers=breakers)


@dataclass(frozen=True, slots=True)
class Infeasible:
    """What was too much for which node."""

    wanted: Wanted
    blamed: frozenset[str]  # resources that the refusal named, empty for any
    at: datetime
    allocatable: Mapping[str, Quantity] | None  # of the node, None if not known


def wanted_requests(pairs: Iterable[Pair]) -> Wanted:
    """Return what a resize asks for."""
    return {
        (pair.container, pair.resource): pair.target for pair in pairs if pair.resource in SIZED
    }


def blamed_resources(message: str) -> frozenset[str]:
    """Return the resources that a refusal names as missing."""
    return frozenset(
        resource for resource in SIZED if any(text.format(resource) in message for text in _IN_TEXT)
    )


def is_remembered(
    past: Infeasible,
    wanted: Wanted,
    allocatable: Mapping[str, Quantity] | None,
    rules: UpdateRules,
    now: datetime,
) -> bool:
    """Whether asking for `wanted` would be refused again, as far as we know."""
    if now - past.at >= rules.infeasible_expiry or allocatable != past.allocatable:
        return False
    return not any(
        wanted[key].nano * 100 < past.wanted[key].nano * _CLEARLY_LESS
        for key in past.wanted
        if key in wanted and (not past.blamed or key[1] in past.blamed)
    )


@dataclass(frozen=True, slots=True)
class Pause:
    """How often something failed in a row, and until when it rests."""

    reason: Reason
    message: str
    count: int
    until: datetime

    def is_over(self, now: datetime) -> bool:
        """Whether it may be tried again."""
        return now >= self.until


def longer(
    before: Pause | None,
    reason: Reason,
    message: str,
    now: datetime,
    *,
    longest: timedelta = LONGEST_PAUSE,
    retry_after_seconds: float | None = None,
) -> Pause:
    """Return the pause after one more failure: doubling, and no shorter than the server asks."""
    count = before.count + 1 if before is not None else 1
    pause = doubled(_FIRST_PAUSE, count, longest)
    if retry_after_seconds is not None:
        pause = max(pause, timedelta(seconds=min(retry_after_seconds, _LONGEST_ASKED_SECONDS)))
    return Pause(reason, message, count, now + pause)


def shifted(memory: Memory, by: timedelta) -> Memory:
    """Return the memory after the clock was set forward (or back) by so much."""
    return _shifted(memory, by) if by else memory


def _shifted(value: _T, by: timedelta) -> _T:
    """Return what is remembered with every moment in it shifted."""
    found: Any = value
    if isinstance(value, datetime):
        found = later(value, by)
    elif isinstance(value, dict):
        found = {key: _shifted(item, by) for key, item in value.items()}
    elif isinstance(value, tuple):
        found = tuple(_shifted(item, by) for item in value)
    elif isinstance(value, _WITH_MOMENTS):
        changes = {each.name: _shifted(getattr(value, each.name), by) for each in fields(value)}
        found = replace(value, **changes)
    return cast(_T, found)


_WITH_MOMENTS = (
    Memory,
    PodMemory,
    Resized,
    Infeasible,
    Pause,
    SeenRollout,
    Proof,
    Breaker,
    Breakers,
)
