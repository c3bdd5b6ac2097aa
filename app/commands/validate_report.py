"""What is wrong with the VPAs in files, for people before they apply them and for pipelines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from app.commands.flags import ValidateSettings
from app.diagnosis.core.facts import Finding, Level
from app.diagnosis.core.vpa_problems import WrittenObjects, vpa_key, vpa_problems
from app.diagnosis.gathering import GatheredObjects, is_of
from app.diagnosis.written_vpas import LEVEL_WORDS, written_objects
from app.kube.files import Document, RecordedCluster, Unreadable, given_objects
from app.model.errors import BadSetting
from app.model.fields import Json
from app.output import Line, Piece, Report, Text, Tone, line
from app.ports import VPAS, Clock
from app.updater.watches import HEALTHY

_TONES: Final = {Level.SERIOUS: Tone.BAD, Level.WARNING: Tone.CAREFUL, Level.UNKNOWN: Tone.CAREFUL}
_BROKEN: Final = "object"


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """A finding, and where the object stands that it is about."""

    place: str
    finding: Finding


def validate_report(settings: ValidateSettings, clock: Clock) -> Report:
    """Judge the VPAs of files.

    Raises:
        BadSetting: no file is named, or one cannot be read.
    """
    if not settings.files:
        raise BadSetting("say what to check: files and folders with VPAs, or - for standard input")
    unread: list[Unreadable] = []
    judged = list(given_objects(map(Path, settings.files), unread))
    others = list(given_objects(settings.offline.objects, unread))
    found = list(_findings(settings, judged, others, clock))
    count = sum(map(_is_vpa, judged))
    levels = Counter(one.finding.level for one in found)
    bad = (Level.SERIOUS, Level.WARNING) if settings.checking.strict else (Level.SERIOUS,)
    notes = list(map(str, unread))
    if not count:
        notes.append("there is no VerticalPodAutoscaler in what was named")
    elif not any(_has_template(one.item) for one in (*judged, *others)):
        notes.append(
            "there is no workload among the objects, so targets and container names are not "
            "checked; name them with --objects"
        )
    return Report(
        Text([*chain.from_iterable(map(_lines, found)), _summary(levels, count)]),
        list(map(_item, found)),
        [one.finding.about for one in found],
        notes,
        is_bad=any(levels[level] for level in bad),
        is_partial=bool(unread),
    )


def _findings(
    settings: ValidateSettings,
    judged: Sequence[Document],
    others: Sequence[Document],
    clock: Clock,
) -> Iterator[PlacedFinding]:
    """Yield what is wrong with judged objects; of the others nothing is told."""
    recorded = RecordedCluster((*others, *judged))
    places = {vpa_key(one.item): one.place for one in judged if _is_vpa(one)}
    ours = {one.place for one in judged if not _is_vpa(one)}
    for problem in recorded.problems:
        if problem.place in ours:
            finding = Finding(Level.SERIOUS, _BROKEN, problem.message)
            yield PlacedFinding(problem.place, finding)
    yield from _twice(judged)
    kept = [one.item for one in (*others, *judged) if _is_vpa(one)]
    seen = GatheredObjects(recorded.snapshot, recorded, HEALTHY, kept)
    for key, finding in vpa_problems(_asked(settings, seen, clock)):
        if key in places:
            yield PlacedFinding(places[key], finding)


def _twice(judged: Iterable[Document]) -> Iterator[PlacedFinding]:
    """Yield VPAs of a name that another one has."""
    places: dict[tuple[str, str], str] = {}
    for one in filter(_is_vpa, judged):
        namespace, name = key = vpa_key(one.item)
        first = places.setdefault(key, one.place)
        if name and first != one.place:
            told = f"{first} has it too; what is applied last counts"
            finding = Finding(Level.WARNING, f"vpa/{name} -n {namespace}", told)
            yield PlacedFinding(one.place, finding)


def _asked(settings: ValidateSettings, seen: GatheredObjects, clock: Clock) -> WrittenObjects:
    return written_objects(seen, clock, settings.checking.gates)


def _is_vpa(found: Document) -> bool:
    return is_of(found.item, VPAS)


def _has_template(item: Json) -> bool:
    spec = item.get("spec")
    return isinstance(spec, dict) and ("template" in spec or "jobTemplate" in spec)


def _lines(found: PlacedFinding) -> Iterator[Line]:
    finding = found.finding
    yield (
        Piece(f"{found.place}: "),
        Piece(f"{LEVEL_WORDS[finding.level]}: ", _TONES.get(finding.level, Tone.PLAIN)),
        Piece(f"{finding.about}: {finding.message}"),
    )
    if finding.fix:
        yield line(f"  $ {finding.fix}", Tone.STRONG)


def _summary(levels: Counter[Level], count: int) -> Line:
    vpas = f"{count} VPA" if count == 1 else f"{count} VPAs"
    told = [
        f"{levels[level]} {word}{'s' if levels[level] > 1 and word != 'unknown' else ''}"
        for level, word in LEVEL_WORDS.items()
        if levels[level]
    ]
    tone = Tone.BAD if levels[Level.SERIOUS] else Tone.STRONG
    return (Piece(f"{vpas}: {', '.join(told) or 'no problem found'}", tone),)


def _item(found: PlacedFinding) -> Json:
    finding = found.finding
    return {
        "level": LEVEL_WORDS[finding.level],
        "place": found.place,
        "about": finding.about,
        "message": finding.message,
    } | ({"fix": finding.fix} if finding.fix else {})
