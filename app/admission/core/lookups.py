"""The decision about a pod whose owners are looked up, one above the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from app.admission.core.mutate import PodVerdict
from app.model.workloads import LookedUp, Lookup, LookupResult
from app.sizing.matching import LookupNeeded, MatchReason

_MOST_OWNERS: Final = 10


def admit_with_lookups(
    admit: Callable[[LookedUp], PodVerdict | LookupNeeded],
    find: Callable[[Lookup], LookupResult],
    first: LookupNeeded | None = None,
) -> PodVerdict:
    """Ask for a decision, and look up what it needs; `first` is what it is known to need."""
    needed, looked_up = first, {}
    for _ in range(_MOST_OWNERS):
        if needed is not None:
            looked_up[needed.lookup.key] = find(needed.lookup)
        verdict = admit(looked_up)
        if isinstance(verdict, PodVerdict):
            return verdict
        needed = verdict
    return PodVerdict(MatchReason.OWNER_UNKNOWN, f"more than {_MOST_OWNERS} owners to look up")
