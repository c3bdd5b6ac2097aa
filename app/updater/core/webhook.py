"""Whether the admission webhook is there to give recreated pods their new size."""

from __future__ import annotations

from datetime import datetime, timedelta


def is_fresh(
    created: datetime | None, renewed: datetime | None, timeout: timedelta, now: datetime
) -> bool:
    """Whether a Lease was created or renewed not longer ago than the timeout."""
    return any(moment is not None and now - moment < timeout for moment in (created, renewed))
