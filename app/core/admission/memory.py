"""What was worked out for one pod, for others that are equal in all that counts.

Strategy: the pods of a rollout differ in nothing that sizing looks at. What is kept belongs to
one version of a VPA and of the namespace's limits, so it is never stale; when there is too much
of it, it is thrown away and worked out anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from app.core.admission.applicant import Applicant
from app.model.limits import NamespaceLimits
from app.model.vpa import Vpa

T = TypeVar("T")

_LONGEST = 8_192  # bytes of a signature; whoever sends larger pods shall not fill the memory

WorkOut = Callable[[Applicant, Vpa, NamespaceLimits], T]


class Memory(Generic[T]):
    """Outcomes by VPA, limits and signature; safe to use from several threads."""

    def __init__(self, work_out: WorkOut[T], most: int = 5_000) -> None:
        self._work_out = work_out
        self._most = most
        self._kept: dict[tuple[int, int, bytes], tuple[Vpa, NamespaceLimits, T]] = {}

    def outcome(self, applicant: Applicant, vpa: Vpa, limits: NamespaceLimits) -> T:
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
