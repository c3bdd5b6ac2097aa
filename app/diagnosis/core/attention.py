"""How the pods of a VPA are doing, in a few words.

Strategy: what is being done comes first, then what blocks, then what only takes its time; among
pods of one level the reason of most of them counts. The words of a reason fit a narrow terminal; a
reason that has none here is taken apart into words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Final

from app.model.pod_roles import given_labels
from app.model.role_leaders import RoleProblem
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.recommender.core.status import ConditionType
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.events import counted


class Attention(IntEnum):
    """How much attention a VPA needs, the most first."""

    BLOCKED = 0  # something is wanted, and a person has to help
    WAITING = 1  # the same, and it comes by itself
    UPDATING = 2
    FINE = 3
    IDLE = 4  # nothing is to be expected


@dataclass(frozen=True, slots=True)
class Status:
    """How the pods of a VPA are doing, in words."""

    level: Attention
    text: str
    more: str = ""  # follows the text where there is room
    why: str = ""  # the updater's own sentence


_BLOCKED, _WAITING, _FINE, _IDLE = (
    Attention.BLOCKED,
    Attention.WAITING,
    Attention.FINE,
    Attention.IDLE,
)
# Where a level has a word, it stands before the words of the reason.
_WORDS: Final = {_BLOCKED: "blocked: ", _WAITING: "waits: "}
# By reason: the level, the words, and what follows them where there is room.
PHRASES: Final[Mapping[Reason, tuple[Attention, str, str]]] = {
    Reason.REQUIREMENT_NOT_MET: (_BLOCKED, "requirement", " for evictions not met"),
    Reason.TOO_FEW_REPLICAS: (_BLOCKED, "minReplicas", ", too few pods"),
    Reason.LAST_OF_ROLE: (_BLOCKED, "last of role", ""),
    Reason.HOLDS_LEASE: (_WAITING, "leader goes last", ""),
    Reason.ROLE_SETTLING: (_WAITING, "former leader", " keeps its size for a while"),
    Reason.OWNER_UNKNOWN: (_BLOCKED, "unknown owner", ""),
    Reason.PDB_BLOCKED: (_BLOCKED, "PDB", ""),
    Reason.PAUSED: (_BLOCKED, "paused", " by an annotation"),
    Reason.LEASE_STALE: (_BLOCKED, "webhook away", ", its Lease is stale"),
    Reason.RECREATED_WITHOUT_CHANGE: (_BLOCKED, "no effect", " of evictions"),
    Reason.RESIZE_INFEASIBLE: (_BLOCKED, "node too small", " for the resize"),
    Reason.INFEASIBLE_REMEMBERED: (_BLOCKED, "node too small", " for the resize"),
    Reason.RESIZE_ERROR: (_BLOCKED, "resize failed", ""),
    Reason.EVICTION_ERROR: (_BLOCKED, "evict failed", ""),
    Reason.UNBOOST_STUCK: (_BLOCKED, "boost stays", ", it cannot be ended"),
    Reason.TOO_YOUNG: (_WAITING, "within bounds", ""),
    Reason.NO_START_TIME: (_WAITING, "pod to start", ""),
    Reason.BUDGET_EXHAUSTED: (_WAITING, "others first", ", by the budget"),
    Reason.RATE_LIMITED: (_WAITING, "rate limit", ""),
    Reason.PLAN_OUTDATED: (_WAITING, "next round", ""),
    Reason.RESIZE_IN_PROGRESS: (_WAITING, "resize goes on", ""),
    Reason.RESIZE_DEFERRED: (_WAITING, "room on node", " for the resize"),
    Reason.BOOST_RUNNING: (_WAITING, "startup boost", ""),
    Reason.POD_PENDING: (_WAITING, "pod pending", ""),
    Reason.POD_TERMINATING: (_WAITING, "pod ending", ""),
    Reason.ROLLOUT_IN_PROGRESS: (_WAITING, "rollout", " to end"),
    Reason.PROOF_PENDING: (_WAITING, "canary", " goes first"),
    Reason.NO_CHANGE: (_FINE, "ok", ""),
    Reason.TOO_SMALL: (_FINE, "ok", ", the change is small"),
    Reason.NOT_UPSCALE: (_FINE, "ok", ", it would only shrink"),
    Reason.SCALED_HORIZONTALLY: (_FINE, "held", ", an HPA scales by it"),
    Reason.NO_RECOMMENDATION: (_IDLE, "no recommendation", ""),
    Reason.NO_CONTAINER_RECOMMENDATION: (_IDLE, "no recommendation", " for containers"),
    Reason.MODE_OFF: (_IDLE, "recommends only", ""),
    Reason.MODE_INITIAL: (_IDLE, "new pods only", ""),
    Reason.GATE_DISABLED: (_IDLE, "feature gate off", ""),
    Reason.NO_SELECTOR_MATCH: (_IDLE, "no VPA selects", " the pods"),
    Reason.ROLE_UNKNOWN: (_BLOCKED, "role unknown", ""),
}
_ACTIONS: Final = {
    Action.EVICT: "evicting",
    Action.RESIZE: "resizing",
    Action.UNBOOST: "ending boost",
}
_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def leading(decided: Sequence[Decision]) -> Decision:
    """Return a decision that stands for all: what is done, else what needs most attention."""
    acting = [one for one in decided if one.action in _ACTIONS]
    level = min(map(attention_of, decided))
    some = acting or [one for one in decided if attention_of(one) is level]
    counts = Counter(one.reason for one in some)
    return min(some, key=lambda one: (-counts[one.reason], one.reason, one.pod))


def status_of(view: NamespaceView, decided: Sequence[Decision]) -> Status:
    """Return how the pods of a VPA are doing, each with its decision."""
    first = leading(decided)
    if first.action not in _ACTIONS:
        return _phrased(view, first)
    acting = sum(one.action in _ACTIONS for one in decided)
    more = f" {acting} of {counted(len(decided))}"
    return Status(Attention.UPDATING, _ACTIONS[first.action], more, first.message)


def without_pods(vpa: Vpa, decided_at: datetime | None) -> Status:
    """Say whether there are no pods, or the updater has not looked since there is a VPA."""
    is_seen = decided_at is not None and (vpa.created is None or vpa.created < decided_at)
    return no_pods(vpa) if is_seen else Status(_IDLE, "not yet seen")


def no_pods(vpa: Vpa) -> Status:
    """Say that there are no pods, or that nobody knows which of them are meant."""
    reason, message = role_unknown(vpa) or ("", "")
    if reason in ("", RoleProblem.NOT_READ):
        return Status(_IDLE, "no pods")
    return Status(_BLOCKED, f"{_WORDS[_BLOCKED]}role unknown", why=message)


def role_unknown(vpa: Vpa) -> tuple[str, str] | None:
    """Return why it is not known which pod leads by a Lease, None if it is, or not asked for.

    What its processes say in a condition counts before what it seems here.
    """
    for one in vpa.conditions:
        if one.type == ConditionType.ROLE_UNKNOWN and one.status == "True":
            return one.reason, one.message
    return vpa.role_problem


def upcoming_text(decision: Decision) -> str:
    """Say what will happen when a decision may change by itself; empty if it is of no interest."""
    match decision.reason:
        case Reason.TOO_YOUNG:
            return f"{decision.vpa} may be updated within its bounds"
        case Reason.BOOST_RUNNING:
            return f"the startup boost of {decision.vpa} ends"
        case _:
            return ""


def _phrased(view: NamespaceView, decision: Decision) -> Status:
    level, text, more = _phrase(decision)
    if decision.reason is Reason.PDB_BLOCKED:
        text = f"{text} {_budgets(view, decision)}".rstrip()
    if decision.until is not None and level is _WAITING:
        more = f"{more}, until {decision.until:%H:%M}"
    return Status(level, text, more, decision.message)


def _phrase(decision: Decision) -> tuple[Attention, str, str]:
    known = PHRASES.get(decision.reason)
    if known is not None:
        level, text, more = known
        return level, f"{_WORDS.get(level, '')}{text}", more
    level = _WAITING if decision.action is Action.WAIT else _FINE
    return level, _CAPITAL.sub(" ", str(decision.reason)).lower(), ""


def attention_of(decision: Decision) -> Attention:
    """Return how much attention a decision needs."""
    return _phrase(decision)[0]


def _budgets(view: NamespaceView, decision: Decision) -> str:
    """Return the names of the PodDisruptionBudgets of a pod."""
    pod = view.pods.get(decision.pod)
    if pod is None:
        return ""
    labels = given_labels(pod)
    found = (one.name for one in view.budgets.values() if one.selector.matches(labels))
    return ", ".join(sorted(found))
