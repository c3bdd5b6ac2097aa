"""The next step of a certificate rotation, planned from the state at one moment.

Strategy: a CA's key lives only while it signs, so every serving certificate brings its own CA.
A new pair is kept beside the one in use; its CA is published beside the old one; the pair is
swapped when every webhook configuration carries the new CA and the API servers had time to see
it; the old CA leaves last, when the slowest replica has swapped. The plan looks only at what is
stored, never at what was done, so a crash between any two writes costs nothing but time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from app.model.certificates import Generation


class Issuing(StrEnum):
    """Whether certificates are ours to make."""

    NEVER = "never"  # they are given as files
    ONCE = "once"  # an operator gave our CA to the API server, so it must stay
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class RotationRules:
    """How long things last and wait."""

    issuing: Issuing = Issuing.ALWAYS
    renew_after: float = 2 / 3  # of a certificate's life
    jitter: float = 0.05  # of its life, added by fingerprint, so that clusters spread
    settle_seconds: float = 30.0  # until every API server calls with a new bundle
    grace_seconds: float = 3600.0  # until the slowest replica serves a swapped certificate


@dataclass(frozen=True, slots=True)
class RotationState:
    """All that a step is planned from."""

    current: Generation | None
    upcoming: Generation | None
    retiring: frozenset[str]  # fingerprints of CAs
    bundles: tuple[frozenset[str] | None, ...]  # one per configuration; None: it does not exist
    unchanged_since: datetime  # since when all of the above has been seen to be so


@dataclass(frozen=True, slots=True)
class Nothing:
    """All is well, or a wait is running."""

    reason: str
    wait_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class IssueFirst:
    """Make a generation and serve it at once: no API server trusts anything yet."""

    reason: str


@dataclass(frozen=True, slots=True)
class IssueNext:
    """Make a generation and keep it beside the one in use."""

    reason: str


@dataclass(frozen=True, slots=True)
class PublishCa:
    """Put every CA of the ring into every configuration, beside what is there."""

    reason: str


@dataclass(frozen=True, slots=True)
class SwapServing:
    """Make the upcoming generation the current one; the former CA begins to retire."""

    reason: str


@dataclass(frozen=True, slots=True)
class RetireCa:
    """Leave only the current generation's CA, first on the ring, then in the configurations."""

    reason: str


RotationStep = Nothing | IssueFirst | IssueNext | PublishCa | SwapServing | RetireCa


def plan(state: RotationState, now: datetime, rules: RotationRules) -> RotationStep:
    """Return the one next step; repeating it until it is `Nothing` ends a rotation."""
    current = None if defect(state.current, now) else state.current
    upcoming = None if defect(state.upcoming, now) else state.upcoming
    if upcoming is not None:
        used = upcoming.authorities | (current.authorities if current else frozenset())
        return _publish(used, state) or _swap(current, upcoming, state, now, rules)
    if current is None:
        return _start(state, now, rules)
    return _publish(current.authorities, state) or _keep(current, state, now, rules)


def defect(generation: Generation | None, now: datetime) -> str:
    """Say why a generation cannot be served now; empty when it can."""
    if generation is None:
        return "there is no certificate"
    if generation.trouble:
        return generation.trouble
    if now >= generation.not_after:
        return f"the certificate expired at {generation.not_after.isoformat()}"
    if now < generation.not_before:
        return f"the certificate is not valid before {generation.not_before.isoformat()}"
    return ""


def renewal_time(generation: Generation, rules: RotationRules) -> datetime:
    """Return when a generation should be followed by another."""
    seed = min(generation.authorities, default="0")
    share = rules.renew_after + rules.jitter * int(seed[:8], 16) / 2**32
    return generation.not_before + (generation.not_after - generation.not_before) * share


def _start(state: RotationState, now: datetime, rules: RotationRules) -> RotationStep:
    reason = defect(state.current, now)
    if rules.issuing is Issuing.NEVER:
        return Nothing(f"{reason}, and it is not ours to make")
    # A trusted CA may belong to a pair that some replica still serves from memory.
    return IssueNext(reason) if _trusted(state) else IssueFirst(reason)


def _publish(used: frozenset[str], state: RotationState) -> PublishCa | None:
    required = used | state.retiring
    if all(bundle is None or required <= bundle for bundle in state.bundles):
        return None
    return PublishCa("a webhook configuration lacks a CA that is or will be in use")


def _swap(
    current: Generation | None,
    upcoming: Generation,
    state: RotationState,
    now: datetime,
    rules: RotationRules,
) -> RotationStep:
    trusted = _trusted(state)
    if not trusted or (current is None and trusted <= upcoming.authorities):
        return SwapServing("nothing else is trusted or served")
    settled = state.unchanged_since + timedelta(seconds=rules.settle_seconds)
    if now < settled:
        return Nothing("the new CA is published; API servers need a moment to see it", settled)
    return SwapServing("every webhook configuration carries the new CA")


def _renewal(current: Generation, now: datetime, rules: RotationRules) -> str:
    if current.missing_names:
        return f"the certificate is not made out to {', '.join(current.missing_names)}"
    if now >= renewal_time(current, rules):
        return f"the certificate expires at {current.not_after.isoformat()}"
    return ""


def _keep(
    current: Generation, state: RotationState, now: datetime, rules: RotationRules
) -> RotationStep:
    renewal = _renewal(current, now, rules)
    if renewal and rules.issuing is Issuing.ALWAYS:
        return IssueNext(renewal)
    if not _trusted(state) | state.retiring <= current.authorities:
        over = state.unchanged_since + timedelta(seconds=rules.grace_seconds)
        if now < over:
            return Nothing("a former CA stays until every replica has swapped", over)
        return RetireCa("every replica had time to swap")
    if renewal:
        return Nothing(f"{renewal}, and it is not ours to renew", current.not_after)
    return Nothing("the certificate is good", renewal_time(current, rules))


def _trusted(state: RotationState) -> frozenset[str]:
    return frozenset().union(*(bundle for bundle in state.bundles if bundle is not None))
