"""The check of an installation, as a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from app.commands.flags import DoctorSettings
from app.diagnosis.core.autoscalers import of_vpas
from app.diagnosis.core.checkup import checkup
from app.diagnosis.core.facts import Check, Facts, Finding, Findings, Level, Unasked
from app.diagnosis.core.vpa_problems import vpa_key
from app.diagnosis.installation_facts import file_facts, gather_facts
from app.kube.client import connect
from app.kube.transport import Deadlines
from app.model.errors import BadObject, BadSetting
from app.model.fields import Json, labels_at, object_at
from app.model.selectors import Selector
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
    reach, selector = settings.cluster, settings.judging.selector
    if settings.offline.objects:
        if settings.examining.is_before:
            raise BadSetting("--before is about a cluster; leave out --objects")
        facts, is_partial = file_facts(settings.offline, reach, clock)
        judged = {Check.VPAS: tuple(of_vpas(facts))}
        report = findings_report(_selected(judged, facts, selector))
        return replace(report, is_partial=is_partial)
    cluster = connect(reach.kubeconfig, reach.context, _BURST, _BURST, deadlines=_DEADLINES)
    try:
        facts = gather_facts(settings.examining.namespace, reach, cluster, clock)
    finally:
        cluster.close()
    found = checkup(facts, is_before=settings.examining.is_before)
    return findings_report(_selected(found, facts, selector))


def _selected(found: Findings, facts: Facts, selector: Selector | None) -> Findings:
    """Return findings with those alone of the VPAs that have labels.

    Raises:
        BadSetting: no VPA has them.
    """
    if selector is None or isinstance(facts.pods, Unasked):
        return found
    chosen = {
        f"vpa/{name} -n {namespace}"
        for item in facts.pods.written
        for namespace, name in [vpa_key(item)]
        if selector.matches(_labels(item))
    }
    if not chosen:
        raise BadSetting(f"no VPA has the labels {selector}")
    kept = [one for one in found[Check.VPAS] if one.about in chosen]
    fine = Finding(Level.FINE, "vpa", f"{len(chosen)} with the labels {selector} in order")
    return {**found, Check.VPAS: kept or [fine]}


def _labels(item: Json) -> Mapping[str, str]:
    try:
        return labels_at(object_at(item, "metadata", ""), "labels", "metadata")
    except BadObject:
        return {}


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
