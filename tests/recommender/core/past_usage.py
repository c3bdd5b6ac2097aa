"""Usage of the past for tests: a list of amounts for each container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np

from app.recommender.core.moments import nanoseconds
from app.recommender.core.usage import ABSENT, PastUsage
from tests import make

Amounts = Sequence[tuple[int, int]]  # millicores and bytes, one for each step


def past(
    used: Mapping[str, Amounts],
    end: datetime,
    *,
    step: timedelta = timedelta(hours=1),
    labels: Mapping[str, str] | None = None,
    stands_for: float = 1.0,
) -> PastUsage:
    """Return what "pod/container"s used up to a time; all pods have the same labels."""
    columns = max(map(len, used.values()), default=0)
    table = np.full((len(used), columns, 2), ABSENT, dtype=np.int64)
    for line, amounts in enumerate(used.values()):
        if amounts:
            table[line, -len(amounts) :] = amounts
    names = [name.partition("/") for name in used]
    times = [nanoseconds(end - step * back) for back in reversed(range(columns))]
    return PastUsage(
        {("default", pod): make.LABELS if labels is None else labels for pod, _, _ in names},
        [("default", pod, container) for pod, _, container in names],
        np.array(times, dtype=np.int64),
        table[:, :, 0],
        table[:, :, 1],
        nanoseconds(end) - nanoseconds(end - step),
        stands_for,
    )
