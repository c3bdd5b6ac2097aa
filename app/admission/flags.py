"""Settings of the admission webhook, and of answering reviews without a server."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

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
    Flag,
    ListenAddress,
    WebhookLabels,
    chosen,
    empty_means,
    one_of,
    optional,
    whole,
)
from app.flags.shared import (
    OWN_NAMESPACE,
    ClusterAccess,
    Logging,
    NativeSidecars,
    Offline,
    Profiling,
    Scope,
    feature_gates,
)
from app.model.gates import FeatureGates
from app.model.quantity import Quantity

_MOST_WORKERS: Final = 4  # unless more are asked for
_MOUNTED: Final = "/etc/tls-certs"


@dataclass(frozen=True, slots=True)
class Serving:
    """Where and how to serve."""

    host: Annotated[str, Flag("host", TEXT, "", "address of the HTTPS port; empty for all")]
    port: Annotated[int, Flag("port", PORT, "8000", "HTTPS port of the webhook")]
    address: Annotated[
        ListenAddress, Flag("address", ADDRESS, ":8944", "where metrics and health are served")
    ]
    workers: Annotated[
        int,
        Flag(
            "workers",
            empty_means("0", whole(0, 64)),
            "1",
            "processes behind the HTTPS port; 0 for one a core, at most 4",
        ),
    ]

    @property
    def processes(self) -> int:
        """How many processes answer reviews; one is the webhook's own."""
        return self.workers or min(os.cpu_count() or 1, _MOST_WORKERS)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Certificates: files that are given, else made here."""

    cert_file: Annotated[
        Path,
        Flag("tls-cert-file", PATH, f"{_MOUNTED}/serverCert.pem", "serving certificate, PEM"),
    ]
    key_file: Annotated[
        Path, Flag("tls-private-key", PATH, f"{_MOUNTED}/serverKey.pem", "its private key, PEM")
    ]
    ca_file: Annotated[
        Path,
        Flag(
            "client-ca-file",
            PATH,
            f"{_MOUNTED}/caCert.pem",
            "CA bundle that is put into the webhook configurations",
        ),
    ]
    cert_dir: Annotated[
        Path | None,
        Flag(
            "tls-cert-dir",
            optional(PATH),
            "",
            "folder with tls.crt, tls.key and ca.crt, as cert-manager makes it; "
            "stands instead of the three files",
        ),
    ]
    own_dir: Annotated[
        Path,
        Flag("certs-dir", PATH, "certs", "where certificates are kept when there is no cluster"),
    ]
    reload: Annotated[
        bool, Flag("reload-cert", SWITCH, "false", "read certificate files again when they change")
    ]
    ciphers: Annotated[
        tuple[str, ...],
        Flag(
            "tls-ciphers",
            CIPHERS,
            "",
            "cipher suites of TLS 1.2 by their IANA names; unknown ones are left out",
        ),
    ]
    min_version: Annotated[
        str,
        Flag(
            "min-tls-version",
            empty_means("tls1_2", one_of("tls1_2", "tls1_3")),
            "tls1_2",
            "oldest version of TLS that is spoken",
        ),
    ]

    @property
    def are_given(self) -> bool:
        """Whether flags name the files, so that they must exist."""
        return self.cert_dir is not None or any(
            path.parent != Path(_MOUNTED) for path in (self.cert_file, self.key_file)
        )


@dataclass(frozen=True, slots=True)
class RegistrationFlags:
    """Registration of the webhook with the API server."""

    is_on: Annotated[
        bool,
        Flag("register-webhook", SWITCH, "true", "keep the webhook configurations up to date"),
    ]
    name: Annotated[
        str,
        Flag("webhook-config-name", TEXT, "vpa-webhook-config", "name of both configurations"),
    ]
    service: Annotated[
        str, Flag("webhook-service", TEXT, "vpa-webhook", "service that leads to the HTTPS port")
    ]
    by_url: Annotated[
        bool, Flag("register-by-url", SWITCH, "false", "register a URL instead of the service")
    ]
    address: Annotated[
        str, Flag("webhook-address", TEXT, "", "URL without its port, beginning with https://")
    ]
    port: Annotated[str, Flag("webhook-port", TEXT, "", "port of the URL")]
    timeout_seconds: Annotated[
        int,
        Flag("webhook-timeout-seconds", whole(1, 30), "5", "how long the API server waits"),
    ]
    fails_closed: Annotated[
        bool,
        Flag(
            "webhook-failure-policy-fail",
            SWITCH,
            "false",
            "refuse pods while the webhook cannot be reached",
        ),
    ]
    labels: Annotated[
        WebhookLabels,
        Flag("webhook-labels", WEBHOOK_LABELS, "", "labels of the webhook configurations"),
    ]


@dataclass(frozen=True, slots=True)
class HeartbeatFlags:
    """The Lease that tells the updater that pods are admitted."""

    lease_name: Annotated[
        str, Flag("status-lease-name", TEXT, "vpa-admission-controller", "name of the Lease")
    ]
    lease_namespace: Annotated[
        str,
        Flag("status-lease-namespace", TEXT, OWN_NAMESPACE, "namespace of the Lease", "NAMESPACE"),
    ]
    interval: Annotated[
        timedelta,
        Flag("status-lease-update-interval", DURATION_ABOVE_ZERO, "10s", "between two beats"),
    ]


@dataclass(frozen=True, slots=True)
class Decisions:
    """What is decided how."""

    max_cpu_boost: Annotated[
        Quantity | None,
        Flag(
            "max-allowed-cpu-boost",
            optional(QUANTITY),
            "",
            "most CPU that a container may request while it is boosted",
        ),
    ]
    disjointness: Annotated[
        Disjointness,
        Flag(
            "selector-disjointness",
            chosen(Disjointness),
            "enforce",
            "what happens to a VPA whose pods another VPA claims as well",
        ),
    ]
    gates: Annotated[FeatureGates, feature_gates()]
    native_sidecars: NativeSidecars


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
