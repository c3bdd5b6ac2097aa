"""Makes recordings for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from app.backtest.recording import RecordedContainer, Recording

START: Final = 1_767_607_200  # 2026-01-05T10:00:00Z
STEP: Final = 300
WEB: Final = RecordedContainer("shop", "Deployment", "web", "web-1", "app")


def recording(
    rows: Sequence[RecordedContainer] = (WEB,), count: int = 4, **measured: object
) -> Recording:
    """Return a recording; what is measured is laid over all rows and steps, the rest is NaN."""
    found = Recording.unknown(START, STEP, count, rows)
    for measure, amounts in measured.items():
        found.measured(measure)[:] = np.asarray(amounts, dtype=np.float32)
    return found
