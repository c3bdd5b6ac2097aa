"""Say in one sentence why a pod is updated or not: the resource, from, to, and the rule.

Strategy: every text about a pod's requests is made here, from the pairs that decided. What
triggered the update comes first, with its rule, then what else changes. A container is named
where the pod has several. The length is limited, because events are: what is left out is counted.

Amounts have three digits, and all of them where three would make two amounts look the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from math import log
from typing import Final

from app.model.quantity import MEMORY, Quantity
from app.model.text import amount, percent, span
from app.model.times import rfc3339
from app.updater.core.decisions import Pair

Pairs = tuple[Pair, ...]

_REMEMBERED: Final = 4096  # sentences; most pods of a workload have the same one
_LONGEST: Final = 400  # characters; of the 1024 of an event the names of pod and VPA may take 500
_LONGEST_AMOUNT: Final = 30
_MOST_NAMED: Final = 3
_MOST_PERMILLE: Final = 1_000_000  # a larger growth is plain from the amounts


@lru_cache(_REMEMBERED)
def trigger(pairs: Pairs) -> Pair | None:
    """Return the pair that is named as the cause: the one that is furthest outside of its bounds.

    A missing request comes first; what moves towards its bounds comes before what does not.
    """
    return max((pair for pair in pairs if pair.is_outside), key=_weight, default=None)


def _weight(pair: Pair) -> tuple[bool, bool, float]:
    has, target = pair.current, pair.target
    if has is None:
        return True, True, 0.0
    moves = target > has if pair.is_below else target < has
    return False, moves, abs(log(max(target.nano, 1)) - log(max(has.nano, 1)))


# --- pods outside of their bounds


@lru_cache(_REMEMBERED)
def outside_bounds(cause: Pair, pairs: Pairs, *, named: bool) -> str:
    """Say why a pod is updated at once: `cpu 100m is below its lower bound 200m: 100m -> 350m`."""
    rule, has, target = _rule(cause, named=named)
    first = f"{rule}: {has} -> {target}" if _changes(cause) else rule
    others = (pair for pair in pairs if pair != cause and _changes(pair))
    return _joined([first, *(_from_to(pair, named=named) for pair in others)])


def hardly_outside(cause: Pair, least: float, *, named: bool) -> str:
    """Say why a pod is left alone although a request is outside of its bounds."""
    rule, _, _ = _rule(cause, named=named)
    return f"{rule}, but the pod would change by less than {percent(least)}"


def _rule(cause: Pair, *, named: bool) -> tuple[str, str, str]:
    """Return what is wrong with a request, and the texts of the request and of its target."""
    name, has = _name(cause, named=named), cause.current
    if has is None:
        (target,) = _amounts(cause.resource, cause.target)
        return f"{name} has no request", "none", target
    lower, upper = cause.lower, cause.upper
    if lower is not None and has < lower:
        text, target, bound = _amounts(cause.resource, has, cause.target, lower)
        return f"{name} {text} is below its lower bound {bound}", text, target
    if upper is not None and has > upper:
        text, target, bound = _amounts(cause.resource, has, cause.target, upper)
        return f"{name} {text} is above its upper bound {bound}", text, target
    raise ValueError(f"{name} is within its bounds")


# --- pods within their bounds


def outdated(pairs: Pairs, age: timedelta, *, named: bool) -> str:
    """Say why a pod is updated although it is within its bounds."""
    return f"within bounds, but {_shares(pairs, named=named)} and older than {span(age)}"


def promoted(pairs: Pairs, *, named: bool) -> str:
    """Say why a pod that began to lead is resized although it is within its bounds."""
    return f"within bounds, but it leads now: {_shares(pairs, named=named)}"


def too_young(pairs: Pairs, age: timedelta, until: datetime, *, named: bool) -> str:
    """Say until when a pod within its bounds is too young."""
    changed = _shares(pairs, named=named)
    why = f"within bounds, and started or resized less than {span(age)} ago"
    return f"{why}: {changed} from {rfc3339(until)} on"


def too_small(pairs: Pairs, least: float, *, named: bool) -> str:
    """Say that what would change in a pod within its bounds is not worth it."""
    changed = _shares(pairs, named=named)
    return f"within bounds, and less than {percent(least)} over all resources: {changed}"


def no_start_time(pairs: Pairs, *, named: bool) -> str:
    """Say that the age of a pod within its bounds is not known."""
    return f"within bounds, and the time of its start is not known: {_shares(pairs, named=named)}"


@lru_cache(_REMEMBERED)
def _shares(pairs: Pairs, *, named: bool) -> str:
    """Return the changes, each with its share: `cpu 100m -> 140m (+40%)`."""
    changes = [
        _from_to(pair, named=named) + _share(pair.current, pair.target)
        for pair in pairs
        if _changes(pair)
    ]
    return _joined(changes, ", ")


def _share(has: Quantity | None, target: Quantity) -> str:
    if has is None or has.nano <= 0:
        return ""
    permille = (target.nano - has.nano) * 1000 // has.nano
    if permille == 0 or permille > _MOST_PERMILLE:
        return ""
    return f" ({permille / 10:+.{int(abs(permille) < 10)}f}%)"


# --- other causes


def oom_killed(container: str, pairs: Pairs, *, named: bool) -> str:
    """Say what a pod gets after an OOM kill: `container app was OOM-killed: memory 1Gi -> 2Gi`."""
    head = f"container {container} was OOM-killed"
    memory = next((pair for pair in pairs if _is_memory_of(pair, container)), None)
    if memory is not None and not _changes(memory):
        (text,) = _amounts(MEMORY, memory.target)
        head = f"{head} with memory {text}"
    changed = sorted(filter(_changes, pairs), key=lambda pair: pair is not memory)
    return _joined(_after(head, [_from_to(pair, named=named) for pair in changed]))


def _is_memory_of(pair: Pair, container: str) -> bool:
    return (pair.container, pair.resource) == (container, MEMORY)


def oom_killed_as_recommended(container: str, least: float) -> str:
    """Say why a pod is left alone after an OOM kill."""
    change = f"the pod would change by less than {percent(least)}"
    return f"container {container} was OOM-killed, but {change}"


def too_big(pairs: Pairs, *, named: bool) -> str:
    """Say why a pod without a node is updated."""
    changed = sorted(filter(_changes, pairs), key=_grows)
    head = "no node has room for it, and less is recommended"
    return _joined(_after(head, [_from_to(pair, named=named) for pair in changed]))


def _grows(pair: Pair) -> bool:
    return pair.current is None or pair.target > pair.current


def boost_over(containers: Sequence[str], pairs: Iterable[Pair], *, named: bool) -> str:
    """Say which boosts are over: `boost of jvm is over: cpu 1.14 -> 143m`."""
    changed = [_from_to(pair, named=named) for pair in pairs if _changes(pair)]
    return _joined(_after(f"boost of {names_of(containers)} is over", changed))


def changes(pairs: Pairs) -> str:
    """Return what would change, without a cause; empty if nothing does."""
    named = len({pair.container for pair in pairs}) > 1
    changed = [_from_to(pair, named=named) for pair in pairs if _changes(pair)]
    return _joined(changed) if changed else ""


# --- words


def names_of(names: Sequence[str]) -> str:
    """Return some names for people: `a, b, c and 2 more`, or `a and b`."""
    if len(names) > _MOST_NAMED:
        return f"{', '.join(names[:_MOST_NAMED])} and {len(names) - _MOST_NAMED} more"
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _changes(pair: Pair) -> bool:
    return pair.current is None or pair.current.milli != pair.target.milli


def _name(pair: Pair, *, named: bool) -> str:
    return f"{pair.container} {pair.resource}" if named else pair.resource


def _from_to(pair: Pair, *, named: bool) -> str:
    if pair.current is None:
        (target,) = _amounts(pair.resource, pair.target)
        has = "none"
    else:
        has, target = _amounts(pair.resource, pair.current, pair.target)
    return f"{_name(pair, named=named)} {has} -> {target}"


def _amounts(resource: str, *quantities: Quantity) -> list[str]:
    """Write amounts so that different ones look different."""
    try:
        texts = [amount(resource, quantity) for quantity in quantities]
    except OverflowError:  # larger than any float
        texts = []
    if len(set(texts)) < len({quantity.nano for quantity in quantities}):
        texts = list(map(str, quantities))
    longest = _LONGEST_AMOUNT
    return [text if len(text) <= longest else f"{text[:longest]}..." for text in texts]


def _after(head: str, items: Sequence[str]) -> list[str]:
    """Return items with a head before the first one, or the head alone."""
    return [f"{head}: {items[0]}", *items[1:]] if items else [head]


def _joined(items: Sequence[str], between: str = "; ") -> str:
    """Join items while there is room, at least one of them; count those that are left out."""
    text, *others = items or ["nothing"]
    for position, item in enumerate(others):
        if len(text) + len(between) + len(item) > _LONGEST:
            return f"{text}{between}and {len(others) - position} more"
        text = f"{text}{between}{item}"
    return text
