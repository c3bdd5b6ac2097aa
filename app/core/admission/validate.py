"""The verdict on a VPA that somebody creates or updates.

Strategy: read, judge, and tell everything at once. Whatever is wrong, an update that changes only
metadata passes with warnings if the object is stored that way: it can still be labelled, and lose
a finalizer, however it got in. Nothing is refused that writes no spec: deletions, subresources,
and the metadata of an object that is on its way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.admission.check_spec import spec_findings
from app.core.admission.overlap import Disjointness, overlap_findings, wanted
from app.core.admission.problems import STORED_TOO, Caution, Problem, denial, first
from app.core.admission.written import Written, is_exempt, read_written
from app.model.fields import Object
from app.model.gates import Gates
from app.model.review import Answer, Request
from app.model.vpa import VPA_GROUP, VPA_KIND, UpdateMode, Vpa

_MOST_FIELDS_AUDITED: Final = 10
_MOST_WARNINGS: Final = 50


class Phase(StrEnum):
    """When an API server asks; only the earlier phase may change the object."""

    MUTATING = "mutating"
    VALIDATING = "validating"


class VpaReason(StrEnum):
    """What became of a VPA, in a word."""

    EXEMPT = "Exempt"  # writes no spec
    ACCEPTED = "Accepted"
    DEFAULTED = "Defaulted"
    TOLERATED = "Tolerated"  # invalid, and stored that way
    SIBLINGS_UNKNOWN = "SiblingsUnknown"  # accepted, but nobody knows whether it overlaps another
    UNREADABLE = "Unreadable"
    INVALID = "Invalid"
    OVERLAPPING = "Overlapping"  # nothing else is wrong


@dataclass(frozen=True, slots=True)
class ValidationRules:
    """What can be set about validation."""

    disjointness: Disjointness = Disjointness.ENFORCE


@dataclass(frozen=True, slots=True)
class VpaVerdict:
    """What is decided about a VPA, and why; it is allowed if it has no problems."""

    reason: VpaReason
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Object, ...] = ()
    claim: Vpa | None = None  # takes pods from now on, to be noted until it is stored

    @property
    def allowed(self) -> bool:
        """Whether the object may be stored."""
        return not self.problems

    @property
    def audit(self) -> Mapping[str, str]:
        """What goes into the API server's audit log."""
        fields = list(dict.fromkeys(problem.path for problem in self.problems))
        found = {"reason": self.reason.value}
        if fields:
            found["fields"] = ", ".join(first(fields, _MOST_FIELDS_AUDITED))
        return found

    def answer(self, request: Request) -> Answer:
        """Return the answer to the review that was judged."""
        kind, group = request.kind.word or VPA_KIND, request.resource.group or VPA_GROUP
        status = denial(self.problems, kind, group, request.name) if self.problems else None
        return Answer(self.allowed, self.patch, status, self.warnings, self.audit)


def review_vpa(
    request: Request,
    gates: Gates,
    siblings: Sequence[Vpa] | None,
    rules: ValidationRules,
    *,
    phase: Phase,
) -> VpaVerdict:
    """Judge a review of a VPA; siblings are the VPAs of its namespace, None if not readable."""
    if is_exempt(request):
        return VpaVerdict(VpaReason.EXEMPT)
    written = read_written(request)
    if written.new is None or written.unreadable:
        return _not_as_asked(written, VpaReason.UNREADABLE, written.unreadable)
    found = tuple(spec_findings(written.new, written.old, gates))
    overlap = tuple(overlap_findings(written, siblings, rules.disjointness))
    together = (*found, *overlap)
    if any(isinstance(item, Problem) for item in together):
        is_invalid = any(isinstance(item, Problem) for item in found)
        reason = VpaReason.INVALID if is_invalid else VpaReason.OVERLAPPING
        return _not_as_asked(written, reason, together)
    vpa, asked = written.new.vpa, wanted(written, rules.disjointness)
    patch = _defaults(request, vpa) if phase is Phase.MUTATING else ()
    claims = asked is not None and asked.is_decisive and not request.dry_run and vpa.name
    return VpaVerdict(
        reason=_accepted(is_blind=asked is not None and siblings is None, is_patched=bool(patch)),
        warnings=_warnings(together),
        patch=patch,
        claim=vpa if claims else None,
    )


def _accepted(*, is_blind: bool, is_patched: bool) -> VpaReason:
    if is_blind:
        return VpaReason.SIBLINGS_UNKNOWN
    return VpaReason.DEFAULTED if is_patched else VpaReason.ACCEPTED


def _not_as_asked(
    written: Written, reason: VpaReason, found: Sequence[Problem | Caution]
) -> VpaVerdict:
    """Refuse for the problems found, unless refusing would only keep them as they are."""
    if not written.is_tolerable:
        problems = tuple(item for item in found if isinstance(item, Problem))
        return VpaVerdict(reason, problems, _warnings(found))
    passed = [Caution.of(item, STORED_TOO) if isinstance(item, Problem) else item for item in found]
    return VpaVerdict(VpaReason.TOLERATED, warnings=_warnings(passed))


def _warnings(found: Iterable[Problem | Caution]) -> tuple[str, ...]:
    texts = list(dict.fromkeys(str(item) for item in found if isinstance(item, Caution)))
    return tuple(first(texts, _MOST_WARNINGS))


def _defaults(request: Request, vpa: Vpa) -> tuple[Object, ...]:
    """Write out the default update policy; a VPA without any spec has no place for it."""
    spec = request.new.get("spec") if isinstance(request.new, dict) else None
    if vpa.update_policy is not None or spec is None:
        return ()
    value = {"updateMode": UpdateMode.RECREATE.value}
    return ({"op": "add", "path": "/spec/updatePolicy", "value": value},)
