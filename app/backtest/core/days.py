"""The days of a recording, which are counted, compared and drawn whole.

Strategy: days end where the recording ends. What is left over at its beginning belongs to the first
day, in which everything is learned and nothing is counted.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from app.backtest.recording import Recording
from app.recommender.core.histograms import Flags

WARM_UP_DAYS: Final = 1  # for which nothing is counted
LEAST_DAYS: Final = 2  # that are counted

_DAY_SECONDS: Final = 86_400


class Days:
    """Tells to which day a step belongs."""

    def __init__(self, recording: Recording) -> None:
        seconds = recording.count * recording.step
        self.count = max(seconds // _DAY_SECONDS, 1)
        self._step = recording.step
        self._rest = max(seconds - self.count * _DAY_SECONDS, 0)

    def of(self, step: int) -> int:
        """Return the day of a step."""
        return max((step * self._step - self._rest) // _DAY_SECONDS, 0)


def usage_days(recording: Recording) -> float:
    """Return how long a recording is in days, without days of which no usage is known."""
    days = Days(recording)
    is_known = np.zeros(days.count, dtype=np.bool_)
    is_known[[days.of(step) for step in np.flatnonzero(_is_known(recording)).tolist()]] = True
    length = recording.count * recording.step / _DAY_SECONDS
    return max(length - int(np.count_nonzero(~is_known)), 0.0)


def missing_days(recording: Recording, least_days: int = LEAST_DAYS) -> float:
    """Return how many days of history are missing for anything to be said, 0 if none are."""
    return max(WARM_UP_DAYS + least_days - usage_days(recording), 0.0)


def trimmed(recording: Recording) -> Recording:
    """Return a recording from the first to the last step of which usage is known."""
    known = np.flatnonzero(_is_known(recording)).tolist()
    return recording.part(known[0], known[-1] + 1) if known else recording.part(0, 0)


def _is_known(recording: Recording) -> Flags:
    """Tell of which steps any usage is known."""
    return np.asarray((~np.isnan(recording.cpu) | ~np.isnan(recording.memory)).any(axis=0))
