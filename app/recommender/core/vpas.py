"""The table of VPAs: what is known of each as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from app.recommender.core.columns import Columns, Fill
from app.recommender.core.decay import Times
from app.recommender.core.moments import UNSET


class VpaTable(Columns):
    """One line per VPA."""

    FILLS: ClassVar[Mapping[str, Fill]] = {
        "published": (np.int64, UNSET),
        "is_dirty": (np.bool_, False),
        "is_urgent": (np.bool_, False),
        "pods": (np.int32, 0),
        "mode": (np.int32, 0),
    }

    published: Times  # when its status was last worth a write
    is_dirty: NDArray[np.bool_]  # something beside its history has changed
    is_urgent: NDArray[np.bool_]  # a kill was counted since the last estimate
    pods: NDArray[np.int32]  # that it matches
    mode: NDArray[np.int32]  # what its spec says, as an index of `modes`

    def __init__(self) -> None:
        super().__init__()
        self.modes = [""]

    def set_mode(self, line: int, mode: str) -> None:
        """Note the update mode of a VPA, empty if its spec says none."""
        if mode not in self.modes:
            self.modes.append(mode)
        self.mode[line] = self.modes.index(mode)
