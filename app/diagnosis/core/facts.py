"""Facts about an installation, and findings: how serious one is, and the command that mends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

from app.admission.core.rotation import Generation
from app.diagnosis.core.members import FoundByNamespace
from app.model.fields import Json
from app.model.snapshot import Snapshot

T = TypeVar("T")


class Level(StrEnum):
    """How serious a finding is."""

    FINE = "fine"
    NOTE = "note"  # worth knowing
    WARNING = "warning"  # something works less well than it could
    SERIOUS = "serious"  # something does not work
    UNKNOWN = "unknown"  # it could not be looked at


class Check(StrEnum):
    """What is looked at."""

    SERVER = "Server"
    CLOCK = "Clock"
    DEFINITIONS = "Definitions"
    WEBHOOK = "Webhook"
    CERTIFICATE = "Certificate"
    LEASES = "Leases"
    METRICS = "Metrics"
    COMPONENTS = "Components"
    RIGHTS = "Rights"
    VPAS = "VPAs"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one object."""

    level: Level
    about: str  # the object, as kubectl calls it
    message: str
    fix: str = ""  # a command to be pasted
    is_absence: bool = False  # what an installation will bring

    @property
    def sentence(self) -> str:
        """The message, with the command below it if there is one."""
        return f"{self.message}\n  $ {self.fix}" if self.fix else self.message


Findings = Mapping[Check, Sequence[Finding]]


@dataclass(frozen=True, slots=True)
class Unasked:
    """A fact that could not be had, and why."""

    why: str
    is_refused: bool = False  # the asking account may not know it


class CouldNotLook(Exception):
    """A check lacks a fact; it ends with a finding that says so."""

    def __init__(self, about: str, fact: Unasked) -> None:
        super().__init__(fact.why)
        self.about, self.fact = about, fact


def known(fact: T | Unasked, about: str) -> T:
    """Return a fact about something.

    Raises:
        CouldNotLook: it could not be had.
    """
    if isinstance(fact, Unasked):
        raise CouldNotLook(about, fact)
    return fact


def unknown(about: str, fact: Unasked) -> Finding:
    """Return the finding for a fact that could not be had."""
    return Finding(Level.UNKNOWN, about, f"could not be looked at: {fact.why}")


Objects = Sequence[Json] | Unasked
OWN_SECRET: Final = "vpa-tls-certs"
_NOT_ASKED = Unasked("it was not asked for")


class TrialOutcome(StrEnum):
    """What became of a VPA with a mistake that only a webhook would see."""

    REFUSED = "refused"  # as it should be
    PASSED = "passed"  # no webhook looked at it
    NOT_CALLED = "not called"  # the API server tried to ask the webhook and could not


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The outcome of a trial, what the API server said, and where it was asked."""

    trial: TrialOutcome
    said: str = ""
    namespace: str = "default"


@dataclass(frozen=True, slots=True)
class AccountRight:
    """Whether an account may do something."""

    account: str
    verb: str
    what: str  # resource, with its group
    why: str  # what it is needed for
    process: str = ""  # whose account it is; empty for the account that asks
    document: str = ""  # of the manifests, that grants it
    scales: bool = False  # whether it is to read what scales horizontally
    is_allowed: bool = False


@dataclass(frozen=True, slots=True)
class Pods:
    """VPAs, pods and owners, and what could not be read of them."""

    snapshot: Snapshot = field(default_factory=Snapshot)
    looked_up: FoundByNamespace = field(default_factory=dict)
    problems: Sequence[str] = ()
    written: Sequence[Json] = ()  # the VPAs as they came


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found; what was not asked for has its usual value."""

    now: datetime
    namespace: str = "kube-system"  # where our processes live
    version: str | Unasked = ""  # such as v1.36.3
    is_simulated: bool = False  # whether it is the cluster of `plumbline run`
    core_resources: frozenset[str] | Unasked = frozenset()  # of v1, with subresources
    # Of what scales horizontally: the versions that are served, by the one that is read.
    scalers: Mapping[str, Sequence[str]] | Unasked = field(default_factory=dict)
    server_time: datetime | Unasked = _NOT_ASKED
    definitions: Objects = ()
    wanted_definitions: Sequence[Json] = ()
    mutating: Objects = ()
    validating: Objects = ()
    endpoints: Mapping[tuple[str, str], int | Unasked] = field(default_factory=dict)  # by service
    tried: TrialResult | Unasked = _NOT_ASKED
    secret: str = OWN_SECRET  # that holds the certificate in use
    is_given: bool = False  # by others, who renew it
    certificate: Generation | Unasked | None = None
    leases: Objects = ()
    metrics: Objects = ()
    deployments: Objects = ()
    rights: Sequence[AccountRight] | Unasked = ()  # of the account that asks
    accounts: Sequence[AccountRight] | Unasked = ()  # rights of the processes' accounts
    pods: Pods | Unasked = field(default_factory=Pods)
