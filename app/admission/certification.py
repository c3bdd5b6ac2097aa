"""Where certificates come from, who is told of them, and when a new one is served.

Strategy: three sources. Files that flags name; without a cluster files that we make; in a
cluster a Secret that the replicas share and one of them, the elected, renews. The same elected
replica keeps the webhook configurations. A new set is served when the webhook configurations carry
its CA. If that does not come about, it is served all the same after a while: the API server may
have been told in another way, and an old certificate expires.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from app.admission.certificate_stores import (
    CertificateFiles,
    CertificatePaths,
    SecretStore,
    made_in,
)
from app.admission.certificates import Authority, serving_names
from app.admission.core.rotation import CertificateSet, Issuing, Material, RotationRules
from app.admission.flags import AdmissionSettings
from app.admission.registrar import Registrar, registration_of
from app.admission.rotator import Rotator
from app.kube.manifests.registration import webhook_configurations
from app.model.errors import ClusterError
from app.ports import Clock, Cluster
from app.runtime.election import Campaign, Election, ElectionRules, candidate
from app.runtime.loop import Loop

log = logging.getLogger("admission.certificates")

CERTIFICATE_DAYS = 365
SECRET = "vpa-tls-certs"
_LEASE = "vpa-admission-controller-rotation"
_LOOK_SECONDS = 5.0
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
        log.info("certificates lie here", extra={"folder": str(folder)})
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
