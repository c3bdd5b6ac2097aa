"""Makes scores for tests: one workload unless told otherwise, measure by measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from app.backtest.core.recorded_fleet import RecordedWorkload
from app.backtest.core.scores import Measure, Scores

Sums = Mapping[Measure, float | Sequence[float]]  # of each day, or one for all days

WEB = RecordedWorkload("shop", "Deployment", "web")
CART = RecordedWorkload("cart", "Deployment", "cart")


def scores(
    *settings: Sums, days: int = 4, workloads: Sequence[RecordedWorkload] = (WEB,)
) -> Scores:
    """Return scores of days after a first one, the first setting being the recording.

    What is told of a setting holds for its first workload.
    """
    found = np.zeros((days + 1, len(settings), len(workloads), len(Measure)))
    for position, sums in enumerate(settings):
        for measure, amounts in sums.items():
            found[1:, position, 0, measure] = amounts
            found[0, position, 0, measure] = 1e6  # must not count
    steps = np.full(len(workloads), 100)
    return Scores(tuple(workloads), found, steps, steps * 0, steps * 0, steps < 0)
