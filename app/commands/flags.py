"""Settings of the commands that ask and end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

from app.admission.flags import Decisions, RegistrationFlags
from app.flags.flags import PATH, QUANTITY, SWITCH, TEXT, Flag, FlagKind, Rest, optional, whole
from app.flags.shared import (
    OWN_NAMESPACE,
    AsJson,
    AsYaml,
    ClusterAccess,
    Logging,
    Offline,
    OutputFormat,
    Scope,
    Selection,
)
from app.model.errors import BadSetting
from app.model.fields import time_at
from app.model.quantity import Quantity
from app.updater.flags import AdmissionCheck, Deciding, Disruption, Interval, Thresholds


def _moment(texts: Sequence[str]) -> datetime:
    found = time_at({"time": texts[-1]}, "time", "")
    if found is None:
        raise ValueError(texts[-1])
    return found


MOMENT: Final = FlagKind("TIME", "a time such as 2026-01-05T10:00:00Z", _moment)


def _certificate(texts: Sequence[str]) -> str:
    if not re.fullmatch(r"([a-z0-9.-]+/[a-z0-9.-]+)?", texts[-1], re.ASCII):
        raise ValueError(texts[-1])
    return texts[-1]


CERTIFICATE: Final = FlagKind("NAMESPACE/NAME", "namespace/name", _certificate)

At = Annotated[
    datetime | None,
    Flag("at", optional(MOMENT), "", "the time at which it is asked; empty for now"),
]


@dataclass(frozen=True, slots=True)
class PlannedRound:
    """What is asked."""

    at: At
    interval: Interval


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """All that asking for the plan can be told."""

    asking: PlannedRound
    selection: Selection
    showing: OutputFormat
    offline: Offline
    cluster: ClusterAccess
    deciding: Deciding
    disruption: Disruption
    thresholds: Thresholds
    admission: AdmissionCheck
    scope: Scope
    logging: Logging
    vpas: Annotated[
        tuple[str, ...], Rest("[VPA...]", "names of VPAs; without any the pods of all are shown")
    ]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is asked."""

    at: At
    max_cpu_boost: Annotated[
        Quantity | None,
        Flag(
            "max-allowed-cpu-boost",
            optional(QUANTITY),
            "",
            "most CPU that a container may request while it is boosted, as the webhook is told",
        ),
    ]
    interval: Interval


@dataclass(frozen=True, slots=True)
class ExplainSettings:
    """All that explaining can be told; how the updater is started should be told alike."""

    asking: Circumstances
    selection: Selection
    showing: OutputFormat
    offline: Offline
    cluster: ClusterAccess
    deciding: Deciding
    disruption: Disruption
    thresholds: Thresholds
    admission: AdmissionCheck
    names: Annotated[
        tuple[str, ...],
        Rest(
            "[POD|VPA...]",
            "what to explain: names, or pod/NAME or vpa/NAME; without any the pods that --selector "
            "chooses",
        ),
    ]


@dataclass(frozen=True, slots=True)
class AskedRecommender:
    """A recommender to be asked instead of a cluster."""

    url: Annotated[
        str,
        Flag("from", TEXT, "", "URL of a recommender, such as http://localhost:8942"),
    ]
    token_file: Annotated[
        Path | None,
        Flag("token-file", optional(PATH), "", "file with a bearer token for it"),
    ]
    ca_file: Annotated[
        Path | None,
        Flag("ca-file", optional(PATH), "", "file with the CAs that it is trusted by"),
    ]
    tokens_over_http: Annotated[
        bool,
        Flag(
            "tokens-over-http",
            SWITCH,
            "false",
            "send the token also over plain HTTP to another machine, where something else encrypts",
        ),
    ]


@dataclass(frozen=True, slots=True)
class RecommendationsSettings:
    """All that listing recommendations can be told."""

    selection: Selection
    showing: OutputFormat
    offline: Offline
    asking: AskedRecommender
    cluster: ClusterAccess
    vpas: Annotated[tuple[str, ...], Rest("[VPA...]", "names of VPAs; without any all are shown")]


@dataclass(frozen=True, slots=True)
class Examining:
    """What is looked at."""

    namespace: Annotated[
        str,
        Flag("namespace", TEXT, OWN_NAMESPACE, "namespace that the processes live in", short="n"),
    ]
    is_before: Annotated[
        bool,
        Flag("before", SWITCH, "false", "before an installation: what it will bring may be absent"),
    ]


@dataclass(frozen=True, slots=True)
class DoctorSettings:
    """All that the check can be told."""

    examining: Examining
    showing: OutputFormat
    cluster: ClusterAccess


@dataclass(frozen=True, slots=True)
class Printing:
    """How it is printed."""

    output: AsYaml


@dataclass(frozen=True, slots=True)
class WebhookTrust:
    """Whom API servers trust; as all below it is for the document `webhooks` alone."""

    namespace: Annotated[
        str,
        Flag(
            "namespace",
            TEXT,
            OWN_NAMESPACE,
            "namespace of the webhook and its service",
            "NAMESPACE",
            short="n",
        ),
    ]
    ca_file: Annotated[
        Path | None,
        Flag(
            "client-ca-file",
            optional(PATH),
            "",
            "CA bundle that is put into the webhook configurations, PEM",
        ),
    ]
    ca_from: Annotated[
        str,
        Flag(
            "inject-ca-from",
            CERTIFICATE,
            "",
            "Certificate whose CA cert-manager puts into them instead",
        ),
    ]

    def __post_init__(self) -> None:
        if self.ca_file is not None and self.ca_from:
            raise BadSetting("--client-ca-file and --inject-ca-from exclude each other")


@dataclass(frozen=True, slots=True)
class ManifestsSettings:
    """All that printing documents can be told."""

    printing: Printing
    trust: WebhookTrust
    registration: RegistrationFlags
    scope: Scope
    names: Annotated[tuple[str, ...], Rest("DOCUMENT", "which of them")]

    @property
    def about_webhooks(self) -> tuple[object, ...]:
        """What only the document `webhooks` can be told."""
        return self.trust, self.registration, self.scope


@dataclass(frozen=True, slots=True)
class VersionSettings:
    """All that telling the version can be told."""

    showing: OutputFormat


@dataclass(frozen=True, slots=True)
class AnswerFlags:
    """How answers are shown."""

    explain: Annotated[
        bool, Flag("explain", SWITCH, "false", "show every decision with its reason")
    ]
    decode: Annotated[bool, Flag("decode", SWITCH, "false", "show the patch as JSON, not base64")]
    output: AsJson


@dataclass(frozen=True, slots=True)
class AdmitSettings:
    """All that answering reviews without a server can be told."""

    answering: AnswerFlags
    decisions: Decisions
    offline: Offline
    logging: Logging
    reviews: Annotated[
        tuple[str, ...], Rest("REVIEW...", "files with AdmissionReviews; - reads standard input")
    ]


@dataclass(frozen=True, slots=True)
class Making:
    """Certificates to be made."""

    folder: Annotated[
        Path,
        Flag("certs-dir", PATH, "certs", "folder for the three files"),
    ]
    service: Annotated[
        str, Flag("webhook-service", TEXT, "vpa-webhook", "service under whose names they are good")
    ]
    namespace: Annotated[
        str, Flag("namespace", TEXT, OWN_NAMESPACE, "namespace of the service", "NAMESPACE")
    ]
    days: Annotated[int, Flag("days", whole(1, 3650), "365", "how long they are good")]


@dataclass(frozen=True, slots=True)
class CertsSettings:
    """All that making certificates can be told."""

    making: Making
    showing: OutputFormat
