"""Usage of the past as it is told at once: a grid of amounts, a line for each container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.recommender.core.decay import Times
from app.recommender.core.grid import Amounts

ContainerKey = tuple[str, str, str]  # namespace, pod, container


@dataclass(frozen=True, slots=True, eq=False)
class PastUsage:
    """What containers used, also those of pods that are gone."""

    labels: Mapping[tuple[str, str], Mapping[str, str]]  # by namespace and pod, as they were last
    containers: Sequence[ContainerKey]  # each once
    times: Times  # of the columns, the oldest first
    cpu_millicores: Amounts  # a line for each container, or ABSENT
    memory_bytes: Amounts  # likewise
    window_ns: int = 0  # over how long CPU usage is averaged; 0 if not known
    stands_for: float = 1.0  # so many samples of live usage as each amount takes the place of
    refused_series: int = 0  # could not be read
    refused_points: int = 0
