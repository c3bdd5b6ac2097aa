"""An API server that refuses to resize pods, as other people's policies may tell it to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from app.ports import PODS, Resource
from tests.cluster.api import Api, Json, Refusal
from tests.cluster.programs import eventually

_GROUP: Final = "admissionregistration.k8s.io"
_POLICY: Final = "ValidatingAdmissionPolicy"


@contextmanager
def no_resizes(admin: Api, namespace: str, pod: str) -> Iterator[None]:
    """Have every resize in a namespace refused, from when one of a pod is."""
    name = f"no-resizes-{namespace}"
    places = []
    for kind, plural, spec in (
        (_POLICY, "validatingadmissionpolicies", _policy(namespace)),
        (f"{_POLICY}Binding", "validatingadmissionpolicybindings", _binding(name)),
    ):
        resource = Resource(_GROUP, "v1", plural, kind, namespaced=False)
        item = {"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": name}}
        admin.call("POST", resource.path(), {**item, "spec": spec})
        places.append(resource)
    try:
        eventually(lambda: not _may_resize(admin, namespace, pod), "resizes are refused", every=0.5)
        yield
    finally:
        for resource in places:
            admin.delete(resource, "", name)


def _policy(namespace: str) -> Json:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["pods/resize"],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return {
        "matchConstraints": {"namespaceSelector": here, "resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "nobody is resized here"}],
    }


def _binding(policy: str) -> Json:
    return {"policyName": policy, "validationActions": ["Deny"]}


def _may_resize(admin: Api, namespace: str, pod: str) -> bool:
    change = {"metadata": {"labels": {"a": "b"}}}
    path = PODS.path(namespace, pod, "resize")
    kind = "application/merge-patch+json"
    try:
        admin.call("PATCH", path, change, query={"dryRun": "All"}, content_type=kind)
    except Refusal:
        return False
    return True
