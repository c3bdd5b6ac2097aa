"""What the Leases stand for that VPAs name, as far as one look tells.

Strategy: a process watches for how long a Lease is not renewed, by its own clock. Who looks once
has nothing but the times that the holder wrote: it held the Lease when it renewed it last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from app.model.errors import BadObject
from app.model.fields import Object, time_at
from app.model.role_leases import LeaseStanding, LeaseState, observed, read_lease, standing
from app.model.snapshot import Collection, Replacement, Snapshot

NO_RIGHT: Final = LeaseStanding(LeaseState.FORBIDDEN, problem="the right to list leases is missing")
_MISSING: Final = LeaseStanding(LeaseState.MISSING)

# Finds a Lease by namespace and name, None if there is none.
ReadLease = Callable[[str, str], Object | LeaseStanding | None]


def with_named_leases(snapshot: Snapshot, read: ReadLease, now: datetime) -> Snapshot:
    """Return a snapshot with the Leases that its VPAs name, also those that do not exist."""
    return snapshot.changed(list(_standings(snapshot, read, now)))


def _standings(snapshot: Snapshot, read: ReadLease, now: datetime) -> Iterator[Replacement]:
    for namespace, view in snapshot.namespaces.items():
        for name in sorted({one.lease for found in view.roles.by_target.values() for one in found}):
            found = read(namespace, name)
            if isinstance(found, dict):
                found = standing_of(found, now)
            yield Replacement(Collection.LEASES, namespace, name, found or _MISSING)


def standing_of(item: Object, now: datetime) -> LeaseStanding:
    """Return what a Lease stands for that is seen once."""
    spec = item.get("spec")
    try:
        renewed = time_at(spec, "renewTime", "spec") if isinstance(spec, dict) else None
    except BadObject:
        renewed = None
    seen_at = min(renewed, now) if renewed is not None else now
    return replace(standing(observed(None, read_lease(item), seen_at), now), seen_since=None)
