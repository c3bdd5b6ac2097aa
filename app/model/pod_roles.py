"""The labels that pods have by who leads, as the Leases tell that VPAs name.

Strategy: where it is known who leads, every pod of the target gets the label of leader or follower
that its own labels lack; where it is not, none gets one, and no VPA takes it that asks for such a
label, because its selector needs the label to be there. So nothing changes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from app.model.errors import BadObject
from app.model.kinds import ObjectKey, OwnerReference
from app.model.pods import Pod
from app.model.role_leaders import (
    OVER,
    Leader,
    Names,
    RoleProblem,
    aliases,
    is_known,
    leader_of,
    named,
    renamed,
    shown,
)
from app.model.role_leases import (
    ROLE_LEASE_ANNOTATION,
    UNSTABLE_TEXT,
    LeaseStanding,
    LeaseState,
    PodRole,
    RoleLease,
    parse_role_lease,
    role_lease_of,
)
from app.model.vpa import Vpa
from app.model.workloads import Workload

_MOST_OWNERS: Final = 10  # above each other


@dataclass(frozen=True, slots=True)
class Roles:
    """What is known in a namespace of the roles of its pods."""

    by_target: Mapping[ObjectKey, tuple[RoleLease, ...]] = field(default_factory=dict)
    keys: Mapping[ObjectKey, frozenset[str]] = field(default_factory=dict)  # of labels, by target
    leaders: Mapping[str, Leader] = field(default_factory=dict)  # by Lease
    names: Names = field(default_factory=dict)
    pods: Mapping[str, frozenset[str]] = field(default_factory=dict)  # names of those, by Lease


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
    found = _asked(roles, before.vpas, now.vpas)
    is_new = found is not roles or not _have_same_owners(before.workloads, now.workloads, roles)
    found = _indexed(found, before, now, now.pods if is_new else changed, is_new=is_new)
    again = set(found.pods) if is_new else _touched(found, before, now, changed)
    leaders = dict(_leaders(again & now.leases.keys(), found, now)) if again else {}
    turned = {
        name
        for name in again
        if leaders.get(name) != roles.leaders.get(name)
        or now.leases.get(name) is not before.leases.get(name)
    }
    if again or is_new:
        kept = {} if is_new else roles.leaders
        others = {name: one for name, one in kept.items() if name not in again}
        found = replace(found, leaders=others | leaders)
    names = set(now.pods if is_new else changed).union(*(found.pods[one] for one in turned))
    pods = {name: with_roles(now.pods[name], found, now) for name in names & now.pods.keys()}
    vpas = now.vpas if is_new or turned or now.vpas is not before.vpas else {}
    judged = {
        name: _judged(vpa, found, now.leases)
        for name, vpa in vpas.items()
        if is_new or vpa is not before.vpas.get(name) or _depends(vpa, found, turned)
    }
    return RoleChange(
        found if found.keys else NO_ROLES,
        {name: pod for name, pod in pods.items() if pod is not now.pods[name]},
        {name: vpa for name, vpa in judged.items() if vpa is not now.vpas[name]},
    )


def _depends(vpa: Vpa, roles: Roles, leases: Collection[str]) -> bool:
    """Whether a VPA may have something to say of one of some Leases."""
    if vpa.target is None:
        return False
    return any(one.lease in leases for one in roles.by_target.get(vpa.target.key, ()))


def _judged(vpa: Vpa, roles: Roles, leases: Mapping[str, LeaseStanding]) -> Vpa:
    """Return a VPA that knows which roles it needs and why they are not known, or the same one."""
    keys = roles.keys.get(vpa.target.key, ()) if vpa.target is not None else ()
    selector = vpa.selector.needing(keys) if vpa.selector is not None else None
    problem = role_problem(vpa, roles, leases)
    if vpa.role_problem == problem and vpa.selector == selector:
        return vpa
    return replace(vpa, selector=selector, role_problem=problem)


def _asked(roles: Roles, before: Mapping[str, Vpa], now: Mapping[str, Vpa]) -> Roles:
    """Return the Leases that targets ask for; what VPAs of one contradict each other in is none."""
    names = before.keys() | now.keys() if now is not before else ()
    changed = (one for one in names if before.get(one) is not now.get(one))
    if all(_question(before.get(one)) == _question(now.get(one)) for one in changed):
        return roles
    asked: dict[ObjectKey, dict[RoleLease, None]] = {}
    keys: dict[ObjectKey, frozenset[str]] = {}
    for target, text, selected in filter(None, map(_question, now.values())):
        found = role_lease_of({ROLE_LEASE_ANNOTATION: text})
        if found is not None:
            asked.setdefault(target, {})[found] = None
            selected = frozenset((found.key,))
        keys[target] = keys.get(target, frozenset()) | selected  # one of these is given
    by_target = {target: _without_contradictions(found) for target, found in asked.items()}
    return replace(roles, by_target=by_target, keys=keys)


def _question(vpa: Vpa | None) -> tuple[ObjectKey, str, frozenset[str]] | None:
    """Return the target of a VPA that names a Lease, the annotation and the keys it selects by."""
    if vpa is None or vpa.target is None or not names_lease(vpa):
        return None
    requirements = vpa.selector.requirements if vpa.selector is not None else ()
    text = vpa.annotations[ROLE_LEASE_ANNOTATION]
    return vpa.target.key, text, frozenset(one.key for one in requirements)


def _indexed(
    roles: Roles, before: RoleSources, now: RoleSources, changed: Iterable[str], *, is_new: bool
) -> Roles:
    """Return what is known with the indexes of pods as they are now.

    Args:
        roles: what is known.
        before: the objects as they were.
        now: the objects as they are.
        changed: the names of the pods that may have changed.
        is_new: whether all of it begins anew.
    """
    was = {} if is_new else before.pods
    moved = [name for name in changed if not is_known(was.get(name), now.pods.get(name))]
    if not moved and not is_new:
        return roles
    gone = [was[name] for name in moved if name in was]
    come = [now.pods[name] for name in moved if name in now.pods]
    asked = (one for found in roles.by_target.values() for one in found)
    pods = {one.lease: frozenset[str]() for one in asked} if is_new else dict(roles.pods)
    for pod in gone:
        for one in role_leases(pod.controller, roles, before.workloads):
            pods[one.lease] -= {pod.name}
    more: defaultdict[str, set[str]] = defaultdict(set)
    for pod in come:
        for one in role_leases(pod.controller, roles, now.workloads):
            more[one.lease].add(pod.name)
    for lease, names in more.items():
        pods[lease] |= names
    return replace(roles, names=renamed({} if is_new else roles.names, gone, come), pods=pods)


def _without_contradictions(found: Collection[RoleLease]) -> tuple[RoleLease, ...]:
    keys = Counter(one.key for one in found)
    return tuple(sorted(one for one in found if keys[one.key] == 1))


def _have_same_owners(
    before: Mapping[ObjectKey, Workload], now: Mapping[ObjectKey, Workload], roles: Roles
) -> bool:
    """Whether no pod is of another target than before, by what stands between them."""
    names = before.keys() | now.keys() if now is not before else ()
    return all(
        was is became or _leases_above(was, roles, before) == _leases_above(became, roles, now)
        for was, became in ((before.get(one), now.get(one)) for one in names)
    )


def _leases_above(
    workload: Workload | None, roles: Roles, workloads: Mapping[ObjectKey, Workload]
) -> tuple[RoleLease, ...]:
    return role_leases(workload.owner if workload is not None else None, roles, workloads)


def _touched(
    roles: Roles, before: RoleSources, now: RoleSources, changed: Collection[str]
) -> set[str]:
    """Return the Leases that changed, or whose holders may be pods that came, changed or went."""
    found = set[str]()
    if now.leases is not before.leases:
        found = {name for name in roles.pods if now.leases.get(name) is not before.leases.get(name)}
    pairs = [(before.pods.get(name), now.pods.get(name)) for name in changed]
    moved = [pod for pair in pairs if not is_known(*pair) for pod in pair if pod is not None]
    called = {alias for pod in moved for alias in aliases(pod)}
    if now.workloads is not before.workloads:
        called |= {f"{one.name}-" for one in now.workloads.keys() ^ before.workloads.keys()}
    if called:
        first = tuple(called)
        leaders = roles.leaders.items()
        found |= {name for name, leader in leaders if leader.identity.startswith(first)}
    return found


def _leaders(leases: Iterable[str], roles: Roles, now: RoleSources) -> Iterator[tuple[str, Leader]]:
    workloads = {key.name for key in now.workloads}
    for lease in leases:
        before = roles.leaders.get(lease)
        pods = named(now.leases[lease].holder, roles.names, now.pods, workloads)
        if before is not None and (led := now.pods.get(before.pod)) is not None:
            is_mistaken = led.uid == before.uid and led.phase not in OVER and led not in pods
            before = None if is_mistaken else before  # what is read by now tells more
        yield lease, leader_of(now.leases[lease], pods, roles.pods[lease], before)


def role_leases(
    owner: OwnerReference | None, roles: Roles, workloads: Mapping[ObjectKey, Workload]
) -> tuple[RoleLease, ...]:
    """Return the Leases that decide about the roles of pods, by the controllers above them."""
    above = 0
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
        for one in role_leases(pod.controller, roles, now.workloads)
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

    It follows, unless a Lease is so unstable that all pods are sized as leaders. Where Leases may
    not be watched nothing is known of roles, as of those of other pods.
    """
    found = {}
    for one in asked:
        lease = leases.get(one.lease)
        if lease is None or lease.state is not LeaseState.FORBIDDEN:
            is_unstable = lease is not None and lease.is_unstable
            found[one.key] = one.leader if is_unstable else one.follower
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
        since = f" since {standing.since:%Y-%m-%d %H:%M}" if standing.since is not None else ""
        why = f"{lease} {verb} held by {shown(leader.identity)}{since}"
    else:
        why = f"{lease} is not held"
    seen = standing.seen_since or standing.since
    return PodRole(asked, value, leads, f"{value}, because {why}", seen, standing.since)


def role_problem(
    vpa: Vpa, roles: Roles, leases: Mapping[str, LeaseStanding]
) -> tuple[RoleProblem, str] | None:
    """Return why it is not known which pod of a VPA leads, None if it is, or not asked for."""
    if vpa.target is None:
        return None
    if not names_lease(vpa):  # another one of its workload may, and its selector ask for the label
        found = asked_by(vpa, roles)
        unclear = roles.keys.get(vpa.target.key, frozenset()) - {one.key for one in found}
        for key in sorted(unclear):
            if vpa.selector is not None and vpa.selector.asked_of(key):
                return _contradiction(vpa.target.key, key)
        problems = (_problem_of(vpa, one, roles, leases) for one in found)
        return next((one for one in problems if one is not None), None)
    try:
        asked = parse_role_lease(vpa.annotations[ROLE_LEASE_ANNOTATION])
    except BadObject as error:
        message = f"annotation {ROLE_LEASE_ANNOTATION}: {error.message}"
        return RoleProblem.UNREADABLE_ANNOTATION, message
    if asked not in roles.by_target.get(vpa.target.key, ()):
        return _contradiction(vpa.target.key, asked.key)
    return _problem_of(vpa, asked, roles, leases)


def _contradiction(target: ObjectKey, key: str) -> tuple[RoleProblem, str]:
    told = f"VPAs of {target} name different Leases or values for {key}, or none that can be read"
    return RoleProblem.CONTRADICTION, told


def asked_by(vpa: Vpa, roles: Roles) -> tuple[RoleLease, ...]:
    """Return the Leases by whose labels a VPA selects pods, whichever VPA names them."""
    if vpa.target is None or vpa.selector is None:
        return ()
    found = roles.by_target.get(vpa.target.key, ())
    return tuple(one for one in found if vpa.selector.asked_of(one.key))


def _problem_of(
    vpa: Vpa, asked: RoleLease, roles: Roles, leases: Mapping[str, LeaseStanding]
) -> tuple[RoleProblem, str] | None:
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
