"""Certificates, the ring that holds them, and the next step of their rotation.

Strategy: a CA's key lives only while it signs, so every serving certificate brings its own CA.
A new pair is kept beside the one in use; its CA is published beside the old one; the pair is
swapped when every webhook configuration carries the new CA and the API servers had time to see
it; the old CA leaves last, when the slowest replica has swapped. The plan looks only at what is
stored, never at what was done, so a crash between any two writes costs nothing but time.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

EXPIRY_ANNOTATION: Final = "vpaCertificateNotAfter"  # of the Lease that tells of the webhook


@dataclass(frozen=True, slots=True)
class CertificateSet:
    """One generation: the serving pair and the CA that signed it, as PEM texts."""

    ca_pem: str
    cert_pem: str
    key_pem: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Material:
    """What a source offers to be served; `version` grows with every change."""

    version: int
    certificates: CertificateSet


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All generations that are known; no CA's private key is ever on it."""

    current: CertificateSet | None = None
    upcoming: CertificateSet | None = None
    retiring: tuple[str, ...] = ()  # CAs of former generations, PEM, oldest first


@dataclass(frozen=True, slots=True)
class StoredRing:
    """A ring as it was read; `origin` is the object around it, None when there is none."""

    ring: KeyRing
    origin: dict[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Generation:
    """What can be said of a generation without its key."""

    authorities: frozenset[str]  # fingerprints
    not_before: datetime  # of the shorter-lived of CA and serving certificate
    not_after: datetime
    trouble: str = ""  # why it cannot be served at all
    missing_names: tuple[str, ...] = ()  # wanted, but not in the serving certificate


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


class Rotation(StrEnum):
    """What a step does."""

    NOTHING = "Nothing"  # all is well, or a wait is running
    ISSUE_FIRST = "IssueFirst"  # make a generation and serve it: no API server trusts anything yet
    ISSUE_NEXT = "IssueNext"  # make a generation and keep it beside the one in use
    PUBLISH_CA = "PublishCa"  # put every CA of the ring into every configuration
    SWAP_SERVING = "SwapServing"  # the upcoming generation becomes the current one
    RETIRE_CA = "RetireCa"  # leave only the current CA, first on the ring, then in configurations


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do next, and why."""

    action: Rotation
    reason: str
    wait_until: datetime | None = None  # of a step that does nothing


def plan(state: RotationState, now: datetime, rules: RotationRules) -> NextStep:
    """Return the one next step; repeating it until it does nothing ends a rotation."""
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


def _start(state: RotationState, now: datetime, rules: RotationRules) -> NextStep:
    reason = defect(state.current, now)
    if rules.issuing is Issuing.NEVER:
        return NextStep(Rotation.NOTHING, f"{reason}, and it is not ours to make")
    # A trusted CA may belong to a pair that some replica still serves from memory.
    return NextStep(Rotation.ISSUE_NEXT if _trusted(state) else Rotation.ISSUE_FIRST, reason)


def _publish(used: frozenset[str], state: RotationState) -> NextStep | None:
    required = used | state.retiring
    if all(bundle is None or required <= bundle for bundle in state.bundles):
        return None
    return NextStep(
        Rotation.PUBLISH_CA, "a webhook configuration lacks a CA that is or will be in use"
    )


def _swap(
    current: Generation | None,
    upcoming: Generation,
    state: RotationState,
    now: datetime,
    rules: RotationRules,
) -> NextStep:
    trusted = _trusted(state)
    if not trusted or (current is None and trusted <= upcoming.authorities):
        return NextStep(Rotation.SWAP_SERVING, "nothing else is trusted or served")
    settled = state.unchanged_since + timedelta(seconds=rules.settle_seconds)
    if now < settled:
        return NextStep(
            Rotation.NOTHING,
            "the new CA is published; API servers need a moment to see it",
            settled,
        )
    return NextStep(Rotation.SWAP_SERVING, "every webhook configuration carries the new CA")


def _renewal(current: Generation, now: datetime, rules: RotationRules) -> str:
    if current.missing_names:
        return f"the certificate is not made out to {', '.join(current.missing_names)}"
    if now >= renewal_time(current, rules):
        return f"the certificate expires at {current.not_after.isoformat()}"
    return ""


def _keep(
    current: Generation, state: RotationState, now: datetime, rules: RotationRules
) -> NextStep:
    renewal = _renewal(current, now, rules)
    if renewal and rules.issuing is Issuing.ALWAYS:
        return NextStep(Rotation.ISSUE_NEXT, renewal)
    if not _trusted(state) | state.retiring <= current.authorities:
        over = state.unchanged_since + timedelta(seconds=rules.grace_seconds)
        if now < over:
            return NextStep(
                Rotation.NOTHING, "a former CA stays until every replica has swapped", over
            )
        return NextStep(Rotation.RETIRE_CA, "every replica had time to swap")
    if renewal:
        return NextStep(
            Rotation.NOTHING, f"{renewal}, and it is not ours to renew", current.not_after
        )
    return NextStep(Rotation.NOTHING, "the certificate is good", renewal_time(current, rules))


def _trusted(state: RotationState) -> frozenset[str]:
    return frozenset().union(*(bundle for bundle in state.bundles if bundle is not None))


_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


def pem_blocks(text: str) -> tuple[str, ...]:
    """Return the certificates in a text, each once, tidied; what cannot be read is left out."""
    blocks: dict[str, None] = {}
    for match in _BLOCK.finditer(text):
        try:
            der = binascii.a2b_base64("".join(match[1].split()), strict_mode=True)
        except binascii.Error:
            continue
        if der:
            blocks[_armoured(der)] = None
    return tuple(blocks)


def fingerprint(block: str) -> str:
    """Return the SHA-256 of one certificate's DER form, in hex."""
    return hashlib.sha256(binascii.a2b_base64("".join(block.splitlines()[1:-1]))).hexdigest()


def fingerprints(text: str) -> frozenset[str]:
    """Return the fingerprints of all certificates in a text."""
    return frozenset(fingerprint(block) for block in pem_blocks(text))


def joined(texts: Iterable[str]) -> str:
    """Return one bundle with every certificate of these texts once, in order."""
    return "".join(dict.fromkeys(block for text in texts for block in pem_blocks(text)))


def _armoured(der: bytes) -> str:
    body = binascii.b2a_base64(der, newline=False).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"
