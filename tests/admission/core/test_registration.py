"""What is ours is put back, what is not stays, and each difference has a path."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from app.admission.core.registration import align, drift_event

OURS: dict[str, Any] = {
    "name": "vpa.k8s.io",
    "clientConfig": {"caBundle": "Q0E=", "service": {"name": "vpa-webhook", "port": 443}},
    "failurePolicy": "Ignore",
    "matchConditions": [],
    "namespaceSelector": {},
    "rules": [{"operations": ["CREATE"], "resources": ["pods"]}],
}
WANTED: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "vpa-webhook-config", "labels": {"team": "a"}},
    "webhooks": [OURS],
}
THEIRS = {"name": "other.example.com", "failurePolicy": "Fail"}


def live(**changes: object) -> dict[str, Any]:
    """The object as an API server gives it back, with our webhook changed."""
    ours = {key: value for key, value in deepcopy(OURS).items() if key != "matchConditions"}
    return {
        **WANTED,
        "metadata": {
            "name": "vpa-webhook-config",
            "resourceVersion": "7",
            "uid": "u-1",
            "labels": {"team": "a", "argocd": "x"},
            "annotations": {"note": "kept"},
        },
        "webhooks": [THEIRS, {**ours, "futureField": 1, **changes}],
    }


@pytest.mark.parametrize(
    ("changes", "differences"),
    [
        pytest.param({}, (), id="as wanted"),
        pytest.param({"failurePolicy": "Fail"}, ("failurePolicy",), id="policy"),
        pytest.param({"rules": None}, ("rules",), id="rules gone"),
        pytest.param({"namespaceSelector": None}, (), id="empty is absent"),
        pytest.param({"matchConditions": [{"name": "never"}]}, ("matchConditions",), id="muted"),
        pytest.param({"reinvocationPolicy": "Never"}, (), id="a field that we do not name"),
        pytest.param(
            {"clientConfig": {**OURS["clientConfig"], "caBundle": "eA=="}},
            ("clientConfig.caBundle",),
            id="another CA",
        ),
        pytest.param(
            {"clientConfig": {"url": "https://elsewhere", "caBundle": "Q0E="}},
            ("clientConfig.service", "clientConfig.url"),
            id="sent elsewhere",
        ),
        pytest.param(
            {"clientConfig": "?"},
            ("clientConfig.caBundle", "clientConfig.service"),
            id="not an object",
        ),
    ],
)
def test_align(changes: dict[str, Any], differences: tuple[str, ...]) -> None:
    """Ours becomes as wanted, and the rest of the object is as it was."""
    alignment = align(live(**changes), WANTED)
    assert alignment.differences == tuple(f"webhooks[vpa.k8s.io].{path}" for path in differences)
    theirs, ours = alignment.body["webhooks"]
    assert theirs == THEIRS
    assert {key: ours[key] for key in OURS} == OURS
    assert ours["futureField"] == 1
    assert alignment.body["metadata"] == live()["metadata"]
    assert align(alignment.body, WANTED).differences == ()


@pytest.mark.parametrize(
    ("found", "differences"),
    [
        pytest.param({}, ("metadata.labels[team]", "webhooks[vpa.k8s.io]"), id="nothing there"),
        pytest.param(
            {"metadata": {"labels": {"team": "b"}}, "webhooks": ["?", THEIRS]},
            ("metadata.labels[team]", "webhooks[vpa.k8s.io]"),
            id="other label and entries",
        ),
        pytest.param({**live(), "webhooks": []}, ("webhooks[vpa.k8s.io]",), id="emptied"),
    ],
)
def test_align_missing(found: dict[str, Any], differences: tuple[str, ...]) -> None:
    """What is missing is added beside what is there."""
    alignment = align(found, WANTED)
    assert alignment.differences == differences
    assert alignment.body["webhooks"] == [*found.get("webhooks", []), OURS]
    assert alignment.body["metadata"]["labels"]["team"] == "a"


def test_no_labels_wanted() -> None:
    """Without labels of ours no empty field is written."""
    assert align({}, {"metadata": {}, "webhooks": []}).body == {"metadata": {}, "webhooks": []}


def test_drift_event() -> None:
    """The event names the object, its version and the fields, in namespace default."""
    now = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
    event = drift_event(live(), ["webhooks[vpa.k8s.io].rules"], now, "vpa-admission-controller")
    assert event["metadata"] == {
        "name": "vpa-webhook-config.mutatingwebhookconfiguration.64bf535af1005",
        "namespace": "default",
    }
    assert event["involvedObject"] == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "name": "vpa-webhook-config",
        "uid": "u-1",
        "resourceVersion": "7",
    }
    assert event["message"].endswith("webhooks[vpa.k8s.io].rules")
    assert event["lastTimestamp"] == "2026-03-01T12:00:00Z"
