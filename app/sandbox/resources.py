"""Requests and limits of pods: tidied, checked, added up.

Strategy: amounts are kept as texts in the objects and become quantities where something is
computed with them. The sum of a pod is what schedulers and kubelets count: its containers and
sidecars together, or an init container beside the sidecars in front of it if that is more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from app.model.errors import BadQuantity
from app.model.quantity import ZERO, Quantity
from app.ports import Json
from app.sandbox.objects import containers_of
from app.sandbox.refusals import FieldProblem, bad_request, forbidden_field, wrong

Amounts = dict[str, Quantity]

SIZED: Final = ("cpu", "memory")
SIDES: Final = ("requests", "limits")

_NANO_PER_MILLI: Final = 10**6


def quantities(found: Json | None) -> Amounts:
    """Read a map of amounts."""
    return {name: Quantity.read(value) for name, value in (found or {}).items()}


def amounts(container: Json, side: str) -> Amounts:
    """Return the requests or limits of a container."""
    return quantities((container.get("resources") or {}).get(side))


def tidy(container: Json, kind: str) -> None:
    """Write the amounts of a container as an API server does: canonical, in whole thousandths.

    Raises:
        Invalid: one of them is no quantity.
    """
    resources = container.get("resources")
    if isinstance(resources, dict):
        for side in SIDES:
            tidy_map(resources, side, kind)


def tidy_map(parent: Json, key: str, kind: str) -> None:
    """Write a map of amounts as an API server does."""
    if isinstance(parent.get(key), dict):
        parent[key] = {name: tidied(value, kind) for name, value in parent[key].items()}


def qos_class(spec: Json) -> str:
    """Return the quality of service that a pod gets for its resources."""
    requests: Amounts = {}
    limits: Amounts = {}
    all_limited = True
    for _, container in containers_of(spec):
        _add(requests, _sized(amounts(container, "requests")))
        limited = _sized(amounts(container, "limits"))
        all_limited = all_limited and len(limited) == len(SIZED)
        _add(limits, limited)
    if not requests and not limits:
        return "BestEffort"
    if all_limited and requests == limits:
        return "Guaranteed"
    return "Burstable"


def is_sidecar(container: Json) -> bool:
    """Whether an init container runs on beside the others."""
    return container.get("restartPolicy") == "Always"


def sum_of(spec: Json, side: str) -> Amounts:
    """Return the requests or limits of a pod as a whole."""
    return total(spec, lambda container: amounts(container, side))


def total(spec: Json, wanted: Callable[[Json], Amounts]) -> Amounts:
    """Return what a pod wants as a whole if its containers want so much."""
    amounts_wanted: Amounts = {}
    init_containers = spec.get("initContainers") or ()
    for container in (*spec["containers"], *filter(is_sidecar, init_containers)):
        _add(amounts_wanted, wanted(container))
    ahead: Amounts = {}  # sidecars that run already
    for container in init_containers:
        beside = all_of((ahead, wanted(container)))
        if is_sidecar(container):
            ahead = beside
        for name, amount in beside.items():
            amounts_wanted[name] = max(amounts_wanted.get(name, ZERO), amount)
    return amounts_wanted


def all_of(pods: Iterable[Amounts]) -> Amounts:
    """Add up what several pods want."""
    sums: Amounts = {}
    for wanted in pods:
        _add(sums, wanted)
    return sums


def problems_of(container: Json, path: str) -> Iterator[FieldProblem]:
    """Yield what is wrong with the amounts of a container."""
    requests, limits = amounts(container, "requests"), amounts(container, "limits")
    for side, found in zip(SIDES, (requests, limits), strict=True):
        for name, amount in found.items():
            if amount < ZERO:
                detail = "must be greater than or equal to 0"
                yield wrong(f"{path}.resources.{side}.{name}", str(amount), detail)
    for name, amount in requests.items():
        if name in limits and amount > limits[name]:
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            yield wrong(f"{path}.resources.requests", str(amount), detail)


def removed(old: Json, new: Json, path: str) -> Iterator[FieldProblem]:
    """Yield the requests and limits that a resize would take away."""
    for side in SIDES:
        if amounts(old, side).keys() & set(SIZED) - amounts(new, side).keys():
            detail = f"resource {side} cannot be removed"
            yield forbidden_field(f"{path}.resources.{side}", detail)


def tidied(value: object, kind: str) -> str:
    """Write an amount as an API server does."""
    try:
        found = Quantity.read(value)
    except BadQuantity as error:
        message = f'{kind} in version "v1" cannot be handled as a {kind}: {error.message}'
        raise bad_request(message) from None
    if found.nano % _NANO_PER_MILLI:
        found = Quantity.of_milli(found.milli, found.format)
    return str(found)


def _sized(found: Amounts) -> Amounts:
    return {name: found[name] for name in SIZED if name in found and not found[name].is_zero}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        before = total.get(name, ZERO)
        total[name] = Quantity(before.nano + amount.nano, amount.format)
