"""The check of an installation, as a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from app.commands.flags import DoctorSettings
from app.diagnosis.core.checkup import checkup
from app.diagnosis.core.facts import Check, Finding, Findings, Level
from app.diagnosis.installation import gather_facts
from app.kube.client import connect
from app.kube.transport import Deadlines
from app.model.fields import Json
from app.output import Line, Piece, Report, Text, Tone
from app.ports import Clock

_TONES: Final = {
    Level.FINE: Tone.GOOD,
    Level.NOTE: Tone.PLAIN,
    Level.WARNING: Tone.CAREFUL,
    Level.SERIOUS: Tone.BAD,
    Level.UNKNOWN: Tone.CAREFUL,
}
_ORDER: Final = (Level.SERIOUS, Level.UNKNOWN, Level.WARNING, Level.NOTE, Level.FINE)
_BURST: Final = 500.0  # short questions, one after the other
# An API server may wait for two webhooks, half a minute for each.
_DEADLINES: Final = Deadlines(read_seconds=70.0, call_seconds=70.0)
_MOST_SHOWN: Final = 10  # findings of one check and level, in a table
_LEVEL_WIDTH: Final = max(map(len, Level)) + 2
_CHECK_WIDTH: Final = 13


def doctor_report(settings: DoctorSettings, clock: Clock) -> Report:
    """Look at an installation, and judge it."""
    reach = settings.cluster
    cluster = connect(reach.kubeconfig, reach.context, _BURST, _BURST, deadlines=_DEADLINES)
    try:
        facts = gather_facts(settings.examining.namespace, reach, cluster, clock)
    finally:
        cluster.close()
    return findings_report(checkup(facts, is_before=settings.examining.is_before))


def findings_report(found: Findings) -> Report:
    """Return findings as lines with their commands, and as objects."""
    lines = [
        line
        for check, several in found.items()
        for finding in _few(several)
        for line in _lines(check, finding)
    ]
    every = [finding for several in found.values() for finding in several]
    counts = Counter(finding.level for finding in every)
    told = ", ".join(
        _count(counts[level], level) + _where(found, level) for level in _ORDER if counts[level]
    )
    is_bad = counts[Level.SERIOUS] > 0
    lines.append((Piece(told, Tone.BAD if is_bad else Tone.STRONG),))
    items = [_item(check, finding) for check, several in found.items() for finding in several]
    names = [finding.about for finding in every if finding.level is not Level.FINE]
    return Report(Text(lines), items, names, is_bad=is_bad)


def _few(several: Iterable[Finding]) -> Iterator[Finding]:
    """Yield what people can read: of many findings alike the first, and how many there are."""
    counts = Counter[Level]()
    for finding in several:
        counts[finding.level] += 1
        if counts[finding.level] <= _MOST_SHOWN:
            yield finding
    for level, count in counts.items():
        if count > _MOST_SHOWN:
            yield Finding(level, f"{count - _MOST_SHOWN} more", "not shown here, but by -o json")


def _where(found: Findings, level: Level) -> str:
    """Return the checks to look at first."""
    if level not in (Level.SERIOUS, Level.UNKNOWN):
        return ""
    checks = (
        check for check, several in found.items() if any(one.level is level for one in several)
    )
    return f" ({', '.join(checks)})"


def _count(count: int, level: Level) -> str:
    ending = "s" if count > 1 and level in (Level.WARNING, Level.NOTE) else ""
    return f"{count} {level}{ending}"


def _lines(check: Check, finding: Finding) -> Iterator[Line]:
    yield (
        Piece(finding.level.ljust(_LEVEL_WIDTH), _TONES[finding.level]),
        Piece(check.ljust(_CHECK_WIDTH)),
        Piece(f"{finding.about}: {finding.message}"),
    )
    if finding.fix and finding.level is not Level.FINE:
        yield Piece(" " * _LEVEL_WIDTH), Piece(f"$ {finding.fix}", Tone.STRONG)


def _item(check: Check, finding: Finding) -> Json:
    told = {
        "check": str(check),
        "level": str(finding.level),
        "about": finding.about,
        "message": finding.message,
        "fix": finding.fix,
    }
    return {key: value for key, value in told.items() if value}
