"""What the updater does for one VPA, in the words of a status condition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from app.updater.core.decisions import Action, Decision


@dataclass(frozen=True, slots=True)
class Summary:
    """A condition: whether something is being done, or why not."""

    status: str
    reason: str
    message: str


def summary(decisions: Iterable[Decision]) -> Summary:
    """Sum up the decisions about the pods of one VPA; the same decisions give the same words."""
    found = list(decisions)
    counts = Counter(decision.reason for decision in found)
    acting = [item for item in found if item.action not in (Action.WAIT, Action.NONE)]
    waiting = [item for item in found if item.action is Action.WAIT]
    words = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
    if not found:
        return Summary("False", "NoPods", "no pods")
    status = "True" if acting else "False"
    return Summary(status, _most(acting or waiting or found), f"{counted(len(found))}: {words}")


def _most(decisions: list[Decision]) -> str:
    """Return the reason that most pods have, the first by name if several do."""
    counts = Counter(decision.reason for decision in decisions)
    return str(min(counts, key=lambda reason: (-counts[reason], reason)))


def counted(pods: int) -> str:
    """Write a number of pods for people."""
    return "1 pod" if pods == 1 else f"{pods} pods"
