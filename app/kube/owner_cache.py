"""What was found of owners, and for how long that may be used.

Strategy: pure but for being changed in place. An owner that exists lives long, and a different
time for each, so that they are not all read again at once; one that does not is asked for again
soon. Where a new look fails, an owner found within the last hour is still believed.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from app.model.workloads import Absent, Failed, Lookup, LookupResult, Workload

SCALED_SECONDS = 600.0  # times 1 to 2, by the key
BUILT_IN_SECONDS = 2.0  # the watch will bring it any moment
ABSENT_SECONDS = 30.0
FAILED_SECONDS = 3.0
EARLY_SECONDS = 30.0  # before its life ends, an owner in use is read again
IDLE_SECONDS = 3600.0  # an owner nobody asked for is forgotten, and an old one is not believed


@dataclass(slots=True)
class _Entry:
    found: LookupResult
    expires_at: float
    found_at: float
    read_at: float


class OwnerCache:
    """Owners by what was looked for; `now` is the time of a monotonic clock."""

    def __init__(self) -> None:
        self._entries: dict[Lookup, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def fresh(self, lookup: Lookup, now: float) -> LookupResult | None:
        """Return what is known, None if it is time to look."""
        entry = self._entries.get(lookup)
        if entry is None:
            return None
        entry.read_at = now
        return entry.found if now < entry.expires_at else None

    def believed(self, lookup: Lookup, now: float) -> Workload | None:
        """Return an owner that was there within the last hour, for want of an answer."""
        entry = self._entries.get(lookup)
        if entry is None or now - entry.found_at >= IDLE_SECONDS:
            return None
        return entry.found if isinstance(entry.found, Workload) else None

    def keep(self, lookup: Lookup, found: LookupResult, now: float) -> LookupResult:
        """Remember what was found; return what to answer."""
        entry = self._entries.get(lookup)
        expires_at = now + life_seconds(lookup, found)
        if isinstance(found, Failed) and entry and (known := self.believed(lookup, now)):
            entry.expires_at = expires_at
            return known
        read_at = entry.read_at if entry else now
        self._entries[lookup] = _Entry(found, expires_at, now, read_at)
        return found

    def due(self, now: float) -> list[Lookup]:
        """Forget what nobody asks for; return the owners to read again before they expire."""
        for lookup, entry in list(self._entries.items()):
            is_idle = now - entry.read_at >= IDLE_SECONDS
            is_owner = isinstance(entry.found, Workload) and not lookup.key.is_built_in
            if is_idle or (not is_owner and now >= entry.expires_at):
                del self._entries[lookup]
        return [
            lookup
            for lookup, entry in self._entries.items()
            if isinstance(entry.found, Workload)
            and not lookup.key.is_built_in
            and now >= entry.expires_at - EARLY_SECONDS
        ]


def life_seconds(lookup: Lookup, found: LookupResult) -> float:
    """Return for how long an answer may be used."""
    match found:
        case Absent():
            return ABSENT_SECONDS
        case Failed():
            return FAILED_SECONDS
        case Workload() if lookup.key.is_built_in:
            return BUILT_IN_SECONDS
    place = f"{lookup.namespace}/{lookup.key}"
    return SCALED_SECONDS * (1 + zlib.crc32(place.encode()) / 2**32)
