"""What is ours is put back, what is not stays, and each difference has a path."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from app.admission.core.registration import align, drift_event
from tests.cases import cases

OURS: dict[str, Any] = {
    "name": "vpa.k8s.io",
    "clientConfig": {"caBundle": "Q0E=", "service": {"name": "vpa-webhook", "port": 443}},
    "failurePolicy": "Ignore",
    "matchConditions": [],
    "namespaceSelector": {},
    "rules": [{"operations": ["CREATE"], "resources": ["pods"]}],
}
ANOTHER_CA = OURS["clientConfig"] | {"caBundle": "eA=="}
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


@cases(
    "changes differences",
    {
        "as wanted": ({}, ()),
        "policy": ({"failurePolicy": "Fail"}, ("failurePolicy",)),
        "rules gone": ({"rules": None}, ("rules",)),
        "empty is absent": ({"namespaceSelector": None}, ()),
        "muted": ({"matchConditions": [{"name": "never"}]}, ("matchConditions",)),
        "a field that we do not name": ({"reinvocationPolicy": "Never"}, ()),
        "another CA": ({"clientConfig": ANOTHER_CA}, ("clientConfig.caBundle",)),
        "sent elsewhere": (
            {"clientConfig": {"url": "https://elsewhere", "caBundle": "Q0E="}},
            ("clientConfig.service", "clientConfig.url"),
        ),
        "not an object": ({"clientConfig": "?"}, ("clientConfig.caBundle", "clientConfig.service")),
    },
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


@cases(
    "found differences",
    {
        "nothing there": ({}, ("metadata.labels[team]", "webhooks[vpa.k8s.io]")),
        "other label and entries": (
            {"metadata": {"labels": {"team": "b"}}, "webhooks": ["?", THEIRS]},
            ("metadata.labels[team]", "webhooks[vpa.k8s.io]"),
        ),
        "emptied": ({**live(), "webhooks": []}, ("webhooks[vpa.k8s.io]",)),
    },
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
