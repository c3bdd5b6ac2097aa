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
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.core.admission.problems import Caution, Problem, Verdicts, forbidden, quoted
from app.core.admission.written import SELECTOR_PATH, Version, Written, is_exempt, read_written
from app.model.review import Request
from app.model.selectors import Relation, relation
from app.model.vpa import TargetReference, Vpa

TARGET_PATH: Final = "spec.targetRef"


class Disjointness(StrEnum):
    """What becomes of a VPA that overlaps another."""

    ENFORCE = "enforce"
    WARN = "warn"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class SiblingsWanted:
    """A question for the other VPAs of a namespace.

    Reviews that ask with the same namespace, kind and name concern each other and have to be
    judged one after the other. API groups take no part: an absent one equals any.
    """

    namespace: str
    kind: str
    name: str
    is_decisive: bool  # a refusal may follow: read them from the API server, not from a cache


def needs_siblings(request: Request, mode: Disjointness) -> SiblingsWanted | None:
    """Tell whether the verdict on a review depends on other VPAs, and on which."""
    return None if is_exempt(request) else wanted(read_written(request), mode)


def wanted(written: Written, mode: Disjointness) -> SiblingsWanted | None:
    """Tell the same of a review that has been read."""
    new = written.new
    if mode is Disjointness.OFF or written.unreadable or new is None or new.selector_flaws:
        return None
    target = new.vpa.target
    if target is None or not target.kind or not target.name or not _claims_pods(new.vpa):
        return None
    return SiblingsWanted(
        namespace=new.vpa.namespace,
        kind=target.kind,
        name=target.name,
        is_decisive=mode is Disjointness.ENFORCE and _claims_anew(new, written.old),
    )


def overlap_findings(
    written: Written, siblings: Sequence[Vpa] | None, mode: Disjointness
) -> Verdicts:
    """Judge a VPA beside the others of its namespace, None if those could not be read."""
    asked = wanted(written, mode)
    if asked is None or written.new is None:
        return
    if siblings is None:
        text = "the other VPAs could not be read, so nobody knows whether one takes the same pods"
        yield Caution(TARGET_PATH, text)
        return
    for problem in dict.fromkeys(conflicts(written.new.vpa, siblings)):
        yield problem if asked.is_decisive else Caution(problem.path, problem.detail)


def conflicts(vpa: Vpa, others: Iterable[Vpa]) -> Iterator[Problem]:
    """Yield a problem for each VPA that could claim a pod together with this one."""
    if vpa.target is None or not _claims_pods(vpa):
        return
    for other in sorted(others, key=lambda other: other.strength):
        if not _is_sibling(vpa, other):
            continue
        found = relation(vpa.selector, other.selector)
        if found is not Relation.DISJOINT:
            yield _conflict(vpa, other, found, f"{vpa.target.kind}/{vpa.target.name}")


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


def _claims_anew(new: Version, old: Version | None) -> bool:
    if old is None or old.selector_flaws or old.vpa.target is None or new.vpa.target is None:
        return True
    is_same_target = old.vpa.target.key == new.vpa.target.key
    return not is_same_target or old.vpa.selector != new.vpa.selector


def _takes_all(vpa: Vpa) -> bool:
    return vpa.selector is None or vpa.selector.is_everything


def _conflict(vpa: Vpa, other: Vpa, found: Relation, target: str) -> Problem:
    who, path = f"VerticalPodAutoscaler {quoted(other.name)}", SELECTOR_PATH
    match found, _takes_all(vpa), _takes_all(other):
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
    return forbidden(path, f"{text} ({found})")


# Far more than storing takes, far less than anybody needs to change his mind and delete it again.
LIFETIME: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Claims:
    """The VPAs let pass lately, each with the moment it was."""

    noted: tuple[tuple[datetime, Vpa], ...] = ()

    def adding(self, vpa: Vpa, now: datetime) -> Claims:
        """Return the claims with one more, less those that are over."""
        return Claims((*self._held(now), (now, vpa)))

    def held(self, now: datetime) -> tuple[Vpa, ...]:
        """Return the VPAs that may be on their way to being stored."""
        return tuple(vpa for _, vpa in self._held(now))

    def _held(self, now: datetime) -> tuple[tuple[datetime, Vpa], ...]:
        return tuple(note for note in self.noted if now - note[0] < LIFETIME)
