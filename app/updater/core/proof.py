"""Proof that evicting helps, before more pods go: canaries per workload, a breaker for all.

Strategy: after the first eviction of a workload the next pod goes only when a replacement was
seen with the size that we expect. One that comes back as it was stops its workload, longer each
time; too many of them stop everything until one canary succeeds again. Replacements are judged in
`plan_state.judge_replacements`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from app.model.pods import Container, Pod
from app.model.quantity import Quantity
from app.model.times import doubled
from app.updater.core.decisions import Pair, PodNumbers
from app.updater.core.resize_state import are_same
from app.updater.core.rules import Prove, UpdateRules

Expected = Mapping[tuple[str, str], Quantity]  # requests by container and resource
_CLOSE: Final = 10  # percent
_MOST_VERDICTS: Final = 1000


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
    since: datetime | None = None  # the latest eviction
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
        failures = self.failures + 1
        pause = doubled(rules.proof_pause, failures, rules.longest_proof_pause)
        return replace(seen, is_proven=False, failures=failures, until=now + pause)

    def without(self, uid: str) -> Proof:
        """Return the proof when a pod was not evicted after all."""
        return replace(self, awaited=tuple(other for other in self.awaited if other != uid))

    def without_answer(self) -> Proof:
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
    """What came of the latest evictions of all workloads, and whether all have to stop."""

    verdicts: tuple[tuple[datetime, bool], ...] = ()
    is_open: bool = False
    canary: str = ""  # the uid of the pod whose replacement decides, empty if none is out
    until: datetime | None = None  # no canary before; nor another one, if one is out
    failures: int = 0
    is_trusted: bool = True  # some eviction has helped; after a start none has yet

    def after(
        self, verdict: bool, rules: UpdateRules, now: datetime, *, evicted: Collection[str] = ()
    ) -> Breaker:
        """Return the breaker after one more replacement was judged.

        Args:
            verdict: whether evicting helped.
            rules: for the share of useless evictions that is too much.
            now: the time.
            evicted: uids of the pods one of which was replaced; while all have to stop only the
                answer to the canary counts.
        """
        if self.is_open:
            if self.canary not in evicted:
                return self
            return self._after_canary(rules, now, helped=verdict)
        recent = [
            (moment, good)
            for moment, good in self.verdicts[-_MOST_VERDICTS:]
            if now - moment < rules.breaker_window
        ]
        recent.append((now, verdict))
        bad = sum(not good for _, good in recent)
        opens = len(recent) >= rules.breaker_least and bad > len(recent) * rules.breaker_share
        if not opens:
            return Breaker(tuple(recent), is_trusted=self.is_trusted or verdict)
        return Breaker(is_open=True, until=now + rules.proof_pause, failures=1)

    def _after_canary(self, rules: UpdateRules, now: datetime, *, helped: bool) -> Breaker:
        if helped:
            return Breaker()
        failures = self.failures + 1
        pause = doubled(rules.proof_pause, failures, rules.longest_proof_pause)
        return replace(self, canary="", until=now + pause, failures=failures)

    def allows(self, now: datetime) -> bool:
        """Whether a pod may be evicted: any while closed, one canary at a time while open.

        A canary that is never replaced, for want of a quota perhaps, holds up the others no
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

    def without_canary(self) -> Breaker:
        """Return the breaker when its canary will get no answer: another one may go."""
        return replace(self, canary="", until=None)
