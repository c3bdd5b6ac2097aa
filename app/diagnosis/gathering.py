"""What is known of a cluster at one moment, for commands that look once and end.

Strategy: from files and from an API server come the same objects, and both go through the same
reader. What no snapshot holds and a command needs is kept as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

from app.diagnosis.named_leases import NO_RIGHT, ReadLease, with_named_leases
from app.flags.shared import ClusterAccess, Horizontal, Offline, Selection
from app.kube.client import KubeCluster, connect
from app.kube.discovery import Discovery
from app.kube.files import Document, RecordedCluster, Unreadable, given_objects
from app.kube.listing import pages
from app.kube.owner_lookup import LiveOwners
from app.kube.reach import Origin
from app.model.errors import BadSetting, ClusterError, NotFound, Refused
from app.model.fields import Object
from app.model.kinds import ObjectKey, group_of
from app.model.role_leases import LeaseStanding
from app.model.snapshot import Collection, Replacement, Snapshot
from app.model.text import nearest
from app.model.vpa import Vpa
from app.model.workloads import Lookup, LookupResult
from app.ports import (
    CHECKPOINTS,
    LEASES,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SCALERS,
    VPAS,
    WORKLOADS,
    Clock,
    Cluster,
    Json,
    Owners,
    Ref,
    Resource,
)
from app.runtime.bounds import LimitReport
from app.runtime.garbage import without_collection
from app.updater.flags import AdmissionCheck
from app.updater.metrics import LeaseTrouble
from app.updater.updater import MOST_LEVELS, find_owners
from app.updater.watches import HEALTHY, WebhookHealth, webhook_health

_CALL_SECONDS: Final = 5.0
_MOST_UNREAD: Final = 3  # files that an error names
_NEEDED: Final = (VPAS, PODS, *WORKLOADS)
_HELPFUL: Final = (LIMIT_RANGES, POD_DISRUPTION_BUDGETS, NODES, NAMESPACES)
_ASKED_FOR: Final = (CHECKPOINTS,)  # which no snapshot holds
_NO_VPAS: Final = (
    "the cluster does not know VerticalPodAutoscalers; "
    "tell it with: plumbline manifests crd | kubectl apply -f -"
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GatherRequest:
    """What to look at: files, or a cluster; an empty namespace means all."""

    offline: Offline
    reach: ClusterAccess
    namespace: str
    lease: AdmissionCheck
    keeps: tuple[Resource, ...] = ()  # of what the objects are wanted as they came
    native_sidecars: bool = True  # whether they are containers like the others
    horizontal: Horizontal = Horizontal.HOLD
    needs_vpas: bool = True  # else the cluster need not even know such objects

    @property
    def helpful(self) -> tuple[Resource, ...]:
        """What is read of a cluster as far as there is a right to."""
        asked_for = (resource for resource in self.keeps if resource in _ASKED_FOR)
        scalers = SCALERS if self.horizontal is Horizontal.HOLD else ()
        return (*_HELPFUL, *scalers, *asked_for)


def _not_written(_lookup: Lookup) -> Object | None:
    return None


@dataclass(frozen=True, slots=True)
class GatheredObjects:
    """What is known of a cluster."""

    snapshot: Snapshot
    owners: Owners
    webhook: WebhookHealth
    kept: Sequence[Json] = ()
    problems: Sequence[Unreadable] = ()  # what could not be used
    unread: Sequence[Unreadable] = ()  # files of a folder, or parts of them
    written: Callable[[Lookup], Object | None] = _not_written  # a custom object as it is

    @property
    def notes(self) -> list[str]:
        """What people should know about it."""
        return [str(one) for one in (*self.unread, *self.problems)]

    def with_answers(
        self, vpas: Iterable[Vpa], problems: Iterable[Unreadable], *, are_all: bool = True
    ) -> GatheredObjects:
        """Return the same with the VPAs of answers, and the problems of reading them.

        Args:
            vpas: the VPAs.
            problems: what could not be read of the answers.
            are_all: whether they stand instead of those that were gathered, else beside them.
        """
        removals = [
            Replacement(Collection.VPAS, namespace, name, None)
            for namespace, view in self.snapshot.namespaces.items()
            for name in (view.vpas if are_all else ())
        ]
        answered = [Replacement(Collection.VPAS, vpa.namespace, vpa.name, vpa) for vpa in vpas]
        snapshot = self.snapshot.changed([*removals, *answered])
        return replace(self, snapshot=snapshot, problems=[*self.problems, *problems])

    def objects_of(self, resource: Resource) -> Iterator[Json]:
        """Yield the kept objects of a resource."""
        return (item for item in self.kept if is_of(item, resource))


def chosen_namespace(selection: Selection, offline: Offline, reach: ClusterAccess) -> str:
    """Return the namespace to look at, empty for all; files have no usual one.

    Raises:
        BadSetting: the kubeconfig cannot be used.
    """
    if selection.everywhere:
        return ""
    if selection.namespace or offline.objects:
        return selection.namespace
    connect(reach.kubeconfig, reach.context).close()  # which tells what is wrong with a kubeconfig
    return Origin(reach.kubeconfig, reach.context).namespace()


def place(namespace: str) -> str:
    """Say where something was looked for."""
    return f"in namespace {namespace}" if namespace else "in any namespace"


def is_absent(what: str, name: str, namespace: str, known: Iterable[str]) -> BadSetting:
    """Return the error about a name of nothing, with what may have been meant."""
    path = Path(name)
    is_file = path.suffix != "" and path.is_file()
    meant = f"; to read a file say --objects {name}" if is_file else nearest(name, known)
    if namespace and not meant:
        meant = "; -A looks at all namespaces"
    return BadSetting(f'there is no {what} "{name}" {place(namespace)}{meant}')


@contextmanager
def gather_objects(wanted: GatherRequest, clock: Clock, now: datetime) -> Iterator[GatheredObjects]:
    """Look once; what was found can be asked about its owners while this is open."""
    if wanted.offline.objects:
        recorded = _recorded(wanted, now)
        try:
            yield recorded
        except BadSetting as error:  # which may be the fault of what was not read
            unread = recorded.unread[:_MOST_UNREAD]
            raise BadSetting("; ".join(map(str, (*unread, error)))) from None
        return
    reach = wanted.reach
    cluster = connect(reach.kubeconfig, reach.context, reach.queries_per_second, reach.burst)
    reached = LimitReport().reached
    owners = LiveOwners(cluster.within(_CALL_SECONDS), clock, reached)
    discovery = Discovery(cluster, clock, reached)
    try:
        yield replace(
            _live(cluster, owners, wanted, now), written=partial(_written, cluster, discovery)
        )
    finally:
        owners.close()
        cluster.close()


def _recorded(wanted: GatherRequest, now: datetime) -> GatheredObjects:
    """Return what files tell; without the webhook's Lease it counts as healthy."""
    kept: list[Json] = []
    unread: list[Unreadable] = []
    found = given_objects(wanted.offline.objects, unread)
    with without_collection():
        recorded = RecordedCluster(_keeping(found, kept, wanted, LEASES))
    rules = wanted.lease
    leases = [item for item in kept if _is_lease(item, rules)]
    sign = webhook_health(leases[-1], rules, now) if leases and rules.is_on else HEALTHY
    named = {(_namespace(item), _name(item)): item for item in kept if is_of(item, LEASES)}
    snapshot = with_named_leases(_snapshot(recorded, wanted), lambda *lease: named.get(lease), now)
    return GatheredObjects(
        snapshot, recorded, sign, kept, recorded.problems, unread, recorded.written
    )


def _live(
    cluster: KubeCluster, owners: LiveOwners, wanted: GatherRequest, now: datetime
) -> GatheredObjects:
    kept: list[Json] = []
    problems: list[Unreadable] = []
    needed = _NEEDED if wanted.needs_vpas else [one for one in _NEEDED if one is not VPAS]
    helpful = wanted.helpful if wanted.needs_vpas else (*wanted.helpful, VPAS)
    needs = chain(((one, None) for one in needed), ((one, problems) for one in helpful))
    found = (
        Document(resource.plural, item)
        for resource, untold in needs
        for item in list_objects(cluster, resource, wanted.namespace, untold)
    )
    recorded = RecordedCluster(_keeping(found, kept, wanted))
    problems += recorded.problems
    sign = _sign(cluster.within(_CALL_SECONDS), wanted.lease, now)
    snapshot = _snapshot(recorded, wanted)
    snapshot = with_named_leases(snapshot, _lease_reader(cluster, problems), now)
    return GatheredObjects(snapshot, owners, sign, kept, problems)


def _lease_reader(cluster: Cluster, problems: list[Unreadable]) -> ReadLease:
    """Return what reads a Lease, as far as there is a right to."""

    def read(namespace: str, name: str) -> Json | LeaseStanding | None:
        known, fields = len(problems), f"metadata.name={name}"
        found = next(list_objects(cluster, LEASES, namespace, problems, fields=fields), None)
        return NO_RIGHT if len(problems) > known else found

    return read


def _written(cluster: Cluster, discovery: Discovery, lookup: Lookup) -> Object | None:
    """Return a custom object as the server has it, None if it cannot be had."""
    with suppress(ClusterError):
        for resource in discovery.scalable(lookup.api_version, lookup.kind)[:1]:
            return cluster.get(Ref(resource, lookup.namespace, lookup.name))
    return None


def _snapshot(recorded: RecordedCluster, wanted: GatherRequest) -> Snapshot:
    found = recorded.snapshot
    if wanted.native_sidecars:
        return found
    return found.changed(
        Replacement(Collection.PODS, namespace, name, pod.without_sidecars())
        for namespace, view in found.namespaces.items()
        for name, pod in view.pods.items()
    )


def _sign(cluster: KubeCluster, rules: AdmissionCheck, now: datetime) -> WebhookHealth:
    """Return what the webhook's Lease tells; it is reported once, and not logged."""
    if not rules.is_on:
        return HEALTHY
    try:
        return webhook_health(cluster.get(Ref(LEASES, rules.namespace, rules.name)), rules, now)
    except ClusterError as error:
        return WebhookHealth(LeaseTrouble.ERROR, str(error))


def _keeping(
    found: Iterable[Document | Unreadable], kept: list[Json], wanted: GatherRequest, *more: Resource
) -> Iterator[Document | Unreadable]:
    """Yield what a snapshot may hold, and put what is wanted as it came into the list."""
    keeps = (*wanted.keeps, *more)
    for document in found:
        if isinstance(document, Document):
            item, is_pod = document.item, is_of(document.item, PODS)
            if is_pod and wanted.namespace not in ("", _namespace(item)):
                continue  # which would only cost time
            if is_pod:
                _name_apart(item)
            if any(is_of(item, resource) for resource in keeps):
                kept.append(item)
            if is_of(item, CHECKPOINTS) or _is_lease(item, wanted.lease):
                continue
            if wanted.horizontal is Horizontal.IGNORE and any(is_of(item, one) for one in SCALERS):
                continue
        yield document


def _namespace(item: Object) -> str:
    metadata = item.get("metadata")
    return str((metadata.get("namespace") if isinstance(metadata, dict) else None) or "default")


def _name(item: Object) -> str:
    metadata = item.get("metadata")
    return str(metadata.get("name") if isinstance(metadata, dict) else None)


def _name_apart(pod: Json) -> None:
    """Give a pod that was written by hand a uid, because uids tell pods apart."""
    metadata = pod.get("metadata")
    if isinstance(metadata, dict) and not metadata.get("uid"):
        metadata["uid"] = f"{metadata.get('namespace')}/{metadata.get('name')}"


def is_of(item: Object, resource: Resource) -> bool:
    """Whether an object is one of a resource, of whatever version."""
    is_kind = item.get("kind") == resource.kind
    return is_kind and group_of(str(item.get("apiVersion"))) == resource.group


def _is_lease(item: Object, rules: AdmissionCheck) -> bool:
    metadata = item.get("metadata")
    found = metadata if isinstance(metadata, dict) else {}
    place = (found.get("namespace"), found.get("name"))
    return is_of(item, LEASES) and place == (rules.namespace, rules.name)


def list_objects(
    cluster: Cluster,
    resource: Resource,
    namespace: str = "",
    problems: list[Unreadable] | None = None,
    *,
    labels: str = "",
    fields: str = "",
) -> Iterator[Json]:
    """Yield the objects of a resource; with problems it may be missing or refused."""
    at = namespace if resource.namespaced else ""
    if resource is NAMESPACES and namespace:
        fields = f"metadata.name={namespace}"
    try:
        for page in pages(cluster, resource, at, label_selector=labels, field_selector=fields):
            yield from page.items
    except NotFound as error:
        if resource is VPAS and problems is None:
            raise NotFound(_NO_VPAS, status=error.status) from error
        if problems is None:
            raise
    except Refused as error:
        if problems is None:
            raise
        problems.append(Unreadable(resource.plural, f"not taken into account: {error}"))


def ask_with_lookups(
    owners: Owners,
    clock: Clock,
    ask: Callable[[Mapping[str, Mapping[ObjectKey, LookupResult]]], tuple[T, Iterable[Lookup]]],
) -> T:
    """Ask, look up the owners that the answer lacks, and ask again until it lacks none."""
    found: dict[str, dict[ObjectKey, LookupResult]] = {}
    for _ in range(MOST_LEVELS):
        answer, lookups = ask(found)
        wanted = [one for one in lookups if one.key not in found.get(one.namespace, {})]
        if not wanted:
            break
        for namespace, some in find_owners(owners, clock, wanted).items():
            found.setdefault(namespace, {}).update(some)
    return answer
