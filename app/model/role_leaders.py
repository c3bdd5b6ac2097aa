"""Which pod leads by a Lease: the one that its holder calls itself.

Strategy: the holder of a Lease is compared with what a process in a pod calls itself: the name of
the pod, or its host. The longest of these that the holder's identity begins with wins, whichever
workload the pod belongs to; two that are equally long are never guessed between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from app.model.pods import Pod
from app.model.role_leases import LeaseStanding, LeaseState, bearer

_SEPARATORS: Final = "_-./:@"  # between what a process calls its host, and what it adds
_LONGEST_HOST: Final = 63  # characters of a pod's name that become its host's
_MOST_SHOWN: Final = 3
_LONGEST_SHOWN: Final = 100
OVER: Final = ("Succeeded", "Failed")


class RoleProblem(StrEnum):
    """Why it is not known which pod leads."""

    NOT_READ = "LeaseNotRead"
    NO_LEASE = "NoLease"
    NO_RIGHT = "NoRight"
    UNREADABLE_LEASE = "UnreadableLease"
    UNREADABLE_ANNOTATION = "UnreadableAnnotation"
    CONTRADICTION = "RolesContradict"
    NO_POD_MATCHES = "NoPodMatches"
    AMBIGUOUS = "RoleAmbiguous"
    UNSTABLE = "RoleUnstable"  # it is known, and not used for a while


_OF_STATE: Final = {
    LeaseState.MISSING: (RoleProblem.NO_LEASE, "does not exist"),
    LeaseState.FORBIDDEN: (RoleProblem.NO_RIGHT, "may not be watched"),
    LeaseState.UNREADABLE: (RoleProblem.UNREADABLE_LEASE, "cannot be used"),
}


class Leader(NamedTuple):
    """Who leads by a Lease; without a problem and without a pod it is known that none does."""

    identity: str = ""
    uid: str = ""  # of the pod that leads, or led under this identity and is gone
    pod: str = ""
    problem: RoleProblem | None = None
    message: str = ""  # what is wrong


def aliases(pod: Pod) -> Iterator[str]:
    """Yield what processes in a pod may call themselves."""
    yield pod.name
    if len(pod.name) > _LONGEST_HOST:
        yield pod.name[:_LONGEST_HOST].rstrip("-.")
    if pod.hostname:
        yield pod.hostname


def matched(identity: str, pod: Pod) -> int:
    """Return how long the part of an identity is that names a pod, zero if none does."""
    longest = 0
    for alias in aliases(pod):
        size = len(alias)
        if size > longest and identity.startswith(alias):
            rest = identity[size : size + 1]
            longest = size if not rest or rest in _SEPARATORS else longest
    return longest


def leader_of(
    standing: LeaseStanding,
    pods: Iterable[Pod],
    is_ours: Callable[[Pod], bool],
    before: Leader | None = None,
) -> Leader:
    """Return who leads.

    Args:
        standing: what counts of the Lease.
        pods: all of its namespace.
        is_ours: whether a pod is of a target that asks for the Lease.
        before: who led before, whose pod may be gone by now.
    """
    if (found := _OF_STATE.get(standing.state)) is not None:
        told = f": {standing.problem}" if standing.problem else ""
        return Leader(problem=found[0], message=found[1] + told)
    identity = standing.holder
    if not identity:
        return Leader()
    before = before if before is not None and before.identity == identity else None
    named = _named(identity, pods)
    candidates = [pod for pod in named if is_ours(pod)]
    if before is not None and any(pod.uid == before.uid for pod in candidates):
        return before  # the others of its name came later
    if len(candidates) > 1:
        names = " or ".join(sorted(one.name for one in candidates)[:_MOST_SHOWN])
        message = f"is held by {shown(identity)}, which may be {names}"
        return Leader(identity, problem=RoleProblem.AMBIGUOUS, message=message)
    if candidates and not _is_successor(candidates[0], before):
        return Leader(identity, candidates[0].uid, candidates[0].name)
    if before is not None and before.uid:
        return before  # its pod is gone, and no other one is what held the Lease
    whom = f"pod {named[0].name} of another workload" if named else "no pod of the workload"
    message = f"is held by {shown(identity)}, which names {whom}"
    return Leader(identity, problem=RoleProblem.NO_POD_MATCHES, message=message)


def _named(identity: str, pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that an identity names by as much of it as any."""
    longest, found = 1, list[Pod]()
    for pod in pods:
        size = matched(identity, pod)
        if size >= longest and pod.phase not in OVER:
            found = [*found, pod] if size == longest else [pod]
            longest = size
    return found


def _is_successor(pod: Pod, before: Leader | None) -> bool:
    """Whether a pod has taken the name of one that led as a process marked by a UUID."""
    if before is None or before.uid in ("", pod.uid):
        return False
    return bearer(before.identity) != before.identity


def shown(identity: str) -> str:
    """Return an identity as sentences show it: others write it, so nothing in it is obeyed."""
    cut = identity[:_LONGEST_SHOWN]
    plain = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in cut)
    return plain if cut == identity else f"{plain}..."
