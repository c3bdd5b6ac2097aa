"""All checks together, in the order in which one would mend what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from app.diagnosis.core.api_server import of_clock, of_definitions, of_rights, of_server
from app.diagnosis.core.autoscalers import of_vpas
from app.diagnosis.core.components import of_components
from app.diagnosis.core.facts import Facts, Finding, Level, Unasked
from app.diagnosis.core.liveness import of_certificate, of_leases, of_metrics
from app.diagnosis.core.registrations import of_webhook

_CHECKS: Final[Sequence[Callable[[Facts], Iterator[Finding]]]] = (
    of_server,
    of_clock,
    of_definitions,
    of_components,
    of_rights,
    of_webhook,
    of_certificate,
    of_leases,
    of_metrics,
    of_vpas,
)


def checkup(facts: Facts, *, is_before: bool = False) -> tuple[Finding, ...]:
    """Return all findings; before an installation what it will bring is no problem."""
    found = (finding for check in _CHECKS for finding in check(_timed(check, facts)))
    return tuple(_softened(finding) if is_before else finding for finding in found)


def _timed(check: Callable[[Facts], Iterator[Finding]], facts: Facts) -> Facts:
    """Return facts by the server's time, because the clock of the asking machine may be wrong."""
    server = facts.server_time
    if check is of_clock or isinstance(server, Unasked):
        return facts
    return replace(facts, now=server)


def _softened(finding: Finding) -> Finding:
    if not finding.is_absence:
        return finding
    return replace(finding, level=Level.NOTE, message=f"{finding.message} (not installed yet)")
