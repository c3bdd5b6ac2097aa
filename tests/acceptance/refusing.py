"""An API server that refuses what is done to pods, as other people's policies may tell it to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from app.model.fields import Json
from app.ports import PODS, Resource
from tests.acceptance.space import item_of
from tests.cluster.api import Api, Refusal
from tests.cluster.programs import eventually

_GROUP: Final = "admissionregistration.k8s.io"
_POLICY: Final = "ValidatingAdmissionPolicy"


@contextmanager
def refusing(admin: Api, namespace: str, pod: str, subresource: str) -> Iterator[None]:
    """Have every resize or eviction in a namespace refused, from when one of a pod is."""
    name = f"no-{subresource}-{namespace}"
    places = []
    binding = {"policyName": name, "validationActions": ["Deny"]}
    for kind, plural, spec in (
        (_POLICY, "validatingadmissionpolicies", _policy(namespace, subresource)),
        (f"{_POLICY}Binding", "validatingadmissionpolicybindings", binding),
    ):
        resource = Resource(_GROUP, "v1", plural, kind, namespaced=False)
        admin.call("POST", resource.path(), item_of(resource, name, spec=spec))
        places.append(resource)
    try:
        eventually(lambda: not _may(admin, namespace, pod, subresource), "it is refused", every=0.5)
        yield
    finally:
        for resource in places:
            admin.delete(resource, "", name)


def _policy(namespace: str, subresource: str) -> Json:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [f"pods/{subresource}"],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return {
        "matchConstraints": {"namespaceSelector": here, "resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "nobody may do so here"}],
    }


def _may(admin: Api, namespace: str, pod: str, subresource: str) -> bool:
    eviction: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    change: Json = {"metadata": {"labels": {"a": "b"}}}
    method, kind, body = {
        "eviction": ("POST", "application/json", eviction),
        "resize": ("PATCH", "application/merge-patch+json", change),
    }[subresource]
    path = PODS.path(namespace, pod, subresource)
    try:
        admin.call(method, path, body, query={"dryRun": "All"}, content_type=kind)
    except Refusal:
        return False
    return True
