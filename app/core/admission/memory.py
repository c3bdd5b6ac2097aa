"""What was found for one pod, for others that are equal in all that counts.

Strategy: the pods of a rollout differ in nothing that matching and sizing look at. A match holds
for one moment of its namespace, sizes for one version of a VPA and of the namespace's limits, so
what is kept is never stale; when there is too much of it, it is thrown away and found anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from app.core.admission.applicant import Applicant
from app.core.matching import Match, Unknown, match_pod
from app.model.limits import NamespaceLimits
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import LookedUp

T = TypeVar("T")

_LONGEST = 8_192  # bytes of what pods are known by; large ones shall not fill the memory
_MOST = 5_000

WorkOut = Callable[[Applicant, Vpa, NamespaceLimits], T]


class MatchMemory:
    """Matches by origin; safe to use from several threads."""

    def __init__(self, *, boosts: bool, most: int = _MOST) -> None:
        self._boosts = boosts
        self._most = most
        self._kept: dict[bytes, tuple[object, Match]] = {}

    def of(self, applicant: Applicant, view: NamespaceView, looked_up: LookedUp) -> Match | Unknown:
        """Return which VPA controls a pod, remembered or found now."""
        kept = self._kept.get(applicant.origin)
        if kept is not None and kept[0] is view.moment:
            return kept[1]
        found = match_pod(applicant, view, looked_up, boosts=self._boosts)
        if isinstance(found, Match) and not looked_up and len(applicant.origin) <= _LONGEST:
            if len(self._kept) >= self._most:
                self._kept = {}
            self._kept[applicant.origin] = view.moment, found
        return found


class SizeMemory(Generic[T]):
    """Sizes by VPA, limits and signature; safe to use from several threads."""

    def __init__(self, work_out: WorkOut[T], most: int = _MOST) -> None:
        self._work_out = work_out
        self._most = most
        self._kept: dict[tuple[int, int, bytes], tuple[Vpa, NamespaceLimits, T]] = {}

    def of(self, applicant: Applicant, vpa: Vpa, limits: NamespaceLimits) -> T:
        """Return what comes out for a pod, remembered or worked out now."""
        if len(applicant.signature) > _LONGEST:
            return self._work_out(applicant, vpa, limits)
        key = (id(vpa), id(limits), applicant.signature)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= self._most:
                self._kept = {}
            # Keeping VPA and limits alive keeps their ids from being given to others.
            kept = self._kept[key] = vpa, limits, self._work_out(applicant, vpa, limits)
        return kept[2]
