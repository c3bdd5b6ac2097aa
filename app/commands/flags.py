"""Settings of the commands that ask and end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from app.admission.flags import Decisions, RegistrationFlags
from app.diagnosis.flags import Circumstances, at_flag
from app.flags.flags import (
    PATH,
    SELECTOR,
    SWITCH,
    TEXT,
    FlagKind,
    flag,
    optional,
    rest,
    whole,
)
from app.flags.shared import (
    OWN_NAMESPACE,
    ClusterAccess,
    Demo,
    Logging,
    Offline,
    OutputFormat,
    Scope,
    Selection,
    gates_flag,
    output_flag,
)
from app.model.errors import BadSetting
from app.model.gates import FeatureGates
from app.model.selectors import Selector
from app.output import Output
from app.updater.flags import AdmissionCheck, Deciding, Disruption, Thresholds, interval_flag


def _certificate(texts: Sequence[str]) -> str:
    if not re.fullmatch(r"([a-z0-9.-]+/[a-z0-9.-]+)?", texts[-1], re.ASCII):
        raise ValueError(texts[-1])
    return texts[-1]


CERTIFICATE: Final = FlagKind("NAMESPACE/NAME", "namespace/name", _certificate)


def _image(texts: Sequence[str]) -> str:
    if not re.fullmatch(r"([\w.:/-]+/)?[\w.-]+([:@][\w.:-]+)?|", texts[-1], re.ASCII):
        raise ValueError(texts[-1])
    return texts[-1]


IMAGE: Final = FlagKind("IMAGE", "a name such as registry.example.com/plumbline:0.1.0", _image)


@dataclass(frozen=True, slots=True)
class PlannedRound:
    """When and how often."""

    at: datetime | None = at_flag()
    interval: timedelta = interval_flag()


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """All that asking for the plan can be told."""

    selection: Selection
    showing: OutputFormat
    offline: Offline
    demo: Demo
    cluster: ClusterAccess
    asking: PlannedRound
    deciding: Deciding
    disruption: Disruption
    thresholds: Thresholds
    admission: AdmissionCheck
    scope: Scope
    logging: Logging
    vpas: tuple[str, ...] = rest("[VPA...]", "names of VPAs; without any the pods of all are shown")


@dataclass(frozen=True, slots=True)
class ExplainSettings:
    """All that explaining can be told; how the updater is started should be told alike."""

    selection: Selection
    showing: OutputFormat
    offline: Offline
    demo: Demo
    cluster: ClusterAccess
    asking: Circumstances
    deciding: Deciding
    disruption: Disruption
    thresholds: Thresholds
    admission: AdmissionCheck
    names: tuple[str, ...] = rest(
        "[POD|VPA|WORKLOAD...]",
        "what to explain: names of pods or VPAs, or pod/NAME, vpa/NAME, deploy/NAME, sts/NAME "
        "and so on; without any the pods that --selector chooses",
    )


@dataclass(frozen=True, slots=True)
class Examining:
    """What is looked at."""

    namespace: str = flag(
        "namespace", TEXT, OWN_NAMESPACE, "namespace of the three components", short="n"
    )
    is_before: bool = flag(
        "before",
        SWITCH,
        "false",
        "before an installation: components that it will create may be missing",
    )


@dataclass(frozen=True, slots=True)
class JudgedVpas:
    """Which VPAs."""

    everywhere: bool = flag(
        "all-namespaces", SWITCH, "true", "VPAs of all namespaces, as always", short="A"
    )
    selector: Selector | None = flag(
        "selector", optional(SELECTOR), "", "only VPAs that have such labels", short="l"
    )


@dataclass(frozen=True, slots=True)
class DoctorSettings:
    """All that the check can be told."""

    examining: Examining
    judging: JudgedVpas
    showing: OutputFormat
    demo: Demo
    offline: Offline
    cluster: ClusterAccess


@dataclass(frozen=True, slots=True)
class InitSettings:
    """All that making VPAs can be told."""

    selection: Selection
    showing: Printing
    offline: Offline
    cluster: ClusterAccess
    workloads: tuple[str, ...] = rest(
        "[WORKLOAD...]", "workloads such as deploy/web; without any all that have no VPA"
    )


@dataclass(frozen=True, slots=True)
class Checking:
    """How strict it is."""

    strict: bool = flag("strict", SWITCH, "false", "end with 1 also if there are warnings alone")
    gates: FeatureGates = gates_flag()


@dataclass(frozen=True, slots=True)
class ValidateSettings:
    """All that checking files can be told."""

    checking: Checking
    showing: OutputFormat
    offline: Offline
    files: tuple[str, ...] = rest(
        "FILE...",
        "files and folders with the VPAs to check, and objects around them; - reads standard "
        "input. Objects of --objects are compared with them, and not checked",
    )


@dataclass(frozen=True, slots=True)
class Printing:
    """How it is printed."""

    output: Output = output_flag(Output.YAML)


@dataclass(frozen=True, slots=True)
class DeploymentImage:
    """What is put into Deployments."""

    image: str = flag(
        "image",
        IMAGE,
        "",
        "image of the Deployments, such as registry.example.com/plumbline:0.1.0",
    )


@dataclass(frozen=True, slots=True)
class WebhookTrust:
    """CA in the document `webhooks`, which all flags below are for as well."""

    namespace: str = flag(
        "namespace",
        TEXT,
        OWN_NAMESPACE,
        "namespace of the webhook and its service",
        "NAMESPACE",
        short="n",
    )
    ca_file: Path | None = flag(
        "client-ca-file",
        optional(PATH),
        "",
        "CA bundle that is put into the webhook configurations, PEM",
    )
    ca_from: str = flag(
        "inject-ca-from",
        CERTIFICATE,
        "",
        "Certificate whose CA cert-manager puts into them instead",
    )

    def __post_init__(self) -> None:
        if self.ca_file is not None and self.ca_from:
            raise BadSetting("--client-ca-file and --inject-ca-from exclude each other")


@dataclass(frozen=True, slots=True)
class ManifestsSettings:
    """All that printing documents can be told."""

    printing: Printing
    deployments: DeploymentImage
    trust: WebhookTrust
    registration: RegistrationFlags
    scope: Scope
    names: tuple[str, ...] = rest("DOCUMENT", "which one; `all` is what an installation needs")

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

    explain: bool = flag("explain", SWITCH, "false", "show every decision with its reason")
    decode: bool = flag("decode", SWITCH, "false", "show the patch as JSON, not base64")
    output: Output = output_flag(Output.JSON)


@dataclass(frozen=True, slots=True)
class AdmitSettings:
    """All that answering reviews without a server can be told."""

    answering: AnswerFlags
    decisions: Decisions
    offline: Offline
    logging: Logging
    reviews: tuple[str, ...] = rest(
        "REVIEW...", "files with AdmissionReviews; - reads standard input"
    )


@dataclass(frozen=True, slots=True)
class Making:
    """Certificates to be made."""

    folder: Path = flag("certs-dir", PATH, "certs", "folder for CA, certificate and key")
    service: str = flag(
        "webhook-service", TEXT, "vpa-webhook", "Service whose names the certificate carries"
    )
    namespace: str = flag("namespace", TEXT, OWN_NAMESPACE, "namespace of the service", "NAMESPACE")
    days: int = flag("days", whole(1, 3650), "365", "validity in days")


@dataclass(frozen=True, slots=True)
class CertsSettings:
    """All that making certificates can be told."""

    making: Making
    showing: OutputFormat
