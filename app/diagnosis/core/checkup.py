"""All checks together, in the order in which one would mend what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from app.diagnosis.core.api_server import of_clock, of_definitions, of_rights, of_server
from app.diagnosis.core.autoscalers import of_vpas
from app.diagnosis.core.components import of_components
from app.diagnosis.core.facts import (
    Check,
    CouldNotLook,
    Facts,
    Finding,
    Findings,
    Level,
    Unasked,
    unknown,
)
from app.diagnosis.core.liveness import of_certificate, of_leases, of_metrics
from app.diagnosis.core.registrations import of_webhook

_CHECKS: Final[Mapping[Check, Callable[[Facts], Iterator[Finding]]]] = {
    Check.SERVER: of_server,
    Check.CLOCK: of_clock,
    Check.DEFINITIONS: of_definitions,
    Check.COMPONENTS: of_components,
    Check.RIGHTS: of_rights,
    Check.WEBHOOK: of_webhook,
    Check.CERTIFICATE: of_certificate,
    Check.LEASES: of_leases,
    Check.METRICS: of_metrics,
    Check.VPAS: of_vpas,
}


def checkup(facts: Facts, *, is_before: bool = False) -> Findings:
    """Return all findings; before an installation what it will bring is no problem."""
    return {
        check: tuple(_softened(one) if is_before else one for one in _findings(check, facts))
        for check in _CHECKS
    }


def _findings(check: Check, facts: Facts) -> Iterator[Finding]:
    """Check by the server's time, because the clock of the asking machine may be wrong."""
    if check is not Check.CLOCK and not isinstance(facts.server_time, Unasked):
        facts = replace(facts, now=facts.server_time)
    try:
        yield from _CHECKS[check](facts)
    except CouldNotLook as error:
        yield unknown(error.about, error.fact)


def _softened(finding: Finding) -> Finding:
    if not finding.is_absence:
        return finding
    return replace(finding, level=Level.NOTE, message=f"{finding.message} (not installed yet)")
