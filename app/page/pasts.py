"""What a page asks about the past of workloads under other settings, from whatever knows it."""

from __future__ import annotations

from typing import Protocol

from app.model.kinds import ObjectKey
from app.model.snapshot import Snapshot
from app.page.core.past import WorkloadPast


class PastSettings(Protocol):
    """Knows what settings would have requested; `tick` is called by one thread."""

    def tick(self, snapshot: Snapshot, /) -> float:
        """Work on for a moment; return the seconds until the next one."""
        ...

    def of(self, namespace: str, key: ObjectKey, /) -> WorkloadPast | None:
        """Return what is known of a workload, None if nothing was recorded of it."""
        ...
