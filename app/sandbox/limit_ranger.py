"""What LimitRanges do to pods: defaults for those that say nothing, refusal of the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from app.model.quantity import ZERO, Quantity
from app.ports import PODS, Json
from app.sandbox.objects import containers_of
from app.sandbox.refusals import forbidden
from app.sandbox.resources import SIDES, Amounts, amounts, quantities, sum_of
from app.sandbox.store import Store
from app.sandbox.writes import AdmissionPlugin, Attempt, Operation

ANNOTATION = "kubernetes.io/limit-ranger"

# From (what is enforced, request, limit) to what is wrong, empty if nothing is.
Rule = Callable[[Quantity, Quantity | None, Quantity | None], str]


class LimitRanger(AdmissionPlugin):
    """The gate that LimitRanges make."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def change(self, attempt: Attempt) -> Json:
        """Fill defaults into a new pod."""
        pod = attempt.item
        assert pod is not None
        if attempt.kind.resource != PODS or attempt.operation is not Operation.CREATE:
            return pod
        told: list[str] = []
        for entry in self._entries(attempt.namespace):
            if entry.get("type") == "Container":
                for _, container in containers_of(pod["spec"]):
                    told += _filled(container, entry)
        if told:
            annotations = pod["metadata"].setdefault("annotations", {})
            annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(told)}"
        return pod

    def check(self, attempt: Attempt) -> None:
        """Refuse a pod, or its resize, that does not keep to the limits."""
        resizes = attempt.operation is Operation.UPDATE and attempt.subresource == "resize"
        creates = attempt.operation is Operation.CREATE
        pod = attempt.item
        if attempt.kind.resource != PODS or pod is None or not (resizes or creates):
            return
        found = list(
            dict.fromkeys(
                problem
                for entry in self._entries(attempt.namespace)
                for problem in _problems(pod, entry)
            )
        )
        if found:
            name = attempt.name or pod["metadata"].get("generateName", "")
            raise forbidden("pods", name, found[0] if len(found) == 1 else f"[{', '.join(found)}]")

    def _entries(self, namespace: str) -> Iterator[Json]:
        for limit_range in self._store.items("limitranges", namespace):
            yield from (limit_range.get("spec") or {}).get("limits") or ()


def _filled(container: Json, entry: Json) -> Iterator[str]:
    """Fill defaults into a container and tell which."""
    resources = container.setdefault("resources", {})
    for side, key in (("requests", "defaultRequest"), ("limits", "default")):
        present = resources.get(side) or {}
        missing = {
            name: amount for name, amount in (entry.get(key) or {}).items() if name not in present
        }
        if missing:
            resources[side] = {**present, **missing}
            names = ", ".join(sorted(missing))
            yield f"{names} {side.removesuffix('s')} for container {container['name']}"


def _problems(pod: Json, entry: Json) -> Iterator[str]:
    match entry.get("type"):
        case "Container":
            for _, container in containers_of(pod["spec"]):
                requests, limits = amounts(container, "requests"), amounts(container, "limits")
                yield from _broken(entry, requests, limits)
        case "Pod":
            yield from _broken(entry, *(sum_of(pod["spec"], side) for side in SIDES))
        case _:
            return


def _broken(entry: Json, requests: Amounts, limits: Amounts) -> Iterator[str]:
    item = entry["type"]
    rules: tuple[tuple[str, str, Rule], ...] = (
        ("min", "minimum {} usage per {} is {}", _below),
        ("max", "maximum {} usage per {} is {}", _above),
        ("maxLimitRequestRatio", "{} max limit to request ratio per {} is {}", _out_of_ratio),
    )
    for key, text, rule in rules:
        for name, enforced in quantities(entry.get(key)).items():
            flaw = rule(enforced, requests.get(name), limits.get(name))
            if flaw:
                yield text.format(name, item, enforced) + flaw


def _below(enforced: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    if request is None:
        return ".  No request is specified"
    if request < enforced:
        return f", but request is {request}"
    return f", but limit is {limit}" if limit is not None and limit < enforced else ""


def _above(enforced: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    if limit is None:
        return ".  No limit is specified"
    if limit > enforced:
        return f", but limit is {limit}"
    return f", but request is {request}" if request is not None and request > enforced else ""


def _out_of_ratio(enforced: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    if (request or ZERO).is_zero:
        return ", but no request is specified or request is 0"
    if (limit or ZERO).is_zero:
        return ", but no limit is specified or limit is 0"
    assert request is not None
    assert limit is not None
    ratio = limit.nano / request.nano
    return f", but provided ratio is {ratio:f}" if ratio * 1e9 > enforced.nano else ""
