"""Workloads, their pods and VPAs, spread over namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench.seeds import Json, controllers, namespace, pod

BOXES: Final = ("main", "sidecar")
NAMESPACES: Final = 20


@dataclass(frozen=True, slots=True)
class Crowd:
    """So many VPAs, a workload each, and pods dealt out to them."""

    vpas: int
    pod_count: int

    def apps(self) -> Iterator[tuple[str, str]]:
        """Yield namespace and name of each workload."""
        for number in range(self.vpas):
            yield f"team-{number % NAMESPACES}", f"service-{number}"

    def pods(self) -> Iterator[tuple[str, str, int]]:
        """Yield namespace, workload and number of each pod."""
        apps = list(self.apps())
        for number in range(self.pod_count):
            yield *apps[number % len(apps)], number

    def objects(self) -> Iterator[Json]:
        """Yield everything but VPAs and what they have learned."""
        for number in range(NAMESPACES):
            yield from namespace(f"team-{number}")
        each = self.pod_count // self.vpas
        for where, app in self.apps():
            yield from controllers(where, app, each)
        for where, app, number in self.pods():
            yield pod(where, app, number, boxes=BOXES)
