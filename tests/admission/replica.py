"""One replica of the webhook beside a cluster in memory, stepped by a test."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from app.admission.certificate_stores import CertificateFiles, SecretStore
from app.admission.certificates import Authority
from app.admission.certification import Rotator
from app.admission.core.rotation import CertificateSet, KeyRing, RotationRules
from app.admission.heartbeat import Heartbeat, HeartbeatRules
from app.admission.registrar import Registrar
from app.kube.manifests.documents import Registration, webhook_configurations
from app.ports import EVENTS, LEASES, MUTATING_WEBHOOKS, Json, Ref, Resource
from tests.cluster_in_memory import ClusterInMemory
from tests.stepped_clock import SteppedClock

CONFIGURATION = "vpa-webhook-config"
BEATS = HeartbeatRules("kube-system", "vpa-admission-controller", "pod-1", 10.0)
RULES = RotationRules(jitter=0.0, settle_seconds=30, grace_seconds=3600)
AUTHORITY = Authority("vpa-webhook", "kube-system", "", 90)


class Replica:
    """A cluster, and the parts of a replica that write into it."""

    def __init__(self, *, beats: HeartbeatRules = BEATS, reason: str = "") -> None:
        self.clock = SteppedClock()
        self.cluster = ClusterInMemory(self.clock.now)
        self.leads = True
        self.reason = reason  # why it is not ready
        self.registration = Registration()
        self.registrar = self.new_registrar()
        self.store = SecretStore(self.cluster, "kube-system", "vpa-tls-certs")
        self.rotator = self.new_rotator(self.store)
        self.heartbeat = Heartbeat(
            self.cluster, beats, lambda: self.reason, self.clock, lambda: self.registrar.repairs
        )

    def new_registrar(self, bundle: str = "") -> Registrar:
        """Return a registrar that has just started."""
        registrar = Registrar(
            self.cluster,
            lambda bundle: webhook_configurations(self.registration, bundle),
            lambda: self.leads,
            lambda: self.reason,
        )
        registrar.bundle = bundle
        return registrar

    def new_rotator(
        self,
        store: SecretStore | CertificateFiles,
        *,
        rules: RotationRules = RULES,
        registers: bool = True,
    ) -> Rotator:
        """Return a rotator that has just started."""
        registrar = self.registrar if registers else None
        return Rotator(store, AUTHORITY, registrar, rules, lambda: self.leads)

    def rotate(self, after_seconds: float = 0.0) -> float:
        """Let time pass, then let the rotator work."""
        self.clock.wait(after_seconds)
        return self.rotator.tick(self.clock.now())

    def rotate_for(self, seconds: float) -> None:
        """Let the rotator work for a while, as its loop does."""
        until = self.clock.now() + timedelta(seconds=seconds)
        while self.clock.now() < until:
            self.clock.wait(self.rotate())

    def register(self) -> tuple[str, ...]:
        """Let a second pass and the registrar work."""
        self.clock.wait(1)
        return self.registrar.tick(self.clock.now())

    def beat(self) -> float:
        """Let the heartbeat do what is due."""
        return self.heartbeat.tick(self.clock.now())

    def ring(self) -> KeyRing:
        """Return what is in the Secret."""
        return self.store.read().ring

    def current(self) -> CertificateSet:
        """Return the generation in use."""
        current = self.ring().current
        assert current is not None
        return current

    def configuration(self, resource: Resource = MUTATING_WEBHOOKS) -> Json:
        """Return a webhook configuration as it is."""
        return self.cluster.get(Ref(resource, "", CONFIGURATION))

    def change(self, change: Callable[[Json], object]) -> None:
        """Let another client change the configuration for pods."""
        found = self.configuration()
        change(found)
        self.cluster.replace(Ref(MUTATING_WEBHOOKS, "", CONFIGURATION), found)

    def lease(self) -> Json | None:
        """Return the spec of the Lease, if there is one."""
        items = self.cluster.list(LEASES).items
        assert len(items) <= 1
        return items[0]["spec"] if items else None

    def events(self) -> list[str]:
        """Return what the events say."""
        return [event["message"] for event in self.cluster.list(EVENTS, "default").items]
