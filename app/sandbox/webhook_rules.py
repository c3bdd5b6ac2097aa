"""Which webhooks are asked about a write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from app.model.errors import BadObject
from app.model.selectors import Selector
from app.ports import NAMESPACES, Json
from app.sandbox.attempts import Attempt
from app.sandbox.cel import CelError, Program, compile_cel
from app.sandbox.objects import Key, labels_of
from app.sandbox.store import Store

EXEMPT_GROUP = "admissionregistration.k8s.io"  # nobody is asked about those who are asked


def concerns(webhook: Json, attempt: Attempt, store: Store) -> bool:
    """Whether rules and selectors of a webhook choose a write."""
    return (
        attempt.kind.resource.group != EXEMPT_GROUP
        and any(_fits(rule, attempt) for rule in webhook.get("rules") or ())
        and _is_selected(webhook, "namespaceSelector", _namespaces(attempt, store))
        and _is_selected(webhook, "objectSelector", _objects(attempt))
    )


def conditions_hold(webhook: Json, request: Json) -> bool:
    """Whether all match conditions of a webhook hold; one that does not counts over errors.

    Raises:
        CelError: some have no value, and none is false.
    """
    variables = {
        "request": request,
        "object": request["object"],
        "oldObject": request["oldObject"],
    }
    error: CelError | None = None
    for condition in webhook.get("matchConditions") or ():
        try:
            if _program(condition["expression"])(variables) is not True:
                return False
        except CelError as found:
            error = found
    if error is not None:
        raise error
    return True


@lru_cache(256)
def _program(expression: str) -> Program:
    return compile_cel(expression)


def _fits(rule: Json, attempt: Attempt) -> bool:
    resource = attempt.kind.resource
    scope = "Namespaced" if resource.namespaced else "Cluster"
    return (
        _is_among(rule.get("operations"), attempt.operation)
        and _is_among(rule.get("apiGroups"), resource.group)
        and _is_among(rule.get("apiVersions"), resource.version)
        and rule.get("scope", "*") in ("*", scope)
        and any(
            pattern in _patterns(resource.plural, attempt.subresource)
            for pattern in rule.get("resources") or ()
        )
    )


def _is_among(words: Sequence[str] | None, word: str) -> bool:
    return any(found in ("*", word) for found in words or ())


def _patterns(plural: str, subresource: str) -> tuple[str, ...]:
    """Return how a rule may name a resource."""
    if not subresource:  # a star behind the slash takes also those who have nothing there
        return (plural, "*", f"{plural}/*", "*/*")
    return (f"{plural}/{subresource}", f"{plural}/*", f"*/{subresource}", "*/*")


def _is_selected(webhook: Json, key: str, items: Iterator[Json]) -> bool:
    try:
        selector = Selector.read(webhook.get(key) or {}, key)
    except BadObject:
        return False
    return selector.is_everything or any(selector.matches(labels_of(item)) for item in items)


def _namespaces(attempt: Attempt, store: Store) -> Iterator[Json]:
    """Yield what a namespace selector is asked about; all else of the cluster fits any."""
    if attempt.kind.resource == NAMESPACES:
        yield from _objects(attempt)
    elif attempt.kind.resource.namespaced:
        found = store.read("namespaces", Key("", attempt.namespace))
        if found is not None:
            yield found


def _objects(attempt: Attempt) -> Iterator[Json]:
    for item in (attempt.item, attempt.old):
        if item is not None:
            yield item
