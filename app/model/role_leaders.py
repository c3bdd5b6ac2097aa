"""Which pod leads by a Lease: the one that its holder calls itself.

Strategy: the holder of a Lease is compared with what a process in a pod calls itself: the name of
the pod, or its host. The longest of these that the holder's identity begins with wins, whichever
workload the pod belongs to; two that are equally long are never guessed between. What begins with
the name of a workload and a hyphen is the name of a pod of it, which may be gone. An index finds
the pods of each name, because there may be many Leases and many pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from app.model.pods import Pod
from app.model.role_leases import LeaseStanding, LeaseState, bearer

_ENDS: Final = frozenset(("", *"_-./:@"))  # what follows on what a process calls its host
_LONGEST_NAME: Final = 253
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


def is_known(before: Pod | None, now: Pod | None) -> bool:
    """Whether a pod is the one that it was, as far as it matters for who leads."""
    if before is None or now is None:
        return before is now
    return (
        (before.uid, before.hostname) == (now.uid, now.hostname)
        and before.owners == now.owners
        and (before.phase in OVER) == (now.phase in OVER)
    )


Names = Mapping[str, frozenset[str]]  # of the pods that go by each alias


def renamed(names: Names, gone: Iterable[Pod], come: Iterable[Pod]) -> Names:
    """Return an index of names after pods have gone, and others have come."""
    found = dict(names)
    for pod in gone:
        for alias in aliases(pod):
            if others := found.get(alias, frozenset()) - {pod.name}:
                found[alias] = others
            else:
                found.pop(alias, None)
    for pod in come:
        for alias in aliases(pod):
            found[alias] = found.get(alias, frozenset()) | {pod.name}
    return found


def beginnings(identity: str) -> Iterator[str]:
    """Yield what an identity may begin with that is a name, the longest one first."""
    for size in range(min(len(identity), _LONGEST_NAME), 0, -1):
        if identity[size : size + 1] in _ENDS:
            yield identity[:size]


def named(
    identity: str, names: Names, pods: Mapping[str, Pod], workloads: Collection[str]
) -> list[Pod]:
    """Return the pods that an identity names by as much of it as any.

    Args:
        identity: of a Lease's holder.
        names: the index of the pods.
        pods: all of the namespace.
        workloads: the names of what may have pods there that are gone.
    """
    for alias in beginnings(identity):
        if alias in workloads and identity.startswith("-", len(alias)):
            return []
        found = [pods[name] for name in sorted(names.get(alias, ()))]
        if live := [pod for pod in found if pod.phase not in OVER]:
            return live
    return []


def leader_of(
    standing: LeaseStanding,
    pods: Collection[Pod],
    ours: Collection[str],
    before: Leader | None = None,
) -> Leader:
    """Return who leads.

    Args:
        standing: what counts of the Lease.
        pods: those of its namespace that its holder names.
        ours: the names of the pods of targets that ask for the Lease.
        before: who led before, whose pod may be gone by now.
    """
    if (found := _OF_STATE.get(standing.state)) is not None:
        told = f": {standing.problem}" if standing.problem else ""
        return Leader(problem=found[0], message=found[1] + told)
    identity = standing.holder
    if not identity:
        return Leader()
    before = before if before is not None and before.identity == identity else None
    candidates = [pod for pod in pods if pod.name in ours]
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
    other = next(iter(pods), None)
    whom = f"pod {other.name} of another workload" if other else "no pod of the workload"
    message = f"is held by {shown(identity)}, which names {whom}"
    return Leader(identity, problem=RoleProblem.NO_POD_MATCHES, message=message)


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
