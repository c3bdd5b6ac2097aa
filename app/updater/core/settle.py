"""What the pods of one owner get of what they wish.

Strategy: first what holds a single pod back (requirements, too few pods, a rollout, the webhook,
no proof), each with its reason; then places are given out in the order of need, ends of boosts
first, then resizes, then evictions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from app.model.vpa import Vpa
from app.updater.core.budget import Budget
from app.updater.core.carrying import Queue, Rank, Step, Walk
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.hindrances import Desk, Group
from app.updater.core.ledger import Ledger
from app.updater.core.modes import IN_PLACE_MODES
from app.updater.core.need import Priority, Trigger
from app.updater.core.proving import judge_replacements
from app.updater.core.wishes import Assessment, Terms, Wish

_RANKS: Final = {Action.UNBOOST: 0, Action.RESIZE: 1, Action.EVICT: 2}
_DONE: Final = {
    Action.UNBOOST: Reason.UPDATED,
    Action.RESIZE: Reason.UPDATED,
    Action.EVICT: Reason.EVICTED,
}


@dataclass(frozen=True, slots=True)
class Settled:
    """What is decided for the pods of one owner."""

    decisions: dict[str, Decision]  # by uid
    queue: Queue | None = None
    evictable: Counter[str] = field(default_factory=Counter)  # pods by VPA that could go now
    resizable: Counter[str] = field(default_factory=Counter)


def settle(group: Group, terms: Terms, ledger: Ledger) -> Settled:
    """Decide for all pods of one owner."""
    found = {
        assessed.pod.uid: assessed.decision
        for assessed in group.assessments
        if assessed.decision is not None
    }
    desk = Desk(group, terms, ledger)
    judge_replacements(group, desk.size, terms, ledger)
    settled = Settled(found)
    steps = [
        step
        for assessed, wish in _wishes(group)
        if (step := _step(assessed, wish, desk, settled)) is not None
    ]
    if not steps:
        return settled
    return replace(settled, queue=_given_out(steps, desk, found))


def _wishes(group: Group) -> list[tuple[Assessment, Wish]]:
    """Return the pods that wish something, in the order in which they get it."""
    found = [(assessed, assessed.wish) for assessed in group.assessments if assessed.wish]
    return sorted(found, key=lambda pair: (_RANKS[pair[1].action], _rank(*pair)))


def _rank(assessed: Assessment, wish: Wish) -> Rank:
    """Return how urgent a wish is; the end of a boost comes behind all that is out of bounds."""
    priority = wish.priority or Priority(
        assessed.pod, is_up=False, found=Trigger(0, is_outside=False), quick_oom=False
    )
    return priority.key()


def _step(assessed: Assessment, wish: Wish, desk: Desk, settled: Settled) -> Step | None:
    """Return what is to be done for a pod, or note why it has to wait."""
    hindrance = desk.hindrance(assessed, wish)
    if hindrance is not None and wish.otherwise is not None:
        reason = wish.gives_back or Reason.RESIZE_DEFERRED
        message = f"{wish.message}; taken back, for it may not be evicted: {hindrance[1]}"
        wish = Wish(
            Action.RESIZE,
            message,
            wish.otherwise,
            wish.priority,
            is_free=True,
            gives_back=reason,
        )
        hindrance = None
    if hindrance is not None:
        settled.decisions[assessed.pod.uid] = assessed.decided(Action.WAIT, *hindrance)
        return None
    step = _made(assessed, wish, desk)
    _count(step, assessed.vpa, desk.budget, settled)
    return step


def _made(assessed: Assessment, wish: Wish, desk: Desk) -> Step:
    reason = wish.gives_back if wish.action is Action.RESIZE else None
    decision = assessed.decided(wish.action, reason or _DONE[wish.action], wish.message)
    may_evict = wish.may_evict and desk.may_evict(assessed)
    goes = wish.action is Action.EVICT or may_evict
    decision = replace(
        decision,
        change=wish.change,
        may_evict_instead=may_evict,
        is_canary=goes and desk.is_canary(assessed),
    )
    return Step(
        assessed.pod,
        decision,
        takes_place=desk.takes_place(wish),
        is_broken=desk.is_broken(assessed),
        guards=desk.guard_places(assessed.pod) if goes else (),
        rank=_rank(assessed, wish),
    )


def _count(step: Step, vpa: Vpa, budget: Budget, settled: Settled) -> None:
    """Count the pods that could be updated if each were the only one."""
    if step.decision.action is Action.UNBOOST:
        return
    if not step.takes_place or budget.has_place(broken=step.is_broken):
        is_in_place = vpa.mode in IN_PLACE_MODES or step.decision.action is Action.RESIZE
        (settled.resizable if is_in_place else settled.evictable)[vpa.name] += 1


def _given_out(steps: list[Step], desk: Desk, found: dict[str, Decision]) -> Queue | None:
    """Give out places as if every call will succeed; the others stand by."""
    queue = Queue(
        desk.group.namespace,
        desk.group.key,
        desk.budget,
        tuple(steps),
        frozenset(step.decision.vpa for step in steps if step.decision.is_canary),
        frozenset(pod.uid for pod in desk.group.pods),
        desk.up,
    )
    walk = Walk(queue)
    planned: set[str] = set()
    dropped: set[str] = set()
    while (step := walk.next()) is not None:
        refusal = desk.refusal(step) if step.is_eviction else None
        if refusal is not None:
            walk.came_to_nothing(step)
            dropped.add(step.pod.uid)
            found[step.pod.uid] = step.decision.put_off(*refusal)
            continue
        planned.add(step.pod.uid)
        found[step.pod.uid] = step.decision
    for step, why in walk.rest():
        found[step.pod.uid] = step.decision.put_off(*why)
    if not planned:
        return None
    return replace(queue, steps=tuple(step for step in steps if step.pod.uid not in dropped))
