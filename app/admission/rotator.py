"""Carry out the rotation plan on the shared ring and the webhook configurations.

Strategy: every tick reads everything again, asks for one step and does it, under the version
that was read. Files are read more often than the API server; as long as they stay the same, the
API server is left alone until its turn comes. Only the elected replica acts; whatever it
remembers is forgotten when it loses the election.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from app.admission.certificate_stores import CertificateFiles, SecretStore
from app.admission.certificates import Authority
from app.admission.core.rotation import (
    KeyRing,
    NextStep,
    Rotation,
    RotationRules,
    RotationState,
    StoredRing,
    fingerprints,
    joined,
    pem_blocks,
    plan,
)
from app.admission.registrar import Registrar

log = logging.getLogger("admission.rotation")

_NEXT_STEP_SECONDS = 1.0
_LOOK_SECONDS = 5.0  # how long a change by another client may stay


class Rotator:
    """Plans and carries out; the registrar is None when others register the webhook."""

    def __init__(
        self,
        store: SecretStore | CertificateFiles,
        authority: Authority,
        registrar: Registrar | None,
        rules: RotationRules,
        leads: Callable[[], bool],
    ) -> None:
        self._store = store
        self._authority = authority
        self._registrar = registrar
        self._rules = rules
        self._leads = leads
        self._watched: tuple[object, datetime | None] = (None, None)
        self._rested: tuple[KeyRing, datetime] | None = None  # what was there, and until when
        self._said: dict[str, str] = {}

    def tick(self, now: datetime) -> float:
        """Do the next step; return the seconds until the next look.

        Raises:
            ClusterError: something could not be read or written; nothing is half done.
        """
        if not self._leads():
            self._forget()
            return _NEXT_STEP_SECONDS
        stored = self._store.read()
        if self._rested and stored.ring == self._rested[0] and now < self._rested[1]:
            return self._store.look_seconds
        bundles = self._registrar.bundles() if self._registrar else ()
        step = plan(self._know(stored.ring, bundles, now), now, self._rules)
        self._say(step)
        if self._leads():
            self._carry_out(step, stored, bundles, now)
        return self._rest(stored.ring, self._pause_seconds(step, now), now)

    def _rest(self, ring: KeyRing, seconds: float, now: datetime) -> float:
        """Leave the API server alone for so long, unless the store has something new before."""
        look_seconds = self._store.look_seconds
        self._rested = None
        if seconds > look_seconds:
            self._rested = (ring, now + timedelta(seconds=seconds))
        return min(seconds, look_seconds)

    def _forget(self) -> None:
        self._watched = (None, None)
        self._rested = None
        if self._registrar:
            self._registrar.forget()

    def _know(self, ring: KeyRing, bundles: tuple[str | None, ...], now: datetime) -> RotationState:
        state = (ring, bundles)
        since = self._watched[1]
        if self._watched[0] != state or since is None:
            self._watched, since = (state, now), now
        return RotationState(
            current=self._authority.judge(ring.current) if ring.current else None,
            upcoming=self._authority.judge(ring.upcoming) if ring.upcoming else None,
            retiring=fingerprints("".join(ring.retiring)),
            bundles=tuple(None if text is None else fingerprints(text) for text in bundles),
            unchanged_since=since,
        )

    def _say(self, step: NextStep) -> None:
        said = {"step": str(step.action), "reason": step.reason}
        if said != self._said:
            self._said = said
            is_stuck = step.action is Rotation.NOTHING and step.wait_until is None
            level = logging.WARNING if is_stuck else logging.INFO
            log.log(level, "certificate rotation", extra=said)

    def _carry_out(
        self, step: NextStep, stored: StoredRing, bundles: tuple[str | None, ...], now: datetime
    ) -> None:
        ring = stored.ring
        match step.action:
            case Rotation.ISSUE_FIRST:
                made = self._authority.issue(now)
                self._store.write(stored, KeyRing(made, None, ring.retiring))
            case Rotation.ISSUE_NEXT:
                made = self._authority.issue(now)
                self._store.write(stored, KeyRing(ring.current, made, ring.retiring))
            case Rotation.SWAP_SERVING:
                former = (ring.current.ca_pem,) if ring.current else ()
                retiring = pem_blocks("".join((*ring.retiring, *former)))
                self._store.write(stored, KeyRing(ring.upcoming, None, retiring))
            case Rotation.RETIRE_CA:
                if ring.upcoming or ring.retiring:
                    self._store.write(stored, KeyRing(ring.current))
                self._register(joined([ring.current.ca_pem]) if ring.current else "", now)
            case Rotation.PUBLISH_CA:
                self._publish(self._needed(ring, bundles), now)
            case Rotation.NOTHING:
                self._register(self._needed(ring, bundles), now)

    def _needed(self, ring: KeyRing, bundles: tuple[str | None, ...]) -> str:
        """Return all that must be trusted, beside what is: our last word, or else the live one."""
        base = (self._registrar.bundle if self._registrar else "",)
        sets = [made for made in (ring.current, ring.upcoming) if made]
        sound = [made.ca_pem for made in sets if not self._authority.judge(made).trouble]
        live = (bundle or "" for bundle in bundles)
        return joined([*(base if any(base) else live), *ring.retiring, *sound])

    def _publish(self, bundle: str, now: datetime) -> None:
        if self._registrar and bundle == self._registrar.bundle:
            self._register(bundle, now)  # another client took it out; the registrar reports that
            return
        log.info("New client CA found, reloading and patching webhook")
        if self._register(bundle, now):
            log.info("Successfully patched webhook with new client CA")

    def _register(self, bundle: str, now: datetime) -> tuple[str, ...]:
        if self._registrar is None:
            return ()
        self._registrar.bundle = bundle
        return self._registrar.tick(now)

    def _pause_seconds(self, step: NextStep, now: datetime) -> float:
        if step.action is not Rotation.NOTHING or (self._registrar and self._registrar.waits):
            return _NEXT_STEP_SECONDS
        if step.wait_until is None:
            return _LOOK_SECONDS
        left = (step.wait_until - now).total_seconds()
        return min(max(left, _NEXT_STEP_SECONDS), _LOOK_SECONDS)
