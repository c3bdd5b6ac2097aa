"""Findings: what was looked at, how serious it is, and the command that mends it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How serious a finding is."""

    FINE = "fine"
    NOTE = "note"  # worth knowing
    WARNING = "warning"  # something works less well than it could
    SERIOUS = "serious"  # something does not work
    UNKNOWN = "unknown"  # nobody could look


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

    check: Check
    level: Level
    about: str  # the object, as kubectl calls it
    message: str
    fix: str = ""  # a command to be pasted
    is_absence: bool = False  # what an installation will bring


@dataclass(frozen=True, slots=True)
class Unasked:
    """A fact that could not be had, and why."""

    why: str
    is_refused: bool = False  # whoever asked may not know it


def unknown(check: Check, about: str, fact: Unasked) -> Finding:
    """Return the finding for a fact that could not be had."""
    return Finding(check, Level.UNKNOWN, about, f"could not be looked at: {fact.why}")
