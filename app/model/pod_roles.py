"""Which pod leads, and the label that each pod of a workload has by that.

Strategy: the holder of a Lease is compared with what a process in a pod calls itself: the name of
the pod, or its host. The longest of these that the holder's identity begins with wins, whichever
workload the pod belongs to; two that are equally long are never guessed between. Where it is known
who leads, every pod of the target gets the label of leader or follower that its own labels lack;
where it is not, none gets one, so that nothing changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from app.model.errors import BadObject
from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.role_leases import (
    ROLE_LEASE_ANNOTATION,
    UNSTABLE_TEXT,
    LeaseStanding,
    LeaseState,
    PodRole,
    RoleLease,
    bearer,
    parse_role_lease,
    role_lease_of,
)
from app.model.vpa import Vpa
from app.model.workloads import Workload

_SEPARATORS: Final = "_-./:@"  # between what a process calls its host, and what it adds
_LONGEST_HOST: Final = 63  # characters of a pod's name that become its host's
_MOST_OWNERS: Final = 10  # above each other
_MOST_SHOWN: Final = 3
_LONGEST_SHOWN: Final = 100
_OVER: Final = ("Succeeded", "Failed")


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
        if size >= longest and pod.phase not in _OVER:
            found = [*found, pod] if size == longest else [pod]
            longest = size
    return found


def _is_successor(pod: Pod, before: Leader | None) -> bool:
    """Whether a pod has taken the name of one that led as a process marked by a UUID."""
    if before is None or before.uid in ("", pod.uid):
        return False
    return bearer(before.identity) != before.identity


def shown(identity: str) -> str:
    """Return an identity as sentences show it."""
    return identity if len(identity) <= _LONGEST_SHOWN else f"{identity[:_LONGEST_SHOWN]}..."


@dataclass(frozen=True, slots=True)
class Roles:
    """What is known in a namespace of the roles of its pods."""

    by_target: Mapping[ObjectKey, tuple[RoleLease, ...]] = field(default_factory=dict)
    leaders: Mapping[str, Leader] = field(default_factory=dict)  # by Lease


NO_ROLES: Final = Roles()


class RoleSources(NamedTuple):
    """The objects of a namespace from which roles follow."""

    vpas: Mapping[str, Vpa]
    leases: Mapping[str, LeaseStanding]
    workloads: Mapping[ObjectKey, Workload]
    pods: Mapping[str, Pod]


class RoleChange(NamedTuple):
    """What the roles of a namespace become, and the objects that change with them."""

    roles: Roles
    pods: Mapping[str, Pod]
    vpas: Mapping[str, Vpa]


def names_lease(vpa: Vpa | None) -> bool:
    """Whether a VPA has the annotation, readable or not."""
    return vpa is not None and ROLE_LEASE_ANNOTATION in vpa.annotations


def role_change(
    roles: Roles, before: RoleSources, now: RoleSources, changed: Collection[str]
) -> RoleChange:
    """Return what becomes of roles when objects change.

    Args:
        roles: as they were.
        before: the objects as they were.
        now: the objects as they are.
        changed: the names of the pods that were added, changed or deleted.
    """
    found = roles
    if now.vpas is not before.vpas:
        found = Roles(_by_target(now.vpas.values()), roles.leaders)
    is_same = (
        found.by_target == roles.by_target
        and now.leases is before.leases
        and _have_same_owners(before.workloads, now.workloads)
    )
    if not is_same or not all(_is_known(before.pods.get(n), now.pods.get(n)) for n in changed):
        found = replace(found, leaders=_leaders(found, now))
        is_same = is_same and found.leaders == roles.leaders
    names = (name for name in changed if name in now.pods) if is_same else now.pods
    pods = {name: with_roles(now.pods[name], found, now) for name in names}
    vpas = {} if is_same and now.vpas is before.vpas else now.vpas
    problems = {name: role_problem(vpa, found, now.leases) for name, vpa in vpas.items()}
    return RoleChange(
        found if found.by_target else NO_ROLES,
        {name: pod for name, pod in pods.items() if pod is not now.pods[name]},
        {
            name: replace(vpas[name], role_problem=problem)
            for name, problem in problems.items()
            if vpas[name].role_problem != problem
        },
    )


def _by_target(vpas: Iterable[Vpa]) -> dict[ObjectKey, tuple[RoleLease, ...]]:
    """Return the Leases that targets ask for; what VPAs of one contradict each other in is none."""
    asked: dict[ObjectKey, dict[RoleLease, None]] = {}
    for vpa in vpas:
        found = role_lease_of(vpa.annotations) if names_lease(vpa) else None
        if found is not None and vpa.target is not None:
            asked.setdefault(vpa.target.key, {})[found] = None
    return {target: _without_contradictions(found) for target, found in asked.items()}


def _without_contradictions(found: Collection[RoleLease]) -> tuple[RoleLease, ...]:
    keys = Counter(one.key for one in found)
    return tuple(sorted(one for one in found if keys[one.key] == 1))


def _have_same_owners(
    before: Mapping[ObjectKey, Workload], now: Mapping[ObjectKey, Workload]
) -> bool:
    if before is now:
        return True
    return before.keys() == now.keys() and all(
        one is before[key] or one.owner == before[key].owner for key, one in now.items()
    )


def _is_known(before: Pod | None, now: Pod | None) -> bool:
    """Whether a pod is the one that it was, as far as it matters for who leads."""
    if before is None or now is None:
        return before is now
    return (
        (before.uid, before.hostname) == (now.uid, now.hostname)
        and before.owners == now.owners
        and (before.phase in _OVER) == (now.phase in _OVER)
    )


def _leaders(roles: Roles, now: RoleSources) -> dict[str, Leader]:
    leases = {one.lease for found in roles.by_target.values() for one in found}
    return {name: _leader(name, roles, now) for name in sorted(leases) if name in now.leases}


def _leader(lease: str, roles: Roles, now: RoleSources) -> Leader:
    def is_ours(pod: Pod) -> bool:
        return any(one.lease == lease for one in role_leases(pod, roles, now.workloads))

    before = roles.leaders.get(lease)
    return leader_of(now.leases[lease], now.pods.values(), is_ours, before)


def role_leases(
    pod: Pod, roles: Roles, workloads: Mapping[ObjectKey, Workload]
) -> tuple[RoleLease, ...]:
    """Return the Leases that decide about the roles of a pod, by the controllers above it."""
    owner, above = pod.controller, 0
    while owner is not None and above < _MOST_OWNERS:
        if (found := roles.by_target.get(key := owner.key)) is not None:
            return found
        workload = workloads.get(key)
        owner, above = (workload.owner if workload is not None else None), above + 1
    return ()


def with_roles(pod: Pod, roles: Roles, now: RoleSources) -> Pod:
    """Return a pod with the labels that Leases give it, the same one if it has them."""
    labels = given_labels(pod)
    found = tuple(
        role
        for one in role_leases(pod, roles, now.workloads)
        if one.key not in labels and (role := _role(pod, one, roles, now.leases)) is not None
    )
    if found == pod.roles:
        return pod
    return replace(pod, roles=found, labels={**labels, **{one.key: one.value for one in found}})


def given_labels(pod: Pod) -> Mapping[str, str]:
    """Return the labels that a pod has in the cluster."""
    if not pod.roles:
        return pod.labels
    keys = {role.key for role in pod.roles}
    return {key: value for key, value in pod.labels.items() if key not in keys}


def leads(pod: Pod) -> bool:
    """Whether a pod holds a Lease that decides about its role."""
    return any(role.leads for role in pod.roles)


def role_names(pod: Pod) -> str:
    """Return what roles a pod has by Leases; empty if it has none."""
    return ", ".join(role.value for role in pod.roles)


def why_roles(pod: Pod) -> str:
    """Return what roles a pod has by Leases, and why; empty if it has none."""
    return "; ".join(role.why for role in pod.roles)


def as_acting(pod: Pod) -> Pod:
    """Return a pod with the labels of what it does: one that is only sized as a leader follows."""
    others = {
        role.key: role.lease.follower
        for role in pod.roles
        if role.value == role.lease.leader and not role.leads
    }
    return replace(pod, labels={**pod.labels, **others}) if others else pod


def created_labels(
    labels: Mapping[str, str], asked: Iterable[RoleLease], leases: Mapping[str, LeaseStanding]
) -> Mapping[str, str]:
    """Return the labels of a pod that is being created, which cannot hold a Lease yet.

    It follows, unless a Lease is so unstable that all pods are sized as leaders.
    """
    found = {
        one.key: one.leader
        if one.lease in leases and leases[one.lease].is_unstable
        else one.follower
        for one in asked
    }
    return {**found, **labels}


def _role(
    pod: Pod, asked: RoleLease, roles: Roles, leases: Mapping[str, LeaseStanding]
) -> PodRole | None:
    """Return the role of a pod by a Lease, None if it is not known."""
    leader, standing = roles.leaders.get(asked.lease), leases.get(asked.lease)
    if leader is None or standing is None or leader.problem is not None:
        return None
    leads = bool(leader.uid) and leader.uid == pod.uid
    value = asked.leader if leads or standing.is_unstable else asked.follower
    lease = f"Lease {pod.namespace}/{asked.lease}"
    if standing.is_unstable and not leads:
        why = f"{lease} changed hands {UNSTABLE_TEXT}"
    elif leader.identity:
        verb = "is" if standing.state is LeaseState.HELD else "was last"
        since = f" since {standing.since:%H:%M}" if standing.since is not None else ""
        why = f"{lease} {verb} held by {shown(leader.identity)}{since}"
    else:
        why = f"{lease} is not held"
    return PodRole(asked, value, leads, f"{value}, because {why}", standing.since)


def role_problem(
    vpa: Vpa, roles: Roles, leases: Mapping[str, LeaseStanding]
) -> tuple[RoleProblem, str] | None:
    """Return why it is not known which pod of a VPA leads, None if it is, or not asked for."""
    if not names_lease(vpa) or vpa.target is None:
        return None
    try:
        asked = parse_role_lease(vpa.annotations[ROLE_LEASE_ANNOTATION])
    except BadObject as error:
        message = f"annotation {ROLE_LEASE_ANNOTATION}: {error.message}"
        return RoleProblem.UNREADABLE_ANNOTATION, message
    if asked not in roles.by_target.get(vpa.target.key, ()):
        message = f"VPAs of {vpa.target.key} name different Leases or values for {asked.key}"
        return RoleProblem.CONTRADICTION, message
    lease = f"Lease {vpa.namespace}/{asked.lease}"
    leader, standing = roles.leaders.get(asked.lease), leases.get(asked.lease)
    if leader is None or standing is None:
        return RoleProblem.NOT_READ, f"{lease} is not read yet"
    if leader.problem is not None:
        return leader.problem, f"{lease} {leader.message}"
    if standing.is_unstable:
        message = f"{lease} changed hands {UNSTABLE_TEXT}: "
        message += f"all pods are sized as {asked.leader} until it is quiet for as long"
        return RoleProblem.UNSTABLE, message
    return None
