"""VPAs that claim the same pods.

Strategy: two VPAs of one target must be kept apart by their selectors, provably, for any pod
that could exist. This is checked when a VPA is created or changes what it claims; VPAs that
overlap already stay editable, with a warning. A webhook answers before the object is stored, so
of two VPAs written at the same moment neither would see the other. Therefore accepted VPAs are
remembered for about as long as an API server needs to store them, and count as siblings. Other
webhook processes do not know of them, so running pods go to the strongest VPA in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from app.admission.core.field_errors import FieldError, FieldWarning, Verdicts, forbidden, quoted
from app.admission.core.vpa_review import (
    ROLE_LEASE_PATH,
    SELECTOR_PATH,
    VpaReview,
    VpaVersion,
    is_exempt,
    read_vpa_review,
)
from app.model.review import AdmissionRequest
from app.model.role_leases import ROLE_LEASE_ANNOTATION, role_lease_of
from app.model.selectors import Relation, relation
from app.model.vpa import TargetReference, Vpa

TARGET_PATH: Final = "spec.targetRef"


class Disjointness(StrEnum):
    """What happens to a VPA that overlaps another."""

    ENFORCE = "enforce"
    WARN = "warn"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class SiblingsWanted:
    """A question for the other VPAs of a namespace.

    Reviews with the same namespace, kind and name affect each other and have to be judged one
    after the other. API groups are not compared: an absent one equals any.
    """

    namespace: str
    kind: str
    name: str
    is_decisive: bool  # a refusal may follow: a cache alone is not enough
    vpa: Vpa = field(compare=False, repr=False)  # that is to be written


def needs_siblings(request: AdmissionRequest, mode: Disjointness) -> SiblingsWanted | None:
    """Return which other VPAs the verdict on a review depends on, None if on none."""
    return None if is_exempt(request) else siblings_wanted(read_vpa_review(request), mode)


def siblings_wanted(review: VpaReview, mode: Disjointness) -> SiblingsWanted | None:
    """Return the same for a review that has been read."""
    new = review.new
    if mode is Disjointness.OFF or review.unreadable or new is None or new.selector_errors:
        return None
    target = new.vpa.target
    if target is None or not target.kind or not target.name or not _claims_pods(new.vpa):
        return None
    return SiblingsWanted(
        namespace=new.vpa.namespace,
        kind=target.kind,
        name=target.name,
        is_decisive=mode is Disjointness.ENFORCE and _claims_more(new, review.old),
        vpa=new.vpa,
    )


def overlap_findings(
    review: VpaReview, siblings: Sequence[Vpa] | None, mode: Disjointness
) -> Verdicts:
    """Judge a VPA beside the others of its namespace, None if those could not be read."""
    asked = siblings_wanted(review, mode)
    if asked is None or review.new is None:
        return
    if siblings is None:
        text = "the other VPAs could not be read, so it is unknown whether one takes the same pods"
        yield FieldWarning(TARGET_PATH, text)
        return
    for error in dict.fromkeys(conflicts(review.new.vpa, siblings)):
        yield error if asked.is_decisive else FieldWarning(error.path, error.detail)
    for other in siblings:
        if _is_sibling(review.new.vpa, other):
            yield from _other_values(review.new.vpa, other)


def conflicts(vpa: Vpa, others: Iterable[Vpa]) -> Iterator[FieldError]:
    """Yield an error for each VPA that could claim a pod together, or has another Lease."""
    if vpa.target is None:
        return
    target = f"{vpa.target.kind}/{vpa.target.name}"
    for other in rivals(vpa, others):
        overlap = relation(vpa.selector, other.selector)
        if overlap is Relation.DISJOINT:
            yield _other_lease(other, target)
        else:
            yield _conflict(vpa, other, overlap, target)


def rivals(vpa: Vpa, others: Iterable[Vpa]) -> list[Vpa]:
    """Return the VPAs of the same target that this one is in conflict with, the strongest first.

    They could claim a pod together, or give its label by another Lease.
    """
    if not _claims_pods(vpa):
        return []
    siblings = [other for other in others if _is_sibling(vpa, other)]
    found = (
        one
        for one in siblings
        if relation(vpa.selector, one.selector) != Relation.DISJOINT or _contradict(vpa, one)
    )
    return sorted(found, key=lambda other: other.precedence)


def _contradict(vpa: Vpa, other: Vpa) -> bool:
    """Whether two VPAs give a label by different Leases, or with different values."""
    mine = role_lease_of(vpa.annotations)
    theirs = role_lease_of(other.annotations) if mine is not None else None
    return mine is not None and theirs is not None and mine.key == theirs.key and mine != theirs


def _other_values(vpa: Vpa, other: Vpa) -> Iterator[FieldWarning]:
    """Warn of a selector that takes no value which pods get by the Lease of the other VPA."""
    for naming, selecting in ((vpa, other), (other, vpa)):
        asked, selector = role_lease_of(naming.annotations), selecting.selector
        if asked is None or selector is None or ROLE_LEASE_ANNOTATION in selecting.annotations:
            continue
        values = asked.leader, asked.follower
        if not any(selector.takes(asked.key, value) for value in values):
            who, lease = quoted(naming.name), quoted(asked.lease)
            told = f"{quoted(selecting.name)} takes neither {quoted(values[0])} nor "
            told += f"{quoted(values[1])}, one of which each pod gets by Lease {lease} of {who}, "
            yield FieldWarning(
                SELECTOR_PATH, f"{told}unless it has another label {asked.key} of its own"
            )


def _is_sibling(vpa: Vpa, other: Vpa) -> bool:
    return (
        other.namespace == vpa.namespace
        and other.name != vpa.name
        and _claims_pods(other)
        and _is_same(vpa.target, other.target)
    )


def _is_same(one: TargetReference | None, other: TargetReference | None) -> bool:
    if one is None or other is None or (one.kind, one.name) != (other.kind, other.name):
        return False
    return not one.api_version or not other.api_version or one.key == other.key


def _claims_pods(vpa: Vpa) -> bool:
    is_empty = vpa.selector is not None and vpa.selector.is_contradictory
    return vpa.deleted is None and not is_empty


def _claims_more(new: VpaVersion, old: VpaVersion | None) -> bool:
    if old is None or old.selector_errors or old.vpa.target is None or new.vpa.target is None:
        return True
    is_same_target = old.vpa.target.key == new.vpa.target.key
    is_same_lease = role_lease_of(old.vpa.annotations) == role_lease_of(new.vpa.annotations)
    return not is_same_target or not is_same_lease or old.vpa.selector != new.vpa.selector


def _takes_all(vpa: Vpa) -> bool:
    return vpa.selector is None or vpa.selector.is_everything


def _other_lease(other: Vpa, target: str) -> FieldError:
    who, text = quoted(other.name), quoted(other.annotations[ROLE_LEASE_ANNOTATION])
    told = f"VerticalPodAutoscaler {who} of {target} gives the same label by {text}; "
    told += "both have to name one Lease, and one value for each role"
    return forbidden(ROLE_LEASE_PATH, told)


def _conflict(vpa: Vpa, other: Vpa, overlap: Relation, target: str) -> FieldError:
    who, path = f"VerticalPodAutoscaler {quoted(other.name)}", SELECTOR_PATH
    match overlap, _takes_all(vpa), _takes_all(other):
        case Relation.CATCH_ALL, True, True:
            path = TARGET_PATH
            text = f"{who} takes all pods of {target} already; to share them, give both a selector"
        case Relation.CATCH_ALL, True, False:
            text = f"without a selector all pods of {target} are taken, also those of {who}"
        case Relation.CATCH_ALL, _, _:
            text = f"{who} has no selector and takes all pods of {target}"
        case Relation.DIFFERENT_KEYS, _, _:
            text = f"a pod of {target} may match {who} too, which asks for other labels"
        case _:
            text = f"a pod of {target} may match {who} too, whose labels can be the same"
    return forbidden(path, f"{text} ({overlap})")


# Far longer than storing takes, far shorter than the time until a user deletes the VPA again.
LIFETIME_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 30.0  # from a look at what is stored to the verdict


@dataclass(frozen=True, slots=True)
class PendingVpas:
    """VPAs that were accepted a moment ago and may not be stored yet; times are monotonic."""

    accepted: tuple[tuple[float, Vpa], ...] = ()

    @property
    def weight(self) -> int:
        """How much they make us hold, roughly: a VPA, a requirement and a value count as one."""
        requirements = [
            requirement
            for _, vpa in self.accepted
            for requirement in (vpa.selector.requirements if vpa.selector else ())
        ]
        values = sum(len(requirement.values) for requirement in requirements)
        return len(self.accepted) + len(requirements) + values

    def adding(self, vpa: Vpa, now: float) -> PendingVpas:
        """Return these with what counts of one more, without those no review asks for any more."""
        kept = {key: text for key, text in vpa.annotations.items() if key == ROLE_LEASE_ANNOTATION}
        claim = replace(vpa, annotations=kept, policies=None, recommendation=None)
        claim = replace(claim, conditions=(), recommenders=())
        return PendingVpas((*self._unexpired(now - LONGEST_SECONDS), (now, claim)))

    def pending(self, since: float) -> tuple[Vpa, ...]:
        """Return the VPAs that may be missing in what was stored at some time."""
        return tuple(vpa for _, vpa in self._unexpired(since))

    def _unexpired(self, since: float) -> tuple[tuple[float, Vpa], ...]:
        return tuple(entry for entry in self.accepted if since - entry[0] < LIFETIME_SECONDS)
