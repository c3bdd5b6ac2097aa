"""Requests and limits that pods of a recording would get for targets, by the real sizing.

Strategy: a pod looks as its containers were recorded first, and what it gets follows from that and
from the targets alone. Both repeat again and again, so each answer is made once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from app.backtest.core.recorded_fleet import Fleet
from app.backtest.core.settings import Given
from app.model.pods import Container, Pod, Resources
from app.model.quantity import CPU, MEMORY, SIZED, Quantity, QuantityFormat
from app.model.vpa import ContainerRecommendation, Vpa
from app.recommender.core.histograms import Flags, Thousandths
from app.sizing.sizing import NO_SIZES, CappedRecommendation, capped, sizes

NO_UPPER: Final = 2**62  # where there is no upper bound

_FORMATS: Final = {CPU: QuantityFormat.DECIMAL_SI, MEMORY: QuantityFormat.BINARY_SI}
_REMEMBERED: Final = 262_144

Amounts = tuple[int | None, ...]  # thousandths of cpu and memory, None where there is none


class PodShape(NamedTuple):
    """All that decides about the sizes of a pod, beside what is recommended."""

    workload: int
    containers: tuple[str, ...]
    requests: tuple[Amounts, ...]
    limits: tuple[Amounts, ...]


class Bounded(NamedTuple):
    """Target, lower and upper bound of a container's resources."""

    target: Amounts
    lower: Amounts
    upper: Amounts


class Sizer:
    """Sizes pods of a fleet."""

    def __init__(self, fleet: Fleet, given: Given) -> None:
        self._vpas = [given.vpa(one) for one in fleet.workloads]
        self._limits = [given.limits_of(one.namespace) for one in fleet.workloads]
        self.sized = lru_cache(_REMEMBERED)(self._sized)
        self.bounded = lru_cache(_REMEMBERED)(self._bounded)

    def is_held(self, fleet: Fleet) -> Flags:
        """Tell for each line which resources stay, because replicas are scaled by them."""
        held = [
            [self._vpas[workload].held_by(name, resource) is not None for resource in SIZED]
            for name, workload in zip(fleet.containers, fleet.line_workloads.tolist(), strict=True)
        ]
        return np.array(held, dtype=np.bool_).reshape(-1, 2)

    def is_capped(self, workload: int) -> bool:
        """Whether more than the recommender's own caps hold for what is recommended."""
        policies = self._vpas[workload].policies or ()
        return bool(
            self._limits[workload].container
            or self._limits[workload].pod
            or any(policy.requests_only for policy in policies)
        )

    def is_by_itself(self, workload: int) -> bool:
        """Whether each resource of each container is capped for itself."""
        return not self._limits[workload].pod

    def min_replicas(self, workload: int, usual: int) -> int:
        """Return how many pods a workload must have before one is evicted."""
        policy = self._vpas[workload].update_policy
        return usual if policy is None or policy.min_replicas is None else policy.min_replicas

    def _bounded(self, shape: PodShape, recommended: tuple[Bounded, ...]) -> tuple[Bounded, ...]:
        """Return what is recommended after all caps; what only makes room has no bounds."""
        found = self._capped(shape, recommended, with_bounds=True)
        return tuple(
            Bounded(
                _milli(found[name].target),
                _milli(found[name].lower_bound),
                _milli(found[name].upper_bound),
            )
            if name in found
            else Bounded((None, None), (None, None), (None, None))
            for name in shape.containers
        )

    def _sized(self, shape: PodShape, targets: tuple[Amounts, ...]) -> Thousandths:
        """Return requests and limits of each container: of cpu, then of memory; 0 is none."""
        recommended = tuple(Bounded(one, (None, None), (None, None)) for one in targets)
        amounts = self._capped(shape, recommended, with_bounds=False)
        vpa, limits = self._vpas[shape.workload], self._limits[shape.workload]
        found = np.zeros((len(shape.containers), 2, 2), dtype=np.int64)
        for index, container in enumerate(_pod(shape, vpa).containers):
            had, one = container.resources, amounts.get(container.name)
            got = NO_SIZES if one is None else sizes(one, had, vpa, limits)
            for at, resource in enumerate(SIZED):
                request = got.requests.get(resource, had.request(resource))
                limit = got.limits.get(resource, had.limit(resource))
                found[index, 0, at] = 0 if request is None else request.milli
                found[index, 1, at] = 0 if limit is None else limit.milli
        return found

    def _capped(
        self, shape: PodShape, recommended: tuple[Bounded, ...], *, with_bounds: bool
    ) -> Mapping[str, CappedRecommendation]:
        vpa = self._vpas[shape.workload]
        pod = _pod(shape, vpa)
        entries = tuple(
            ContainerRecommendation(
                name, _quantities(one.target), _quantities(one.lower), _quantities(one.upper), {}
            )
            for name, one in zip(shape.containers, recommended, strict=True)
            if one.target != (None, None)
        )
        current = {one.name: one.resources for one in pod.containers}
        vpa = replace(vpa, recommendation=entries, scaled_by=vpa.scaled_by)
        limits = self._limits[shape.workload]
        return capped(pod, vpa, limits, current, with_bounds=with_bounds)


def _pod(shape: PodShape, vpa: Vpa) -> Pod:
    containers = tuple(
        Container(name, Resources(_quantities(request), _quantities(limit)))
        for name, request, limit in zip(shape.containers, shape.requests, shape.limits, strict=True)
    )
    return Pod(
        namespace=vpa.namespace,
        name="",
        uid="",
        resource_version="",
        generation=0,
        created=None,
        deleted=None,
        labels={},
        annotations=None,
        owners=(),
        containers=containers,
        init_containers=(),
        pod_resources=None,
        node="",
        phase="",
        started=None,
        observed_generation=None,
        conditions=(),
        statuses=(),
    )


def _quantities(amounts: Amounts) -> dict[str, Quantity]:
    return {
        resource: Quantity.of_milli(amount, _FORMATS[resource])
        for resource, amount in zip(SIZED, amounts, strict=True)
        if amount is not None
    }


def _milli(amounts: Mapping[str, Quantity]) -> Amounts:
    return tuple(amounts[one].milli if one in amounts else None for one in SIZED)
