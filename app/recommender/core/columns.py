"""Arrays that grow together: a table whose lines are taken, released and taken again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

Lines = NDArray[np.intp]
Fill = tuple[type[np.generic], int | float | bool]

_FEWEST: Final = 16


class Columns:
    """A table; `FILLS` names its columns, their types and what an unused line holds."""

    FILLS: ClassVar[Mapping[str, Fill]]

    def __init__(self) -> None:
        self.capacity = 0
        self.used = 0  # lines that were ever taken
        self._free: list[int] = []
        for name, (kind, _) in self.FILLS.items():
            setattr(self, name, np.zeros(0, dtype=kind))

    def take(self) -> int:
        """Return a line nobody uses, as good as new."""
        if self._free:
            return self._free.pop()
        if self.used == self.capacity:
            self.grow(max(2 * self.capacity, _FEWEST))
        self.used += 1
        return self.used - 1

    def release(self, line: int) -> None:
        """Give a line back."""
        for name, (_, fill) in self.FILLS.items():
            getattr(self, name)[line] = fill
        self._free.append(line)

    def grow(self, capacity: int) -> None:
        """Make room; fresh lines stay untouched, so they cost no memory until they are used."""
        for name, (kind, fill) in self.FILLS.items():
            grown = np.zeros(capacity, dtype=kind)
            grown[: self.capacity] = getattr(self, name)
            if fill:
                grown[self.capacity :] = fill
            setattr(self, name, grown)
        self.capacity = capacity

    def __len__(self) -> int:
        """How many lines are in use."""
        return self.used - len(self._free)
