"""Where certificates come from, and who is told of them.

Strategy: three sources. Files that flags name; without a cluster files that we make; in a
cluster a Secret that the replicas share and one of them, the elected, renews. The same elected
replica keeps the webhook configurations.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from app.admission.certificate_stores import (
    CertificateFiles,
    CertificatePaths,
    SecretStore,
    made_in,
)
from app.admission.certificates import Authority, serving_names
from app.admission.core.rotation import Issuing, RotationRules
from app.admission.flags import AdmissionSettings
from app.admission.registrar import Registrar
from app.admission.rotator import RingStore, Rotator
from app.kube.manifests.registration import Registration, webhook_configurations, webhook_url
from app.model.certificates import CertificateSet, Material
from app.ports import Clock, Cluster
from app.runtime.election import Campaign, Election, ElectionRules, candidate
from app.runtime.loop import Loop

log = logging.getLogger("admission.certificates")

CERTIFICATE_DAYS = 365
SECRET = "vpa-tls-certs"
_LEASE = "vpa-admission-controller-rotation"


@dataclass(frozen=True, slots=True)
class Certification:
    """A source to serve from, and the loops that keep it and its registration in order."""

    poll: Callable[[], Material | None]
    trusts: Callable[[CertificateSet], bool]
    trouble: Callable[[CertificateSet], str]  # why API servers do not reach us with it
    loops: tuple[Loop, ...] = ()


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
    registration = registration_of(settings)
    registrar = None
    if settings.registration.is_on:
        registrar = Registrar(
            cluster, partial(webhook_configurations, registration), election.is_leading, ready
        )
    store: RingStore
    if paths is None:
        store = SecretStore(cluster, registration.namespace, SECRET)
        poll = SecretStore(cluster, registration.namespace, SECRET).poll
        issuing = Issuing.ALWAYS if registrar else Issuing.ONCE
    else:
        store, poll, issuing = CertificateFiles(paths), CertificateFiles(paths).poll, Issuing.NEVER
    authority = Authority(
        registration.service, registration.namespace, registration.url, CERTIFICATE_DAYS
    )
    rotator = Rotator(store, authority, registrar, RotationRules(issuing), election.is_leading)
    campaign = Campaign(election)
    return Certification(
        poll=poll,
        trusts=registrar.trusts if registrar else lambda _: True,
        trouble=registrar.trouble if registrar else lambda _: "",
        loops=(
            Loop("rotation election", campaign.tick, clock, at_end=campaign.close),
            Loop("certificate rotation", rotator.tick, clock),
        ),
    )


def given_paths(settings: AdmissionSettings) -> CertificatePaths | None:
    """Return where certificates are given, None if they are ours to make."""
    given = settings.certificates
    if given.cert_dir is not None:
        folder = given.cert_dir
        return CertificatePaths(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
    paths = CertificatePaths(given.cert_file, given.key_file, given.ca_file)
    if given.are_given or paths.present().cert.is_file():
        return paths
    return None


def registration_of(settings: AdmissionSettings) -> Registration:
    """Return how the API server finds us."""
    asked, scope = settings.registration, settings.scope
    if asked.labels.problem:
        log.error("webhook labels not used", extra={"problem": asked.labels.problem})
    return Registration(
        name=asked.name,
        service=asked.service,
        namespace=settings.cluster.namespace,
        url=webhook_url(asked.address, asked.port) if asked.by_url else "",
        fail_closed=asked.fails_closed,
        timeout_seconds=asked.timeout_seconds,
        labels=dict(asked.labels.labels),
        ignored_namespaces=scope.ignored_namespaces,
        selected_namespace=scope.namespace,
    )
