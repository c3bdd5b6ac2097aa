"""Which namespaces a webhook is asked about, as far as its selector and a name tell."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from app.model.fields import Json

_NAME: Final = "kubernetes.io/metadata.name"  # the label that the API server gives by itself
_Demand = tuple[str, str, frozenset[str]]  # key, operator, values


def is_asked(hook: Json, namespace: str) -> bool | None:
    """Say whether a webhook is asked about a namespace; None where other labels decide."""
    answers = [_fits(demand, namespace) for demand in _demands(hook)]
    if False in answers:
        return False
    return None if None in answers else True


def named(hook: Json) -> list[str]:
    """Return the namespaces that a selector names."""
    return sorted(
        name
        for key, operator, values in _demands(hook)
        if key == _NAME and operator == "In"
        for name in values
    )


def are_apart(one: Json, other: Json) -> bool:
    """Say whether two webhooks are never asked about the same namespace."""
    return any(_contradict(*pair) for pair in product(_demands(one), _demands(other)))


def _demands(hook: Json) -> Iterator[_Demand]:
    selector = hook.get("namespaceSelector") or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        yield str(key), "In", frozenset([str(value)])
    for each in selector.get("matchExpressions") or ():
        values = frozenset(map(str, each.get("values") or ()))
        yield str(each.get("key")), str(each.get("operator")), values


def _fits(demand: _Demand, namespace: str) -> bool | None:
    key, operator, values = demand
    if operator == "NotIn" and values == {""}:
        return True  # upstream leaves out the namespace without a name
    if key != _NAME or operator not in ("In", "NotIn"):
        return None
    return (namespace in values) is (operator == "In")


def _contradict(one: _Demand, other: _Demand) -> bool:
    (key, operator, values), (other_key, other_operator, other_values) = one, other
    if key != other_key:
        return False
    match operator, other_operator:
        case "In", "In":
            return not values & other_values
        case "In", "NotIn":
            return values <= other_values
        case "NotIn", "In":
            return other_values <= values
    return False
