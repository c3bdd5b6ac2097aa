"""The installation: what doctor finds, how well the cluster is watched, and what to warn of.

Strategy: findings about VPAs are told to those who may see their namespaces; all others are about
the cluster, and told to those who may see all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.diagnosis.core.facts import Check, Finding, Findings, Level
from app.model.text import span
from app.page.core.picture import Picture, WatchLine

_ORDER: Final = (Level.SERIOUS, Level.UNKNOWN, Level.WARNING, Level.NOTE, Level.FINE)
NOT_FRESH: Final = "This is not up to date"
_IN: Final = " -n "  # stands before the namespace of what a finding is about
_VPA: Final = "vpa/"  # stands before the name of a VPA
_MOST: Final = 100  # findings of one check
_INIT: Final = "plumbline init -A | kubectl apply -f -"
_LIST: Final = "kubectl auth can-i list verticalpodautoscalers.autoscaling.k8s.io -n NAMESPACE"

MaySee = Callable[[str], bool]  # a namespace; empty: all of them


@dataclass(frozen=True, slots=True)
class CheckView:
    """The findings of one check, the most serious first."""

    check: str
    findings: Sequence[Finding]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class InstallationView:
    """What is known of the installation."""

    is_checked: bool
    counts: Mapping[str, int]  # findings by level
    checks: Sequence[CheckView]
    watches: Sequence[WatchLine]
    sees_all: bool


@dataclass(frozen=True, slots=True)
class Banner:
    """A sentence above everything else, with the command that helps."""

    text: str
    fix: str = ""
    is_bad: bool = False


def installation_view(picture: Picture, may_see: MaySee) -> InstallationView:
    """Return what a viewer may know of the installation."""
    checks = [_check_view(check, found) for check, found in _seen(picture, may_see) if found]
    checks.sort(key=lambda one: _ORDER.index(one.findings[0].level))
    counts = Counter(one.level for _, found in _seen(picture, may_see) for one in found)
    sees_all = may_see("")
    return InstallationView(
        is_checked=picture.findings is not None,
        counts={str(level): counts[level] for level in _ORDER if counts[level]},
        checks=checks,
        watches=sorted(picture.watches, key=lambda one: -one.seconds) if sees_all else (),
        sees_all=sees_all,
    )


def _check_view(check: Check, found: Sequence[Finding]) -> CheckView:
    sorted_ones = sorted(found, key=lambda one: _ORDER.index(one.level))
    return CheckView(str(check), sorted_ones[:_MOST], max(len(sorted_ones) - _MOST, 0))


def _seen(picture: Picture, may_see: MaySee) -> Iterator[tuple[Check, Sequence[Finding]]]:
    for check, found in (picture.findings or {}).items():
        yield check, [one for one in found if _may_be_seen(check, one, may_see)]


def _may_be_seen(check: Check, finding: Finding, may_see: MaySee) -> bool:
    _, _, namespace = finding.about.rpartition(_IN)
    if check is Check.VPAS and _IN in finding.about:
        return may_see(namespace)
    return may_see("")


def banners(picture: Picture, may_see: MaySee) -> Iterator[Banner]:
    """Yield what a viewer of any page should know first."""
    sees_all = may_see("")  # and may know what is wrong with the cluster
    if picture.problem:
        why = f": {picture.problem}" if sees_all else ""
        age = f", but {span(picture.age)} old" if picture.age is not None else ""
        yield Banner(f"{NOT_FRESH}{age}{why}", is_bad=True)
    if picture.webhook:
        why, fix = (f": {picture.webhook}", "plumbline doctor") if sees_all else ("", "")
        yield Banner(f"No pod would be evicted now{why}", fix)
    found = [one for _, several in _seen(picture, may_see) for one in several]
    serious = [one for one in found if one.level is Level.SERIOUS]
    if serious:
        first = serious[0]
        more = f" ({len(serious) - 1} more under Installation)" if serious[1:] else ""
        yield Banner(f"{first.about}: {first.message}{more}", first.fix, is_bad=True)
    if sees_all:
        yield from (Banner(note) for note in picture.notes)


def emptiness(picture: Picture) -> Banner:
    """Say why a viewer sees no workload, and what changes that."""
    if any(part.rows for part in picture.fleet.values()):
        return Banner("You may not list VerticalPodAutoscalers in any namespace.", _LIST)
    told = "There is no VerticalPodAutoscaler, and no workload that one could size."
    return Banner(told, _INIT)


def mistakes(findings: Findings | None) -> dict[str, dict[str, str]]:
    """Return what is seriously wrong with VPAs, by namespace and name."""
    found: dict[str, dict[str, str]] = {}
    for one in (findings or {}).get(Check.VPAS, ()):
        name, _, namespace = one.about.removeprefix(_VPA).rpartition(_IN)
        if one.level is Level.SERIOUS and one.about.startswith(_VPA) and name:
            found.setdefault(namespace, {}).setdefault(name, one.message)
    return found
