"""Asks an API server what accounts may do: that of who asks, and those of our processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Final

from app.diagnosis.core.facts import AccountRight, Facts
from app.diagnosis.core.processes import deployments
from app.kube.client import KubeCluster
from app.kube.manifests.rights import OPTIONS, SCALER_RIGHTS, Right, RightScope, needed
from app.model.fields import Json
from app.ports import SECRETS, Ref, Resource

_ASKERS: Final = 8  # side by side
_AUTHORIZATION: Final = "authorization.k8s.io"
_REVIEWS: Final = Resource(
    _AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
_SELF_REVIEWS: Final = Resource(
    _AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)


_Question = tuple[Resource, Json, AccountRight]  # who reviews it, the spec, what is not known yet


def reviewed(cluster: KubeCluster, questions: Iterable[_Question]) -> Sequence[AccountRight]:
    """Return the answers in the order of the questions, which are asked side by side."""
    with ThreadPoolExecutor(_ASKERS) as pool:
        return list(pool.map(lambda question: _access(cluster, *question), questions))


def _access(
    cluster: KubeCluster, reviews: Resource, spec: Json, right: AccountRight
) -> AccountRight:
    body = {"apiVersion": reviews.api_version, "kind": reviews.kind, "spec": spec}
    status = cluster.create(Ref(reviews), body).get("status") or {}
    return replace(right, is_allowed=bool(status.get("allowed")))


def own_rights(read: Iterable[Resource], home: str, secret: str) -> Iterator[_Question]:
    """Yield whether the account that asks may list resources, and get the Secret at home."""
    for resource in (*read, SECRETS):
        attributes = {
            "verb": "get" if resource is SECRETS else "list",
            "group": resource.group,
            "resource": resource.plural,
            "namespace": home if resource is SECRETS else "",
            "name": secret if resource is SECRETS else "",
        }
        right = AccountRight("you", attributes["verb"], _what(attributes), "look at it")
        yield _SELF_REVIEWS, {"resourceAttributes": attributes}, right


def account_rights(facts: Facts) -> Iterator[_Question]:
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
                    AccountRight(
                        account,
                        attributes["verb"],
                        what,
                        right.why,
                        process,
                        document,
                        scales=right in SCALER_RIGHTS,
                    ),
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
