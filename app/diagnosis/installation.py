"""Gathers what the check of an installation judges; what cannot be had is told as such.

Strategy: one question a fact, and only the first one, for the version, may fail: who does not
even answer that cannot be reached. Two questions are dry runs, so that nothing is written: a VPA
with a mistake tells whether the webhook is asked, a Lease tells the server's time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Final, TypeVar

from app.admission.certificate_stores import SecretStore
from app.admission.certificates import called_name, judge
from app.admission.core.rotation import Generation
from app.diagnosis.core.autoscalers import targets
from app.diagnosis.core.facts import (
    OWN_SECRET,
    AccountRight,
    Facts,
    Pods,
    TrialOutcome,
    TrialResult,
    Unasked,
)
from app.diagnosis.core.hooks import hooks, trial_namespace
from app.diagnosis.core.members import FoundByNamespace, members
from app.diagnosis.core.processes import ADMISSION, deployments, ours
from app.diagnosis.gathering import (
    GatheredObjects,
    GatherRequest,
    ask_with_lookups,
    gather_objects,
    list_objects,
)
from app.flags.shared import ClusterAccess, Offline
from app.kube.client import KubeCluster
from app.kube.leases import lease
from app.kube.manifests import documents as manifests
from app.kube.manifests.rights import OPTIONS, Right, RightScope, needed
from app.model.errors import BadObject, ClusterError, NotFound, Refused
from app.model.fields import Json, object_at, time_at
from app.model.workloads import Lookup
from app.ports import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    LIMIT_RANGES,
    MUTATING_WEBHOOKS,
    POD_METRICS,
    PODS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    VPAS,
    Clock,
    Ref,
    Resource,
)
from app.updater.flags import UNCHECKED

_PAGE: Final = 500
_CALL_SECONDS: Final = 10.0
_BURST: Final = 500.0  # short questions
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

_ASKERS: Final = 8  # side by side
_AUTHORIZATION: Final = "authorization.k8s.io"
_REVIEWS: Final = Resource(
    _AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
_SELF_REVIEWS: Final = Resource(
    _AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)


T = TypeVar("T")
_Question = tuple[Resource, Json, AccountRight]  # who reviews it, the spec, what is not known yet


def gather_facts(home: str, reach: ClusterAccess, patient: KubeCluster, clock: Clock) -> Facts:
    """Return all that is known of an installation; only the trial may need a patient cluster.

    Raises:
        ClusterError: the API server cannot be reached.
    """
    cluster = patient.within(_CALL_SECONDS)
    version = str(cluster.request("GET", "/version").get("gitVersion"))
    facts = Facts(
        now=clock.now(),
        namespace=home,
        version=version,
        core_resources=_asked(lambda: _core_resources(cluster)),
        definitions=_asked(lambda: list(_definitions(cluster))),
        wanted_definitions=manifests.objects("crd"),
        mutating=_asked(lambda: list(list_objects(cluster, MUTATING_WEBHOOKS))),
        validating=_asked(lambda: list(list_objects(cluster, VALIDATING_WEBHOOKS))),
        leases=_asked(lambda: list(list_objects(cluster, LEASES, home))),
        metrics=_asked(lambda: cluster.list(POD_METRICS, limit=_PAGE).items),
        deployments=_asked(lambda: list(list_objects(cluster, DEPLOYMENTS))),
        pods=_asked(lambda: _pods(reach, clock)),
    )
    secret, is_given = _secret(facts)
    facts = replace(
        facts,
        tried=_tried(patient, trial_namespace(facts)),
        secret=secret,
        is_given=is_given,
        endpoints={
            service: _ready(cluster, *service)
            for one in hooks(facts)
            if (service := one.service) is not None
        },
        certificate=_asked(lambda: _certificate(cluster, facts, secret)),
        rights=_asked(lambda: _reviewed(cluster, _own_rights(_READ, home))),
        accounts=_asked(lambda: _reviewed(cluster, _rights(facts))),
    )
    server_time = _asked(lambda: _server_time(cluster, home))
    return replace(facts, now=clock.now(), server_time=server_time)


def _asked(ask: Callable[[], T]) -> T | Unasked:
    try:
        return ask()
    except (ClusterError, BadObject) as error:
        return Unasked(str(error), isinstance(error, Refused))


# --- the server


def _core_resources(cluster: KubeCluster) -> frozenset[str]:
    found = cluster.request("GET", "/api/v1").get("resources") or ()
    return frozenset(str(one.get("name")) for one in found if isinstance(one, dict))


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
    return Unasked("the server tells no time") if found is None else found + _HALF_SECOND


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
    wanted = GatherRequest(Offline(()), reach, "", UNCHECKED)
    with gather_objects(wanted, clock, clock.now()) as seen:
        found = ask_with_lookups(seen.owners, clock, lambda known: _needed(seen, known))
    return replace(found, problems=list(map(str, seen.problems)))


def _needed(seen: GatheredObjects, known: FoundByNamespace) -> tuple[Pods, Sequence[Lookup]]:
    found = Pods(seen.snapshot, known)
    _, lookups = members(seen.snapshot, known)
    return found, [*lookups, *targets(found)]


# --- rights


def _reviewed(cluster: KubeCluster, questions: Iterable[_Question]) -> Sequence[AccountRight]:
    """Return the answers in the order of the questions, which are asked side by side."""
    with ThreadPoolExecutor(_ASKERS) as pool:
        return list(pool.map(lambda question: _access(cluster, *question), questions))


def _access(
    cluster: KubeCluster, reviews: Resource, spec: Json, right: AccountRight
) -> AccountRight:
    body = {"apiVersion": reviews.api_version, "kind": reviews.kind, "spec": spec}
    status = cluster.create(Ref(reviews), body).get("status") or {}
    return replace(right, is_allowed=bool(status.get("allowed")))


def _own_rights(read: Iterable[Resource], home: str) -> Iterator[_Question]:
    """Yield whether the account that asks may list resources, and get the Secret at home."""
    for resource in (*read, SECRETS):
        attributes = {
            "verb": "get" if resource is SECRETS else "list",
            "group": resource.group,
            "resource": resource.plural,
            "namespace": home if resource is SECRETS else "",
        }
        right = AccountRight("you", attributes["verb"], _what(attributes), "look at it")
        yield _SELF_REVIEWS, {"resourceAttributes": attributes}, right


def _rights(facts: Facts) -> Iterator[_Question]:
    """Yield whether the accounts of our processes have the rights that these need."""
    documents = {option.right: name for name, option in OPTIONS.items()}
    for one in deployments(facts):
        if not one.is_ours:
            continue
        home, process = one.namespace, one.component
        name = one.item["spec"]["template"]["spec"].get("serviceAccountName") or "default"
        account = f"system:serviceaccount:{home}:{name}"
        groups = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{home}",
            "system:authenticated",
        ]
        for right in needed(process, one.command_line):
            document = documents.get(right, process.partition("-")[0])
            for attributes in _attributes(right, home):
                spec = {"user": account, "groups": groups, "resourceAttributes": attributes}
                what = _what(attributes)
                yield (
                    _REVIEWS,
                    spec,
                    AccountRight(account, attributes["verb"], what, right.why, process, document),
                )


def _attributes(right: Right, home: str) -> Iterator[dict[str, str]]:
    at_home = home if right.reach is RightScope.AT_HOME else ""
    for resource, verb, name in product(right.resources, right.verbs, right.names or ("",)):
        plural, _, subresource = resource.partition("/")
        yield {
            "verb": verb,
            "group": right.group,
            "resource": plural,
            "subresource": subresource,
            "namespace": at_home,
            "name": name,
        }


def _what(attributes: Mapping[str, str]) -> str:
    """Return a resource as people write it, with its group."""
    subresource, group = attributes.get("subresource"), attributes["group"]
    what = f"{attributes['resource']}/{subresource}" if subresource else attributes["resource"]
    return f"{what} of {group}" if group else what
