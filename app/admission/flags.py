"""Settings of the admission webhook, and of answering reviews without a server."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from app.admission.core.overlap import Disjointness
from app.flags.flags import (
    ADDRESS,
    CIPHERS,
    DURATION_ABOVE_ZERO,
    PATH,
    PORT,
    QUANTITY,
    SWITCH,
    TEXT,
    WEBHOOK_LABELS,
    ListenAddress,
    WebhookLabels,
    chosen,
    empty_means,
    flag,
    one_of,
    optional,
    whole,
)
from app.flags.shared import (
    OWN_NAMESPACE,
    ClusterAccess,
    Horizontal,
    Logging,
    Offline,
    Profiling,
    Scope,
    gates_flag,
    horizontal_flag,
    native_sidecars_flag,
    role_leases_flag,
)
from app.model.gates import FeatureGates
from app.model.quantity import Quantity

_MOST_WORKERS: Final = 4  # unless more are asked for
_MOUNTED: Final = "/etc/tls-certs"


@dataclass(frozen=True, slots=True)
class Serving:
    """Serving."""

    host: str = flag("host", TEXT, "", "bind address of the HTTPS port; empty for all")
    port: int = flag("port", PORT, "8000", "HTTPS port of the webhook")
    address: ListenAddress = flag("address", ADDRESS, ":8944", "address of metrics, health and API")
    workers: int = flag(
        "workers",
        empty_means("0", whole(0, 64)),
        "1",
        "worker processes behind the HTTPS port; 0 for one per core, at most 4",
    )

    @property
    def processes(self) -> int:
        """How many processes answer reviews; one is the webhook's own."""
        return self.workers or min(os.cpu_count() or 1, _MOST_WORKERS)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Certificates: from files, else issued and rotated in process."""

    cert_file: Path = flag(
        "tls-cert-file", PATH, f"{_MOUNTED}/serverCert.pem", "serving certificate, PEM"
    )
    key_file: Path = flag(
        "tls-private-key", PATH, f"{_MOUNTED}/serverKey.pem", "its private key, PEM"
    )
    ca_file: Path = flag(
        "client-ca-file",
        PATH,
        f"{_MOUNTED}/caCert.pem",
        "CA bundle that is put into the webhook configurations",
    )
    cert_dir: Path | None = flag(
        "tls-cert-dir",
        optional(PATH),
        "",
        "folder with tls.crt, tls.key and ca.crt, as cert-manager writes it; "
        "used instead of the three files",
    )
    own_dir: Path = flag(
        "certs-dir", PATH, "certs", "folder for certificates when there is no cluster"
    )
    reload: bool = flag(
        "reload-cert", SWITCH, "false", "read certificate files again when they change"
    )
    ciphers: tuple[str, ...] = flag(
        "tls-ciphers",
        CIPHERS,
        "",
        "TLS 1.2 cipher suites by IANA name; unknown ones are ignored",
    )
    min_version: str = flag(
        "min-tls-version",
        empty_means("tls1_2", one_of("tls1_2", "tls1_3")),
        "tls1_2",
        "minimum TLS version",
    )

    @property
    def are_given(self) -> bool:
        """Whether flags name the files, so that they must exist."""
        return self.cert_dir is not None or any(
            path.parent != Path(_MOUNTED) for path in (self.cert_file, self.key_file)
        )


@dataclass(frozen=True, slots=True)
class RegistrationFlags:
    """Registration of the webhook with the API server."""

    is_on: bool = flag(
        "register-webhook", SWITCH, "true", "keep the webhook configurations up to date"
    )
    name: str = flag(
        "webhook-config-name", TEXT, "vpa-webhook-config", "name of both configurations"
    )
    service: str = flag(
        "webhook-service", TEXT, "vpa-webhook", "Service in front of the HTTPS port"
    )
    by_url: bool = flag("register-by-url", SWITCH, "false", "register a URL instead of the service")
    address: str = flag(
        "webhook-address", TEXT, "", "URL without its port, beginning with https://"
    )
    port: str = flag("webhook-port", TEXT, "", "port of the URL")
    timeout_seconds: int = flag(
        "webhook-timeout-seconds", whole(1, 30), "5", "how long the API server waits"
    )
    fails_closed: bool = flag(
        "webhook-failure-policy-fail",
        SWITCH,
        "false",
        "refuse pods while the webhook cannot be reached",
    )
    labels: WebhookLabels = flag(
        "webhook-labels", WEBHOOK_LABELS, "", "labels of the webhook configurations"
    )


@dataclass(frozen=True, slots=True)
class HeartbeatFlags:
    """Webhook heartbeat: the Lease that the updater watches."""

    lease_name: str = flag(
        "status-lease-name", TEXT, "vpa-admission-controller", "name of the Lease"
    )
    lease_namespace: str = flag(
        "status-lease-namespace", TEXT, OWN_NAMESPACE, "namespace of the Lease", "NAMESPACE"
    )
    interval: timedelta = flag(
        "status-lease-update-interval",
        DURATION_ABOVE_ZERO,
        "10s",
        "time between two heartbeats",
    )


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions."""

    max_cpu_boost: Quantity | None = flag(
        "max-allowed-cpu-boost",
        optional(QUANTITY),
        "",
        "maximum CPU that a container may request while it is boosted",
    )
    disjointness: Disjointness = flag(
        "selector-disjointness",
        chosen(Disjointness),
        "enforce",
        "what to do about a VPA that can match the same pods as another one",
    )
    gates: FeatureGates = gates_flag()
    native_sidecars: bool = native_sidecars_flag()
    horizontal: Horizontal = horizontal_flag()
    role_leases: bool = role_leases_flag()


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """All that the webhook can be told."""

    serving: Serving
    certificates: Certificates
    registration: RegistrationFlags
    heartbeat: HeartbeatFlags
    decisions: Decisions
    scope: Scope
    cluster: ClusterAccess
    offline: Offline
    profiling: Profiling
    logging: Logging
