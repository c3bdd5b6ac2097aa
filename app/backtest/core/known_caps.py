"""Caps that a LimitRange or a limit sets, learned from answers of the sizing.

Strategy: of one container each resource is capped for itself: amounts between two bounds stay, and
all others become the nearest of two. So an answer tells of all amounts between those that stayed,
and beyond those that did not. What follows from no answer is asked of the sizing, as is whatever
does not fit what was learned. Whether resources are capped for themselves the caller has to know.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from app.backtest.core.sizes import NO_UPPER
from app.recommender.core.histograms import Flags, Indexes, Thousandths

_NEVER: Final = -1  # below any amount


class KnownCaps:
    """What is known of the caps of rows; a column for cpu, one for memory."""

    def __init__(self, rows: int) -> None:
        shape = (rows, 2)
        self._stays_from: Thousandths = np.full(shape, NO_UPPER, dtype=np.int64)
        self._stays_to: Thousandths = np.full(shape, _NEVER, dtype=np.int64)
        self._roof_from: Thousandths = np.full(shape, NO_UPPER, dtype=np.int64)
        self._roof: Thousandths = np.zeros(shape, dtype=np.int64)
        self._floor_to: Thousandths = np.full(shape, _NEVER, dtype=np.int64)
        self._floor: Thousandths = np.zeros(shape, dtype=np.int64)
        self._is_strange: Flags = np.zeros(shape, dtype=np.bool_)

    def forget(self, rows: Indexes) -> None:
        """Know nothing of rows, whose pods have changed."""
        self._stays_from[rows] = self._roof_from[rows] = NO_UPPER
        self._stays_to[rows] = self._floor_to[rows] = _NEVER
        self._is_strange[rows] = False

    def apply(self, amounts: Thousandths, counts: Flags) -> tuple[Thousandths, Flags]:
        """Return capped amounts, [row, resource, amount], and of which rows all are known."""
        is_under = amounts <= self._floor_to[..., None]
        is_over = amounts >= self._roof_from[..., None]
        stays = amounts >= self._stays_from[..., None]
        stays &= amounts <= self._stays_to[..., None]
        is_known = (is_under | is_over | stays) & ~self._is_strange[..., None]
        capped = np.where(is_over, self._roof[..., None], amounts)
        capped = np.where(is_under, self._floor[..., None], capped)
        return capped, np.asarray((is_known | ~counts[..., None]).all(axis=(1, 2)))

    def learn(self, rows: Indexes, asked: Thousandths, told: Thousandths, counts: Flags) -> None:
        """Learn what the sizing told of amounts; only where a resource counts."""
        for index, at in np.argwhere(counts).tolist():
            answers = zip(asked[index, at].tolist(), told[index, at].tolist(), strict=True)
            for amount, capped in answers:
                self._learn(int(rows[index]), at, amount, capped)

    def _learn(self, row: int, at: int, amount: int, capped: int) -> None:
        place = row, at
        if amount == capped:
            self._stays_from[place] = min(int(self._stays_from[place]), amount)
            self._stays_to[place] = max(int(self._stays_to[place]), amount)
        elif amount > capped:
            is_first = self._roof_from[place] == NO_UPPER
            self._is_strange[place] |= not is_first and self._roof[place] != capped
            self._roof_from[place] = min(int(self._roof_from[place]), amount)
            self._roof[place] = capped
        else:
            is_first = self._floor_to[place] == _NEVER
            self._is_strange[place] |= not is_first and self._floor[place] != capped
            self._floor_to[place] = max(int(self._floor_to[place]), amount)
            self._floor[place] = capped
