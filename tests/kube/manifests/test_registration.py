"""The webhook configurations ask for the right things, and only for them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import pytest

from app.kube.manifests.registration import Registration, webhook_configurations, webhook_url
from app.model.errors import BadSetting
from app.ports import Json
from tests.cases import cases

CA = "-----BEGIN CERTIFICATE-----\n"


def webhooks(registration: Registration, ca_pem: str = CA) -> Sequence[dict[str, Any]]:
    """The webhooks of both configurations, one each: the mutating and the validating one."""
    found = [
        webhook
        for _, item in webhook_configurations(registration, ca_pem)
        for webhook in item["webhooks"]
    ]
    assert [webhook["name"] for webhook in found] == ["vpa.k8s.io", "validate.vpa.k8s.io"]
    return found


def rule(group: str, version: str, resource: str, *operations: str) -> Json:
    """What a webhook is asked about."""
    about = {"apiGroups": [group], "apiVersions": [version], "resources": [resource]}
    return {"operations": [*operations], **about, "scope": "*"}


def test_mutating() -> None:
    """The configuration for pods and VPAs is upstream's, with all defaults written down."""
    webhook, _ = webhooks(Registration())
    del webhook["matchConditions"]
    assert webhook == {
        "name": "vpa.k8s.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "caBundle": base64.b64encode(CA.encode()).decode(),
            "service": {"namespace": "kube-system", "name": "vpa-webhook"}
            | {"path": "/mutate", "port": 443},
        },
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 5,
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never",
        "namespaceSelector": {},
        "objectSelector": {},
        "rules": [
            rule("", "v1", "pods", "CREATE"),
            rule("autoscaling.k8s.io", "*", "verticalpodautoscalers", "CREATE", "UPDATE"),
        ],
    }


def test_validating() -> None:
    """The other configuration asks about VPAs only, without conditions."""
    _, webhook = webhooks(Registration())
    assert webhook["name"] == "validate.vpa.k8s.io"
    assert webhook["clientConfig"]["service"]["path"] == "/validate"
    assert [rule["resources"] for rule in webhook["rules"]] == [["verticalpodautoscalers"]]
    assert webhook["matchConditions"] == []
    assert "reinvocationPolicy" not in webhook


def test_configurations() -> None:
    """Each document stands beside its collection, under upstream's name."""
    for resource, document in webhook_configurations(Registration(labels={"a": "b"}), CA):
        assert document["kind"] == resource.kind
        assert document["apiVersion"] == "admissionregistration.k8s.io/v1"
        assert document["metadata"] == {"name": "vpa-webhook-config", "labels": {"a": "b"}}


def namespaces(operator: str, *values: str) -> Json:
    """The selector of namespaces by name."""
    key = "kubernetes.io/metadata.name"
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


@cases(
    "registration path expected",
    {
        "fail closed": (Registration(fail_closed=True), "failurePolicy", "Fail"),
        "timeout": (Registration(timeout_seconds=30), "timeoutSeconds", 30),
        "by URL, without a CA": (
            Registration(url="https://10.0.0.1:8443/base"),
            "clientConfig",
            {"url": "https://10.0.0.1:8443/base/validate"},
        ),
        "ignored namespaces": (
            Registration(ignored_namespaces=("a", "", "b"), selected_namespace="c"),
            "namespaceSelector",
            namespaces("NotIn", "a", "b"),
        ),
        "one namespace, and an empty list of ignored ones": (
            Registration(ignored_namespaces=("",), selected_namespace="c"),
            "namespaceSelector",
            namespaces("In", "c"),
        ),
    },
)
def test_registration(registration: Registration, path: str, expected: object) -> None:
    """Each setting ends up in its field."""
    assert webhooks(registration, "")[1][path] == expected


def test_match_conditions() -> None:
    """Conditions hold pods back, never VPAs, and our own pods only where we live."""
    mirror, own = webhooks(Registration(namespace="vpa"))[0]["matchConditions"]
    for condition in (mirror, own):
        assert condition["expression"].startswith(
            "!(request.resource.group == '' && request.resource.resource == 'pods' && "
        )
        assert condition["expression"].count("(") == condition["expression"].count(")")
    assert "'kubernetes.io/config.mirror' in object.metadata.annotations" in mirror["expression"]
    assert "request.namespace == 'vpa' && has(object.metadata.labels)" in own["expression"]


@cases(
    "address port expected",
    {
        "both": ("https://10.0.0.1", "8443", "https://10.0.0.1:8443"),
        "no port": ("https://vpa.example.com", "", "https://vpa.example.com"),
        "IPv6": ("https://[fd00::1]", "8443", "https://[fd00::1]:8443"),
        "path": ("https://a.example.com/base/", "", "https://a.example.com/base"),
    },
)
def test_webhook_url(address: str, port: str, expected: str) -> None:
    """The root of the webhooks' URLs has no slash at its end."""
    assert webhook_url(address, port) == expected


@pytest.mark.parametrize("address", ["", "10.0.0.1", "http://a", "https://u@a", "https://a?b#c"])
def test_bad_webhook_url(address: str) -> None:
    """What an API server would refuse is refused here, by the flag's name."""
    with pytest.raises(BadSetting, match="--webhook-address"):
        webhook_url(address, "443")
