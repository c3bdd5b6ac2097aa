"""Asks who may do what: whoever runs the check, and the accounts of our processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from app.adapters.kube import KubeCluster
from app.core.checkup.facts import Access
from app.manifests.rights import OPTIONS, Reach, Right
from app.model.fields import Json
from app.ports import SECRETS, Resource

_ASKERS: Final = 8  # side by side
_AUTHORIZATION: Final = "authorization.k8s.io"
_REVIEWS: Final = Resource(
    _AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
_SELF_REVIEWS: Final = Resource(
    _AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)


@dataclass(frozen=True, slots=True)
class Question:
    """Whether an account may do something, as it is asked, and why that matters."""

    reviews: Resource
    attributes: Json
    why: str
    who: Json = field(default_factory=dict)  # nobody is named: whoever asks
    process: str = ""
    document: str = ""  # of the manifests, that grants it


def reviewed(cluster: KubeCluster, questions: Iterable[Question]) -> Sequence[Access]:
    """Return the answers in the order of the questions, which are asked side by side."""
    with ThreadPoolExecutor(_ASKERS) as pool:
        return list(pool.map(lambda one: _access(cluster, one), questions))


def own_rights(read: Iterable[Resource], home: str) -> Iterator[Question]:
    """Yield whether whoever asks may list resources, and get the Secret at home."""
    for resource in (*read, SECRETS):
        attributes = {
            "verb": "get" if resource is SECRETS else "list",
            "group": resource.group,
            "resource": resource.plural,
            "namespace": home if resource is SECRETS else "",
        }
        yield Question(_SELF_REVIEWS, attributes, "look at it")


def rights(accounts: Iterable[tuple[str, str, Sequence[Right]]]) -> Iterator[Question]:
    """Yield whether the accounts of processes have the rights that these need."""
    documents = {option.right: name for name, option in OPTIONS.items()}
    for process, account, needed in accounts:
        home = account.split(":")[2]
        who: Json = {
            "user": account,
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{home}",
                "system:authenticated",
            ],
        }
        for right in needed:
            for attributes in _attributes(right, home):
                document = documents.get(right, process.partition("-")[0])
                yield Question(_REVIEWS, attributes, right.why, who, process, document)


def _attributes(right: Right, home: str) -> Iterator[Json]:
    for resource in right.resources:
        plural, _, subresource = resource.partition("/")
        for verb in right.verbs:
            for name in right.names or ("",):
                yield {
                    "verb": verb,
                    "group": right.group,
                    "resource": plural,
                    "subresource": subresource,
                    "namespace": home if right.reach is Reach.AT_HOME else "",
                    "name": name,
                }


def _access(cluster: KubeCluster, asked: Question) -> Access:
    reviews, attributes = asked.reviews, asked.attributes
    body = {
        "apiVersion": reviews.api_version,
        "kind": reviews.kind,
        "spec": {**asked.who, "resourceAttributes": attributes},
    }
    status = cluster.create(reviews, "", body).get("status") or {}
    subresource = attributes.get("subresource")
    what = attributes["resource"] + (f"/{subresource}" if subresource else "")
    what += f" of {attributes['group']}" if attributes["group"] else ""
    account, is_allowed = asked.who.get("user", "you"), bool(status.get("allowed"))
    return Access(
        account, attributes["verb"], what, asked.why, is_allowed, asked.process, asked.document
    )
