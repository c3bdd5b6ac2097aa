"""Gathers what the check of an installation judges; what cannot be had is told as such.

Strategy: one question a fact, and only the first one, for the version, may fail: who does not
even answer that cannot be reached. Two questions are dry runs, so that nothing is written: a VPA
with a mistake tells whether the webhook is asked, a Lease tells the server's time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, TypeVar

from app.admission.certificate_stores import SecretStore
from app.admission.certificates import called_name, judge
from app.admission.core.rotation import Generation
from app.diagnosis.account_rights import account_rights, own_rights, reviewed
from app.diagnosis.core.facts import (
    OWN_SECRET,
    Facts,
    Pods,
    TrialOutcome,
    TrialResult,
    Unasked,
)
from app.diagnosis.core.hooks import hooks, trial_namespace
from app.diagnosis.core.liveness import HEARTBEAT, LEADERS
from app.diagnosis.core.members import FoundByNamespace, members, targets
from app.diagnosis.core.processes import ADMISSION, ours
from app.diagnosis.gathering import (
    GatheredObjects,
    GatherRequest,
    ask_with_lookups,
    gather_objects,
    list_objects,
)
from app.flags.shared import ClusterAccess, Offline
from app.kube.client import KubeCluster
from app.kube.manifests import documents as manifests
from app.model.errors import BadObject, ClusterError, NotFound, Refused
from app.model.fields import Json, items_at, object_at, text_at, time_at
from app.model.workloads import Lookup
from app.ports import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    LIMIT_RANGES,
    MUTATING_WEBHOOKS,
    POD_METRICS,
    PODS,
    SCALERS,
    VALIDATING_WEBHOOKS,
    VPAS,
    Clock,
    Ref,
    Resource,
)
from app.runtime.election import lease
from app.updater.flags import UNCHECKED

_PAGE: Final = 500
_CALL_SECONDS: Final = 10.0
_BURST: Final = 500.0  # short questions
_SIMULATED: Final = "sandbox"  # the platform of the cluster of `plumbline run`
_MOUNTED: Final = "/etc/tls-certs"  # where certificates lie unless a flag says else
_HALF_SECOND: Final = timedelta(milliseconds=500)  # of what a server's time is cut off
_ENDPOINTS: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
# What the check itself looks at.
_READ: Final = (
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    _ENDPOINTS,
    DEPLOYMENTS,
    LEASES,
    VPAS,
    PODS,
    LIMIT_RANGES,
    POD_METRICS,
)

_NOT_TRIED: Final = Unasked("it is tried by no page; ask: plumbline doctor")
_NO_TIME: Final = Unasked("the server tells no time")

T = TypeVar("T")


def gather_facts(home: str, reach: ClusterAccess, patient: KubeCluster, clock: Clock) -> Facts:
    """Return all that is known of an installation; only the trial may need a patient cluster.

    Raises:
        ClusterError: the API server cannot be reached.
    """
    cluster = patient.within(_CALL_SECONDS)
    facts = facts_without_trials(home, cluster, clock, lambda: _pods(reach, clock))
    facts = replace(facts, tried=_tried(patient, trial_namespace(facts)))
    server_time = _asked(lambda: _server_time(cluster, home))
    return replace(facts, now=clock.now(), server_time=server_time)


def facts_without_trials(
    home: str, cluster: KubeCluster, clock: Clock, pods: Callable[[], Pods]
) -> Facts:
    """Return what is known of an installation without a dry run, for who looks all the time.

    Raises:
        ClusterError: the API server cannot be reached.
    """
    version = cluster.request("GET", "/version")
    facts = Facts(
        now=clock.now(),
        namespace=home,
        version=str(version.get("gitVersion")),
        is_simulated=version.get("platform") == _SIMULATED,
        core_resources=_asked(lambda: _core_resources(cluster)),
        scalers=_asked(lambda: _scalers(cluster)),
        definitions=_asked(lambda: list(_definitions(cluster))),
        wanted_definitions=manifests.objects("crd"),
        mutating=_asked(lambda: list(list_objects(cluster, MUTATING_WEBHOOKS))),
        validating=_asked(lambda: list(list_objects(cluster, VALIDATING_WEBHOOKS))),
        tried=_NOT_TRIED,
        leases=_asked(lambda: _leases(cluster, home)),
        metrics=_asked(lambda: cluster.list(POD_METRICS, limit=_PAGE).items),
        deployments=_asked(lambda: list(list_objects(cluster, DEPLOYMENTS))),
        pods=_asked(pods),
    )
    secret, is_given = _secret(facts)
    return replace(
        facts,
        server_time=cluster.server_now() or _NO_TIME,
        secret=secret,
        is_given=is_given,
        endpoints={
            service: _ready(cluster, *service)
            for one in hooks(facts)
            if (service := one.service) is not None
        },
        certificate=_asked(lambda: _certificate(cluster, facts, secret)),
        rights=_asked(lambda: reviewed(cluster, own_rights(_READ, home, secret))),
        accounts=_asked(lambda: reviewed(cluster, account_rights(facts))),
    )


def _asked(ask: Callable[[], T]) -> T | Unasked:
    try:
        return ask()
    except (ClusterError, BadObject) as error:
        return Unasked(str(error), isinstance(error, Refused))


def _leases(cluster: KubeCluster, home: str) -> list[Json]:
    """Return the Leases of a namespace; who may not list them gets ours by their names."""
    try:
        return list(list_objects(cluster, LEASES, home))
    except Refused:
        names = (HEARTBEAT, *chain.from_iterable(LEADERS.values()))
        found = []
        for name in names:
            with suppress(NotFound):
                found.append(cluster.get(Ref(LEASES, home, name)))
        return found


# --- the server


def _core_resources(cluster: KubeCluster) -> frozenset[str]:
    found = cluster.request("GET", "/api/v1").get("resources") or ()
    return frozenset(str(one.get("name")) for one in found if isinstance(one, dict))


def _scalers(cluster: KubeCluster) -> Mapping[str, Sequence[str]]:
    """Return the served versions of what scales horizontally, if there are any."""
    groups = {
        text_at(group, "name", path): [
            text_at(one, "version", at) for one, at in items_at(group, "versions", path)
        ]
        for group, path in items_at(cluster.request("GET", "/apis"), "groups", "")
    }
    return {
        f"{one.plural}.{one.version}.{one.group}": groups[one.group]
        for one in SCALERS
        if one.group in groups
    }


def _definitions(cluster: KubeCluster) -> Iterator[Json]:
    for wanted in manifests.objects("crd"):
        try:
            yield cluster.get(Ref(CUSTOM_RESOURCE_DEFINITIONS, "", wanted["metadata"]["name"]))
        except NotFound:
            continue


def _server_time(cluster: KubeCluster, namespace: str) -> datetime | Unasked:
    """Return the server's time, by which it dates an object that it does not keep."""
    body = lease(namespace, "plumbline-doctor", {})
    created = cluster.create(Ref(LEASES, namespace), body, dry_run=True)
    found = time_at(object_at(created, "metadata", ""), "creationTimestamp", "metadata")
    return _NO_TIME if found is None else found + _HALF_SECOND


# --- the webhook


def _ready(cluster: KubeCluster, namespace: str, name: str) -> int | Unasked:
    labels = f"kubernetes.io/service-name={name}"
    slices = _asked(lambda: cluster.list(_ENDPOINTS, namespace, label_selector=labels).items)
    if isinstance(slices, Unasked):
        return slices
    return sum(
        (endpoint.get("conditions") or {}).get("ready") is not False
        for item in slices
        for endpoint in item.get("endpoints") or ()
    )


def _tried(cluster: KubeCluster, namespace: str | None) -> TrialResult | Unasked:
    """Return what becomes of a VPA that asks for more at least than at most."""
    if namespace is None:
        return Unasked("its namespaceSelector leaves out every namespace that is known here")
    bounds = {"minAllowed": {"cpu": "2"}, "maxAllowed": {"cpu": "1"}}
    body = {
        "apiVersion": VPAS.api_version,
        "kind": VPAS.kind,
        "metadata": {"name": "plumbline-doctor", "namespace": namespace},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"},
            "updatePolicy": {"updateMode": "Off"},
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", **bounds}]},
        },
    }
    try:
        cluster.create(Ref(VPAS, namespace), body, dry_run=True)
    except ClusterError as error:
        if "denied the request" in error.message:
            return TrialResult(TrialOutcome.REFUSED, namespace=namespace)
        if "failed calling webhook" in error.message:
            return TrialResult(TrialOutcome.NOT_CALLED, error.message, namespace)
        return Unasked(str(error), isinstance(error, Refused))
    return TrialResult(TrialOutcome.PASSED, namespace=namespace)


def _secret(facts: Facts) -> tuple[str, bool]:
    """Return the Secret with the certificate in use, and whether it is mounted, so given."""
    for one in ours(ADMISSION, facts):
        folder = one.flag("tls-cert-dir") or _MOUNTED
        mounted = _mounted(one.item["spec"]["template"]["spec"])
        if one.namespace == facts.namespace and folder in mounted:
            return mounted[folder], True
    return OWN_SECRET, False


def _mounted(pod: Json) -> dict[str, str]:
    """Return the Secrets of a pod by where they are mounted."""
    secrets = {
        volume.get("name"): str(volume["secret"].get("secretName"))
        for volume in pod.get("volumes") or ()
        if volume.get("secret")
    }
    return {
        str(mount.get("mountPath")): secrets[mount["name"]]
        for container in pod.get("containers") or ()
        for mount in container.get("volumeMounts") or ()
        if mount.get("name") in secrets
    }


def _certificate(cluster: KubeCluster, facts: Facts, secret: str) -> Generation | None:
    current = SecretStore(cluster, facts.namespace, secret).read().ring.current
    if current is None:
        return None
    looked_at = [one for one in hooks(facts) if one.leads_to(facts.namespace)]
    services = [one.service for one in looked_at if one.service is not None]
    named = [called_name(name, namespace) for namespace, name in services]
    urls = (str(one.client.get("url") or "") for one in looked_at)
    named += [called_name("", "", url) for url in urls if url]
    return judge(current, tuple(filter(None, named)))


# --- VPAs and pods


def _pods(reach: ClusterAccess, clock: Clock) -> Pods:
    reach = replace(reach, queries_per_second=_BURST, burst=_BURST)
    with gather_objects(_wanted(Offline(()), reach), clock, clock.now()) as seen:
        return known_pods(seen, clock)


def _wanted(offline: Offline, reach: ClusterAccess) -> GatherRequest:
    return GatherRequest(offline, reach, "", UNCHECKED, (VPAS,))


def file_facts(offline: Offline, reach: ClusterAccess, clock: Clock) -> tuple[Facts, bool]:
    """Return what files tell of VPAs, and whether some file of a folder could not be read."""
    with gather_objects(_wanted(offline, reach), clock, clock.now()) as seen:
        pods = known_pods(seen, clock)
        facts = Facts(now=clock.now(), wanted_definitions=manifests.objects("crd"), pods=pods)
        return facts, bool(seen.unread)


def known_pods(seen: GatheredObjects, clock: Clock) -> Pods:
    """Return what was gathered of VPAs and of what they are for."""
    found = ask_with_lookups(seen.owners, clock, lambda known: _needed(seen, known))
    return replace(
        found,
        problems=seen.notes,
        written=list(seen.objects_of(VPAS)),
    )


def _needed(seen: GatheredObjects, known: FoundByNamespace) -> tuple[Pods, Sequence[Lookup]]:
    found = Pods(seen.snapshot, known)
    _, lookups = members(seen.snapshot, known)
    return found, [*lookups, *targets(seen.snapshot)]
