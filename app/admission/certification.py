"""Where certificates come from, who is told of them, and when a new one is served.

Strategy: three sources. Files that flags name; without a cluster files that we make; in a
cluster a Secret that the replicas share and one of them, the elected, renews. The same elected
replica keeps the webhook configurations. A new set is served when the webhook configurations carry
its CA. If that does not come about, it is served all the same after a while: the API server may
have been told in another way, and an old certificate expires.

Rotation reads everything again in every tick, asks for one step and does it, under the version
that was read. Files are read more often than the API server; as long as they stay the same, the
API server is left alone until its turn comes. Only the elected replica acts; whatever it
remembers is forgotten when it loses the election.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from app.admission.certificate_stores import (
    CertificateFiles,
    CertificatePaths,
    SecretStore,
    made_in,
)
from app.admission.certificates import Authority, serving_names
from app.admission.core.rotation import (
    CertificateSet,
    Issuing,
    KeyRing,
    Material,
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
from app.admission.flags import AdmissionSettings
from app.admission.registrar import Registrar, registration_of
from app.kube.manifests.documents import webhook_configurations
from app.model.errors import ClusterError
from app.ports import Clock, Cluster
from app.runtime.election import Campaign, Election, ElectionRules, candidate
from app.runtime.loop import Loop

log = logging.getLogger("admission.certificates")
rotation_log = logging.getLogger("admission.rotation")

CERTIFICATE_DAYS = 365
SECRET = "vpa-tls-certs"
_LEASE = "vpa-admission-controller-rotation"
_LOOK_SECONDS = 5.0  # how long a change by another client may stay
_RECHECK_SECONDS = 1.0
_PATIENCE_SECONDS = 120.0  # for trust in a new set


@dataclass(frozen=True, slots=True)
class Certification:
    """A source to serve from, and the loops that keep it and its registration in order."""

    poll: Callable[[], Material | None]
    trusts: Callable[[CertificateSet], bool]
    trouble: Callable[[CertificateSet], str]  # why API servers do not reach us with it
    loops: tuple[Loop, ...] = ()
    repairs: Callable[[], int] = lambda: 0  # how often we put the registration for pods back


def local(settings: AdmissionSettings, clock: Clock) -> Certification:
    """Return certification without a cluster: given files, or ones made in a folder."""
    paths = given_paths(settings)
    if paths is None:
        names = serving_names(settings.registration.service, settings.cluster.namespace)
        folder = settings.certificates.own_dir
        paths = made_in(folder, names, clock.now(), CERTIFICATE_DAYS)
        log.info("certificates are stored here", extra={"folder": str(folder)})
    return Certification(CertificateFiles(paths).poll, lambda _: True, lambda _: "")


def in_cluster(
    settings: AdmissionSettings, cluster: Cluster, clock: Clock, ready: Callable[[], str]
) -> Certification:
    """Return certification in a cluster; `ready` gives a reason not to be registered yet."""
    paths = given_paths(settings)
    rules = ElectionRules(settings.cluster.namespace, _LEASE)
    election = Election(cluster, rules, candidate(), clock)
    namespace = settings.cluster.namespace
    registration = registration_of(settings.registration, settings.scope, namespace)
    registrar = None
    if settings.registration.is_on:
        registrar = Registrar(
            cluster, partial(webhook_configurations, registration), election.is_leading, ready
        )
    store: SecretStore | CertificateFiles
    if paths is None:
        store = SecretStore(cluster, registration.namespace, SECRET)
        poll = SecretStore(cluster, registration.namespace, SECRET).poll
        issuing = Issuing.ALWAYS if registrar else Issuing.ONCE
    else:
        store, poll, issuing = CertificateFiles(paths), CertificateFiles(paths).poll, Issuing.NEVER
    authority = Authority(
        registration.service, registration.namespace, registration.url, CERTIFICATE_DAYS
    )
    trusts = registrar.trusts if registrar else lambda _: True
    trouble = registrar.trouble if registrar else lambda _: ""
    if registrar is None and issuing is Issuing.NEVER:
        return Certification(poll, trusts, trouble)  # nothing for an elected replica to do
    rotator = Rotator(store, authority, registrar, RotationRules(issuing), election.is_leading)
    campaign = Campaign(election)
    return Certification(
        poll,
        trusts,
        trouble,
        loops=(
            Loop("rotation election", campaign.tick, clock, at_end=campaign.close),
            Loop("certificate rotation", rotator.tick, clock),
        ),
        repairs=lambda: registrar.repairs if registrar else 0,
    )


def given_paths(settings: AdmissionSettings) -> CertificatePaths | None:
    """Return where certificates are given, None if they are ours to make."""
    given = settings.certificates
    if given.cert_dir is not None:
        return CertificatePaths.of_cert_manager(given.cert_dir)
    paths = CertificatePaths(given.cert_file, given.key_file, given.ca_file)
    if given.are_given or paths.present().cert.is_file():
        return paths
    return None


class Reloader:
    """Looks for new sets, and swaps."""

    def __init__(
        self, certification: Certification, serve: Callable[[CertificateSet], None]
    ) -> None:
        self._certification = certification
        self._serve = serve
        self._found: tuple[int, datetime | None] = (0, None)  # version, and since when
        self.served: Material | None = None

    def tick(self, now: datetime) -> float:
        """Look once; return the seconds until the next look.

        Raises:
            PlumblineError: the source failed, or the set cannot be served; the old one is.
        """
        material = self._certification.poll()
        if material is None or material == self.served:
            return _LOOK_SECONDS
        if self.served is not None and not self._may_swap(material, now):
            return _RECHECK_SECONDS
        self._serve(material.certificates)
        self.served = material
        log.info("certificate is served", extra={"version": material.version})
        return _LOOK_SECONDS

    def _may_swap(self, material: Material, now: datetime) -> bool:
        version, since = self._found
        if version != material.version or since is None:
            log.info("New certificate found, reloading", extra={"version": material.version})
            self._found, since = (material.version, now), now
        try:
            if self._certification.trusts(material.certificates):
                return True
            reason = "a webhook configuration lacks its CA"
        except ClusterError as err:
            reason = str(err)
        if (now - since).total_seconds() < _PATIENCE_SECONDS:
            return False
        log.warning("certificate is served although it is not trusted", extra={"reason": reason})
        return True


_NEXT_STEP_SECONDS = 1.0


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
            rotation_log.log(level, "certificate rotation", extra=said)

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
        rotation_log.info("New client CA found, reloading and patching webhook")
        if self._register(bundle, now):
            rotation_log.info("Successfully patched webhook with new client CA")

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
