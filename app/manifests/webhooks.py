"""The two webhook configurations, with every field spelled out.

Strategy: defaults of the API are written down, so that a comparison with the live object finds
changes and nothing else. Names, rules and order are upstream's where upstream has them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.model.errors import BadSetting
from app.ports import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Json, Resource

CONFIGURATION_NAME = "vpa-webhook-config"
MUTATING_NAME = "vpa.k8s.io"
VALIDATING_NAME = "validate.vpa.k8s.io"

_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_ADDRESS = re.compile(r"https://[^/?#@\s]+(/[^?#\s]*)?")


@dataclass(frozen=True, slots=True)
class Registration:
    """Where the API server finds us, and for what it asks us."""

    name: str = CONFIGURATION_NAME  # of both configurations
    service: str = "vpa-webhook"
    namespace: str = "kube-system"  # of the service and of our own pods
    port: int = 443
    url: str = ""  # instead of the service
    fail_closed: bool = False
    timeout_seconds: int = 5  # 1 to 30
    labels: Mapping[str, str] = field(default_factory=dict)
    ignored_namespaces: tuple[str, ...] = ()
    selected_namespace: str = ""  # has no effect beside ignored ones


def documents(registration: Registration, ca_pem: str) -> tuple[tuple[Resource, Json], ...]:
    """Return both configurations, each with the collection that it belongs to."""
    return (
        (MUTATING_WEBHOOKS, mutating(registration, ca_pem)),
        (VALIDATING_WEBHOOKS, validating(registration, ca_pem)),
    )


def mutating(registration: Registration, ca_pem: str) -> Json:
    """Return the configuration for new pods and for VPAs."""
    webhook = {
        **_webhook(registration, ca_pem, MUTATING_NAME, "/mutate"),
        # A second call would take the sizes that the first one wrote for the pod's own.
        "reinvocationPolicy": "Never",
        "matchConditions": _pod_conditions(registration.namespace),
        "rules": [_POD_RULE, _VPA_RULE],
    }
    return _configuration(MUTATING_WEBHOOKS, registration, webhook)


def validating(registration: Registration, ca_pem: str) -> Json:
    """Return the configuration for VPAs as they are after all mutation."""
    webhook = {
        **_webhook(registration, ca_pem, VALIDATING_NAME, "/validate"),
        "matchConditions": [],
        "rules": [_VPA_RULE],
    }
    return _configuration(VALIDATING_WEBHOOKS, registration, webhook)


def webhook_url(address: str, port: str) -> str:
    """Return the URL of the webhooks' root.

    Raises:
        BadSetting: an API server would not accept it.
    """
    url = f"{address}:{port}" if port else address
    if not _ADDRESS.fullmatch(url):
        raise BadSetting(
            f"--webhook-address: {address!r} does not make a webhook URL; "
            "it must be like https://host, without user, query or fragment"
        )
    return url.rstrip("/")


_POD_RULE = {
    "operations": ["CREATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods"],
    "scope": "*",
}
_VPA_RULE = {
    "operations": ["CREATE", "UPDATE"],
    "apiGroups": ["autoscaling.k8s.io"],
    "apiVersions": ["*"],
    "resources": ["verticalpodautoscalers"],
    "scope": "*",
}


def _configuration(resource: Resource, registration: Registration, webhook: Json) -> Json:
    labels = {"labels": dict(registration.labels)} if registration.labels else {}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": registration.name, **labels},
        "webhooks": [webhook],
    }


def _webhook(registration: Registration, ca_pem: str, name: str, path: str) -> Json:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client(registration, ca_pem, path),
        "sideEffects": "None",
        "failurePolicy": "Fail" if registration.fail_closed else "Ignore",
        "timeoutSeconds": registration.timeout_seconds,
        "matchPolicy": "Equivalent",
        "namespaceSelector": _namespace_selector(registration),
        "objectSelector": {},
    }


def _client(registration: Registration, ca_pem: str, path: str) -> Json:
    bundle = {"caBundle": base64.b64encode(ca_pem.encode()).decode()} if ca_pem else {}
    if registration.url:
        return {**bundle, "url": registration.url + path}
    service = {
        "namespace": registration.namespace,
        "name": registration.service,
        "path": path,
        "port": registration.port,
    }
    return {**bundle, "service": service}


def _namespace_selector(registration: Registration) -> Json:
    ignored = [name for name in registration.ignored_namespaces if name]
    if ignored:
        return _selector("NotIn", ignored)
    if registration.selected_namespace:
        return _selector("In", [registration.selected_namespace])
    return {}


def _selector(operator: str, names: list[str]) -> Json:
    return {"matchExpressions": [{"key": _NAMESPACE_LABEL, "operator": operator, "values": names}]}


def _pod_conditions(own_namespace: str) -> list[Json]:
    """Keep out mirror pods, which the kubelet made already, and the pods that serve admission.

    The latter must start while nobody answers, also under the failure policy Fail. They are
    known by the labels that the Service or upstream's chart selects them by, and only in our
    own namespace, so that nobody else's pods get around their VPA by a label. Recommender and
    updater stay in: they can wait for admission to be back.
    """
    labels = "object.metadata.labels"
    component = "app.kubernetes.io/component"
    served_by_us = (
        f"(('app' in {labels} && {labels}['app'] == 'vpa-admission-controller') || "
        f"('{component}' in {labels} && {labels}['{component}'] == 'admission-controller' && "
        f"'app.kubernetes.io/name' in {labels} && {labels}['app.kubernetes.io/name'] in "
        "['plumbline', 'vertical-pod-autoscaler']))"
    )
    return [
        {
            "name": "no-mirror-pods",
            "expression": _unless_pod(
                "has(object.metadata.annotations) && "
                "'kubernetes.io/config.mirror' in object.metadata.annotations"
            ),
        },
        {
            "name": "no-admission-pods",
            "expression": _unless_pod(
                f"request.namespace == '{own_namespace}' && has({labels}) && {served_by_us}"
            ),
        },
    ]


def _unless_pod(condition: str) -> str:
    """Return CEL that is false for pods of this condition, and true for all else."""
    return f"!(request.resource.group == '' && request.resource.resource == 'pods' && {condition})"
