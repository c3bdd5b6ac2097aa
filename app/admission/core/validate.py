"""The verdict on a VPA that is created or updated.

Strategy: all errors are reported at once. An update that changes only metadata passes with
warnings if the stored object has the same errors: it can still be labelled, and lose a finalizer.
Requests that write no spec are never refused: deletions, subresources, and the metadata of a
terminating object.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import orjson

from app.admission.core.check_spec import boost_warnings, pause_warnings, spec_findings
from app.admission.core.field_errors import STORED_TOO, FieldError, FieldWarning, denial, truncated
from app.admission.core.overlap import Disjointness, overlap_findings, siblings_wanted
from app.admission.core.vpa_review import VpaReview, is_exempt, read_vpa_review
from app.model.fields import Json, Object
from app.model.gates import FeatureGates, ServerVersion
from app.model.review import AdmissionRequest
from app.model.snapshot import EMPTY_VIEW, NamespaceView
from app.model.update_modes import DEFAULT_MODE
from app.model.vpa import VPA_GROUP, VPA_KIND, Vpa

_MOST_FIELDS_AUDITED: Final = 10
_MOST_WARNINGS: Final = 50


class Phase(StrEnum):
    """When an API server asks; only the earlier phase may change the object."""

    MUTATING = "mutating"
    VALIDATING = "validating"


class VpaReason(StrEnum):
    """The outcome of a review of a VPA."""

    EXEMPT = "Exempt"  # writes no spec
    ACCEPTED = "Accepted"
    DEFAULTED = "Defaulted"
    TOLERATED = "Tolerated"  # invalid, and stored that way
    SIBLINGS_UNKNOWN = "SiblingsUnknown"  # accepted without knowing whether it overlaps another
    UNREADABLE = "Unreadable"
    INVALID = "Invalid"
    OVERLAPPING = "Overlapping"  # nothing else is wrong


@dataclass(frozen=True, slots=True)
class VpaVerdict:
    """The decision about a VPA, with its reason; a VPA without errors is allowed."""

    reason: VpaReason
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Object, ...] = ()
    claim: Vpa | None = None  # claims pods from now on, to be remembered until it is stored

    @property
    def allowed(self) -> bool:
        """Whether the object may be stored."""
        return not self.errors

    @property
    def audit(self) -> Mapping[str, str]:
        """What goes into the API server's audit log."""
        fields = list(dict.fromkeys(error.path for error in self.errors))
        annotations = {"reason": self.reason.value}
        if fields:
            annotations["fields"] = ", ".join(truncated(fields, _MOST_FIELDS_AUDITED))
        return annotations

    def response(self, request: AdmissionRequest) -> Json:
        """Return the `response` of the AdmissionReview that was judged."""
        response: Json = {"uid": request.uid, "allowed": self.allowed}
        if self.errors:
            kind, group = request.kind.word or VPA_KIND, request.resource.group or VPA_GROUP
            response["status"] = denial(self.errors, kind, group, request.name)
        if self.patch:
            response["patch"] = b64encode(orjson.dumps(self.patch)).decode()
            response["patchType"] = "JSONPatch"
        response["auditAnnotations"] = self.audit
        if self.warnings:
            response["warnings"] = self.warnings
        return response


def review_vpa(
    request: AdmissionRequest,
    gates: FeatureGates,
    siblings: Sequence[Vpa] | None,
    disjointness: Disjointness,
    *,
    phase: Phase,
    view: NamespaceView = EMPTY_VIEW,
    server: ServerVersion | None = None,
) -> VpaVerdict:
    """Judge a review of a VPA.

    Args:
        request: the review.
        gates: the feature gates that are on.
        siblings: the VPAs of its namespace, None if they could not be read.
        disjointness: what happens to a VPA that overlaps another.
        phase: when it is asked.
        view: what is known of its namespace.
        server: the version of the API server, None if it is not known.
    """
    if is_exempt(request):
        return VpaVerdict(VpaReason.EXEMPT)
    review = read_vpa_review(request)
    if review.new is None or review.unreadable:
        return _refused_or_tolerated(review, VpaReason.UNREADABLE, review.unreadable)
    spec = tuple(spec_findings(review.new, review.old, gates))
    overlap = tuple(overlap_findings(review, siblings, disjointness))
    findings = (*spec, *overlap)
    if any(isinstance(item, FieldError) for item in findings):
        is_invalid = any(isinstance(item, FieldError) for item in spec)
        reason = VpaReason.INVALID if is_invalid else VpaReason.OVERLAPPING
        return _refused_or_tolerated(review, reason, findings)
    vpa, asked = review.new.vpa, siblings_wanted(review, disjointness)
    patch = _defaults(request, vpa) if phase is Phase.MUTATING else ()
    claims = asked is not None and asked.is_decisive and not request.dry_run and vpa.name
    return VpaVerdict(
        reason=_accepted(is_blind=asked is not None and siblings is None, is_patched=bool(patch)),
        warnings=_warnings((*findings, *pause_warnings(vpa), *boost_warnings(vpa, view, server))),
        patch=patch,
        claim=vpa if claims else None,
    )


def _accepted(*, is_blind: bool, is_patched: bool) -> VpaReason:
    if is_blind:
        return VpaReason.SIBLINGS_UNKNOWN
    return VpaReason.DEFAULTED if is_patched else VpaReason.ACCEPTED


def _refused_or_tolerated(
    review: VpaReview, reason: VpaReason, findings: Sequence[FieldError | FieldWarning]
) -> VpaVerdict:
    """Refuse because of these errors, unless all of them are stored already."""
    if not review.is_tolerable:
        errors = tuple(item for item in findings if isinstance(item, FieldError))
        return VpaVerdict(reason, errors, _warnings(findings))
    passed = [
        FieldWarning.tolerated(item, STORED_TOO) if isinstance(item, FieldError) else item
        for item in findings
    ]
    return VpaVerdict(VpaReason.TOLERATED, warnings=_warnings(passed))


def _warnings(findings: Iterable[FieldError | FieldWarning]) -> tuple[str, ...]:
    texts = list(dict.fromkeys(str(item) for item in findings if isinstance(item, FieldWarning)))
    return tuple(truncated(texts, _MOST_WARNINGS))


def _defaults(request: AdmissionRequest, vpa: Vpa) -> tuple[Object, ...]:
    """Add the default update policy, unless the VPA has no spec at all."""
    spec = request.new.get("spec") if isinstance(request.new, dict) else None
    if vpa.update_policy is not None or spec is None:
        return ()
    value = {"updateMode": DEFAULT_MODE.value}
    return ({"op": "add", "path": "/spec/updatePolicy", "value": value},)
