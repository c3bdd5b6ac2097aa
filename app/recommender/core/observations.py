"""What the recommender is told: VPAs with their targets, and usage.

Strategy: usage comes as columns, for there may be a million containers. Pods come as
`app.model.pods.Pod`, kills as `OomRecord`, history as `Checkpoint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.model.kinds import ObjectKey
from app.model.selectors import Selector
from app.model.vpa import Vpa
from app.recommender.core.decay import Times
from app.recommender.core.grid import Amounts

ABSENT: Final = -1  # this resource was not told
REFUSED: Final = -2  # this resource was told, but cannot be

NO_OWNER: Final = ObjectKey("", "", "")  # of a pod that no controller owns

VpaKey = tuple[str, str]  # namespace and name


@dataclass(frozen=True, slots=True)
class ObservedVpa:
    """A VPA, and what its target turned out to be."""

    vpa: Vpa
    selector: Selector | None  # of the target's pods; None if the target cannot be resolved
    problem: str = ""  # why not, as a sentence for the condition ConfigUnsupported

    @property
    def key(self) -> VpaKey:
        """What identifies the VPA."""
        return (self.vpa.namespace, self.vpa.name)


@dataclass(frozen=True, slots=True, eq=False)
class UsageBatch:
    """Usage samples in columns; those of one container may repeat."""

    containers: Sequence[tuple[str, str, str]]  # namespace, pod, container
    cpu_millicores: Amounts  # or ABSENT or REFUSED
    memory_bytes: Amounts  # or ABSENT or REFUSED
    times: Times  # the end of the window that was measured
    windows_ns: Times  # over how long cpu usage is averaged; 0 if not known
    unreadable: int = 0  # pods and containers that are not among them

    def __len__(self) -> int:
        return len(self.containers)

    @staticmethod
    def of(samples: Sequence[tuple[tuple[str, str, str], int, int, int, int]]) -> UsageBatch:
        """Lay samples out in columns: container, cpu, memory, time, window."""
        containers = [sample[0] for sample in samples]
        table = np.array([sample[1:] for sample in samples], dtype=np.int64).reshape(-1, 4)
        return UsageBatch(containers, table[:, 0], table[:, 1], table[:, 2], table[:, 3])


def handles(vpa: Vpa, recommender: str) -> bool:
    """Whether a recommender of this name is meant; naming none means the default one."""
    return recommender in (vpa.recommenders or ("default",))
