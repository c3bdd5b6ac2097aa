"""Proof that evicting helps, before more pods go: canaries per workload, breakers around them.

Strategy: after the first eviction of a workload the next pod goes only when a replacement was
seen with the size that we expect. One that comes back as it was stops its workload, longer each
time; too many of them stop their namespace until one canary succeeds again. Only where that
happens in several namespaces everything stops. `plan_state` judges replacements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from app.model.pods import Container, Pod
from app.model.quantity import Quantity
from app.model.times import doubled
from app.updater.core.decisions import Pair, PodNumbers
from app.updater.core.resize_state import are_same
from app.updater.core.rules import Prove, UpdateRules

Expected = Mapping[tuple[str, str], Quantity]  # requests by container and resource
_CLOSE: Final = 10  # percent
_MOST_JUDGED: Final = 1000


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which the webhook gave no sign of life; it is over."""

    began: datetime  # the last sign before it
    ended: datetime

    def explains(self, moment: datetime | None, rules: UpdateRules) -> bool:
        """Whether a pod that was evicted or judged then says nothing about the webhook now."""
        return moment is not None and self.began - rules.before_outage <= moment <= self.ended


@dataclass(frozen=True, slots=True)
class ProofVersion:
    """What a proof holds for: a change of the VPA's or the template's spec needs a new one."""

    vpa_uid: str
    vpa_generation: int
    template: tuple[Container, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known of one workload under one VPA."""

    version: ProofVersion
    is_proven: bool = False
    awaited: tuple[str, ...] = ()  # uids of evicted pods not seen replaced yet, oldest first
    since: datetime | None = None  # the latest eviction, or trial that showed it to be useless
    known: frozenset[str] = frozenset()  # pods that are no replacement, or are judged already
    expected: Expected = field(default_factory=dict)
    failures: int = 0
    until: datetime | None = None  # no canary before

    def allows(self, rules: UpdateRules, now: datetime) -> bool:
        """Whether one more pod may be evicted."""
        if rules.prove is Prove.OFF or self.is_proven:
            return True
        return not self.awaited and (self.until is None or now >= self.until)

    @property
    def has_failed(self) -> bool:
        """Whether the latest replacement came back without the change."""
        return self.failures > 0

    def after_eviction(
        self, uid: str, pods: frozenset[str], expected: Expected, now: datetime
    ) -> Proof:
        """Return the proof after a pod was evicted; `pods` are those there now."""
        return replace(
            self,
            awaited=(*self.without(uid).awaited, uid),
            since=now,
            known=self.known | pods if self.awaited else pods,
            expected=expected,
        )

    def after_replacement(
        self, uid: str, *, helped: bool, rules: UpdateRules, now: datetime
    ) -> Proof:
        """Return the proof after a replacement was seen."""
        seen = replace(self, awaited=self.awaited[1:], known=self.known | {uid})
        if helped:
            return replace(seen, is_proven=True, failures=0, until=None)
        return seen._failed(rules.proof_pause, rules, now)

    def after_useless_trial(self, rules: UpdateRules, now: datetime) -> Proof:
        """Return the proof after a pod created on trial came back unchanged."""
        return replace(self._failed(rules.trial_pause, rules, now), since=now)

    def _failed(self, pause: timedelta, rules: UpdateRules, now: datetime) -> Proof:
        failures = self.failures + 1
        until = now + doubled(pause, failures, rules.longest_proof_pause)
        return replace(self, is_proven=False, failures=failures, until=until)

    def without(self, uid: str) -> Proof:
        """Return the proof when a pod was not evicted after all."""
        return replace(self, awaited=tuple(other for other in self.awaited if other != uid))

    def after_outage(self, outage: Outage, rules: UpdateRules) -> Proof:
        """Return the proof after the webhook is back: what failed meanwhile is tried again."""
        if self.until is None or not outage.explains(self.since, rules):
            return self
        return replace(self, until=None)

    def without_replacement(self) -> Proof:
        """Return the proof when no replacement will come: the owner has all its pods."""
        return replace(self, awaited=())


def current_proof(known: Proof | None, version: ProofVersion) -> Proof:
    """Return what is proven of this version; of a new one nothing is, but pauses go on."""
    if known is None:
        return Proof(version)
    if known.version == version:
        return known
    # What is awaited stays so: its answer tells of the new version as well. Failures stay:
    # a workload that is edited all the time would be evicted all the time.
    return replace(known, version=version, is_proven=False)


def expected_requests(numbers: PodNumbers) -> dict[tuple[str, str], Quantity]:
    """Return the requests that a replacement should have."""
    return {
        (pair.container, pair.resource): pair.target for pair in numbers.pairs if pair.is_controlled
    }


def has_expected(
    pod: Pod, pairs: Sequence[Pair], expected: Expected, *, off_percent: int = _CLOSE
) -> bool:
    """Whether a pod, as it was created, has what was expected at its eviction or is now.

    Args:
        pod: the replacement.
        pairs: what is recommended for it now.
        expected: what was recommended when its predecessor was evicted.
        off_percent: how much more or less is near enough.
    """
    asked = {container.name: container.resources for container in pod.containers}
    for pair in pairs:
        if not pair.is_controlled:
            continue
        request = asked[pair.container].request(pair.resource)
        then = expected.get((pair.container, pair.resource), pair.target)
        if request is None:
            return False
        if any(are_same(pair.resource, request, wanted) for wanted in (pair.target, then)):
            continue
        least, most = sorted((pair.target.nano, then.nano))
        if not least * (100 - off_percent) <= request.nano * 100 <= most * (100 + off_percent):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Breaker:
    """What came of the latest evictions of many workloads, and whether they have to stop."""

    # The latest replacements, also while it is open: when each was judged, whether it helped.
    judged: tuple[tuple[datetime, bool], ...] = ()
    is_open: bool = False
    canary: str = ""  # the uid of the pod whose replacement decides, empty if none is out
    until: datetime | None = None  # no canary before; nor another one, if one is out
    failures: int = 0
    since: datetime | None = None  # the latest replacement that opened it or kept it open

    def after(
        self, rules: UpdateRules, now: datetime, *, helped: bool, evicted: Collection[str] = ()
    ) -> Breaker:
        """Return the breaker after one more replacement was judged.

        Args:
            rules: for the share of useless evictions that is too much.
            now: the time.
            helped: whether evicting did.
            evicted: uids of the pods one of which was replaced; while all have to stop only the
                answer to the canary counts.
        """
        found = replace(self, judged=(*self.latest(rules, now)[1 - _MOST_JUDGED :], (now, helped)))
        if self.is_open:
            return found.after_canary(rules, now, helped=helped, evicted=evicted)
        opens = len(found.judged) >= rules.breaker_least and found.is_useless(rules, now)
        return found.opened(rules, now) if opens else found

    def latest(self, rules: UpdateRules, now: datetime) -> tuple[tuple[datetime, bool], ...]:
        """Return what was judged and still counts."""
        judged = self.judged
        if not judged or now - judged[0][0] < rules.breaker_window:
            return judged
        return tuple(item for item in judged if now - item[0] < rules.breaker_window)

    def useless(self, rules: UpdateRules, now: datetime) -> int:
        """Return how many of the latest evictions did not help."""
        return sum(not helped for _, helped in self.latest(rules, now))

    def is_useless(self, rules: UpdateRules, now: datetime) -> bool:
        """Whether too many of the latest evictions did not help."""
        return self.useless(rules, now) > len(self.latest(rules, now)) * rules.breaker_share

    def opened(self, rules: UpdateRules, now: datetime) -> Breaker:
        """Return the breaker after too many evictions did not help."""
        return replace(self, is_open=True, until=now + rules.proof_pause, failures=1, since=now)

    def after_canary(
        self, rules: UpdateRules, now: datetime, *, helped: bool, evicted: Collection[str]
    ) -> Breaker:
        """Return the open breaker after a replacement that may be its canary's."""
        if self.canary not in evicted:
            return self
        if helped:
            return Breaker(self.judged[-1:])
        failures = self.failures + 1
        pause = doubled(rules.proof_pause, failures, rules.longest_proof_pause)
        return replace(self, canary="", until=now + pause, failures=failures, since=now)

    def allows(self, now: datetime) -> bool:
        """Whether a pod may be evicted: any while closed, one canary at a time while open.

        A canary that is never replaced, because of a quota perhaps, holds up the others no
        longer than one that did not help.
        """
        return not self.is_open or self.until is None or now >= self.until

    def after_eviction(self, uid: str, rules: UpdateRules, now: datetime) -> Breaker:
        """Return the breaker after an eviction was accepted."""
        if not self.is_open or (self.canary and not self.allows(now)):
            return self
        failures = self.failures + bool(self.canary)
        pause = doubled(rules.proof_pause, failures, rules.longest_proof_pause)
        return replace(self, canary=uid, until=now + pause, failures=failures)

    def after_outage(self, outage: Outage, rules: UpdateRules) -> Breaker:
        """Return the breaker without what was judged while the webhook was away."""
        if self.is_open and outage.explains(self.since, rules):
            return Breaker()
        kept = tuple(item for item in self.judged if not outage.explains(item[0], rules))
        return self if len(kept) == len(self.judged) else replace(self, judged=kept)

    def without_canary(self) -> Breaker:
        """Return the breaker when its canary will get no answer: another one may go."""
        return replace(self, canary="", until=None)


@dataclass(frozen=True, slots=True)
class Breakers:
    """A breaker for each namespace, and one for the cluster, for which each has one vote.

    What one namespace does to its pods stops no evictions elsewhere, however often it does it.
    """

    cluster: Breaker = field(default_factory=Breaker)  # judges by those of the namespaces
    namespaces: Mapping[str, Breaker] = field(default_factory=dict)
    is_trusted: bool = True  # some eviction has helped; after a start none has yet

    def of(self, namespace: str) -> Breaker:
        """Return the breaker of a namespace."""
        return self.namespaces.get(namespace) or Breaker()

    def stopped(self) -> Iterator[str]:
        """Yield the namespaces whose evictions stop, empty for the whole cluster."""
        yield from ([""] if self.cluster.is_open else [])
        yield from (name for name, one in self.namespaces.items() if one.is_open)

    @property
    def canaries(self) -> frozenset[str]:
        """Uids of the pods whose replacements decide."""
        return frozenset(one.canary for one in self._all() if one.canary)

    def after(
        self,
        namespace: str,
        rules: UpdateRules,
        now: datetime,
        *,
        helped: bool,
        evicted: Collection[str] = (),
    ) -> Breakers:
        """Return the breakers after one more replacement was judged; see `Breaker.after`."""
        own = self.of(namespace).after(rules, now, helped=helped, evicted=evicted)
        found = replace(
            self,
            namespaces={**self.namespaces, namespace: own},
            is_trusted=self.is_trusted or helped,
        )
        if self.cluster.is_open:
            cluster = self.cluster.after_canary(rules, now, helped=helped, evicted=evicted)
            found = replace(found, cluster=cluster)
            if not cluster.is_open:  # the other namespaces are heard again
                found = found._each(lambda one: one if one is own else replace(one, judged=()))
        elif not helped and found.is_outvoted(rules, now):
            found = replace(found, cluster=self.cluster.opened(rules, now))
        return found

    def is_outvoted(self, rules: UpdateRules, now: datetime) -> bool:
        """Whether evictions are useless in most of the namespaces, and in enough of them."""
        heard = [one for one in self.namespaces.values() if one.latest(rules, now)]
        against = sum(one.is_useless(rules, now) for one in heard)
        return against >= rules.breaker_namespaces and against > len(heard) * rules.breaker_share

    def after_eviction(
        self, namespace: str, uid: str, rules: UpdateRules, now: datetime
    ) -> Breakers:
        """Return the breakers after an eviction was accepted."""
        cluster = self.cluster.after_eviction(uid, rules, now)
        own = self.of(namespace)
        after = own.after_eviction(uid, rules, now)
        if after is own:
            return self if cluster is self.cluster else replace(self, cluster=cluster)
        return replace(self, cluster=cluster, namespaces={**self.namespaces, namespace: after})

    def without_canaries(self, uids: Collection[str]) -> Breakers:
        """Return the breakers when some canaries will get no answer: others may go."""
        if self.canaries.isdisjoint(uids):
            return self
        return self._each(lambda one: one.without_canary() if one.canary in uids else one)

    def after_outage(self, outage: Outage, rules: UpdateRules) -> Breakers:
        """Return the breakers after the webhook is back; where one is closed nothing is trusted."""
        found = self._each(lambda one: one.after_outage(outage, rules))
        was_closed = set(self.stopped()) - set(found.stopped())
        return replace(found, is_trusted=False) if was_closed else found

    def after_absence(self) -> Breakers:
        """Return the breakers after a start, or after another process acted."""
        return replace(self._each(lambda one: replace(one, canary="")), is_trusted=False)

    def living(self, namespaces: Collection[str], rules: UpdateRules, now: datetime) -> Breakers:
        """Return the breakers without those of which nothing is to be remembered."""
        living = {
            name: one
            for name, one in self.namespaces.items()
            if one.latest(rules, now)
            or (one.is_open and (name in namespaces or not one.allows(now)))
        }
        return self if len(living) == len(self.namespaces) else replace(self, namespaces=living)

    def _all(self) -> Iterator[Breaker]:
        yield self.cluster
        yield from self.namespaces.values()

    def _each(self, change: Callable[[Breaker], Breaker]) -> Breakers:
        changed = {name: change(one) for name, one in self.namespaces.items()}
        return replace(self, cluster=change(self.cluster), namespaces=changed)
