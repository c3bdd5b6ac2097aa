"""The webhook configurations are as wanted, and stay so."""

from __future__ import annotations

import base64
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from app.admission.core.rotation import CertificateSet
from app.kube.manifests.documents import Registration
from app.model.errors import ClusterError, Conflict, Refused, Unavailable
from app.ports import EVENTS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Json, Ref
from tests.admission.replica import CONFIGURATION, Replica
from tests.cases import cases
from tests.cluster_in_memory import outage

BOTH = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)


def pem(der: bytes) -> str:
    """A certificate's armour around anything."""
    body = base64.b64encode(der).decode()
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"


ONE, TWO = pem(b"one"), pem(b"two")


def replica() -> Replica:
    """A replica that has a CA to publish."""
    found = Replica()
    found.registrar.bundle = ONE
    return found


def test_creation() -> None:
    """Both configurations are made, and then left alone."""
    scene = replica()
    assert scene.register() == ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    assert scene.registrar.bundles() == (ONE, ONE)
    assert scene.register() == ()
    assert scene.new_registrar(ONE).tick(scene.clock.now()) == ()
    assert scene.events() == []


def test_takeover_from_upstream() -> None:
    """Upstream's object is changed in place: it keeps its identity and what others put on it."""
    scene = replica()
    theirs: dict[str, Any] = {
        "metadata": {"name": CONFIGURATION, "annotations": {"a": "b"}},
        "webhooks": [
            {"name": "vpa.k8s.io", "timeoutSeconds": 30, "clientConfig": {"caBundle": "eA=="}},
            {"name": "other.example.com"},
        ],
    }
    before = scene.cluster.create(Ref(MUTATING_WEBHOOKS), theirs)
    assert scene.register() == ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    after = scene.configuration()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["annotations"] == {"a": "b"}
    assert [webhook["name"] for webhook in after["webhooks"]] == [
        "vpa.k8s.io",
        "other.example.com",
    ]
    assert after["webhooks"][0]["timeoutSeconds"] == 5
    assert scene.events() == []


def webhook(live: Json) -> dict[str, Any]:
    """Our webhook in a configuration."""
    found = live["webhooks"][0]
    assert isinstance(found, dict)
    return found


def put_bundle(live: Json, bundle: str) -> None:
    """Change which CAs a configuration trusts."""
    webhook(live)["clientConfig"]["caBundle"] = bundle


@cases(
    "change path",
    {
        "CA bundle": (lambda live: put_bundle(live, "eA=="), "clientConfig.caBundle"),
        "rules": (lambda live: webhook(live)["rules"].pop(), "rules"),
        "selector": (
            lambda live: webhook(live).update(namespaceSelector={"matchLabels": {"a": "b"}}),
            "namespaceSelector",
        ),
        "gone": (lambda live: webhook(live).pop("timeoutSeconds"), "timeoutSeconds"),
        "emptied": (lambda live: live.update(webhooks=[]), "webhooks[vpa.k8s.io]"),
    },
)
def test_drift(
    change: Callable[[Json], object], path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What somebody else changes is put back and told, once."""
    scene = replica()
    scene.register()
    before = scene.configuration()["webhooks"]
    scene.change(change)
    assert scene.register() == ("MutatingWebhookConfiguration",)
    assert scene.configuration()["webhooks"] == before
    assert scene.register() == ()
    (event,) = scene.events()
    assert path in event
    assert [record.message for record in caplog.records] == ["webhook configuration reverted"]


def test_deletion() -> None:
    """A configuration that somebody deletes is made again, which is drift as well."""
    scene = replica()
    scene.register()
    scene.cluster.delete(Ref(VALIDATING_WEBHOOKS, "", CONFIGURATION))
    assert scene.register() == ("ValidatingWebhookConfiguration",)
    (event,) = scene.cluster.list(EVENTS, "default").items
    assert (
        event["involvedObject"]["uid"]
        == scene.configuration(VALIDATING_WEBHOOKS)["metadata"]["uid"]
    )


def test_our_own_changes_are_no_drift() -> None:
    """Another CA or other settings are written without an event."""
    scene = replica()
    scene.register()
    scene.registrar.bundle = ONE + TWO
    assert len(scene.register()) == 2
    scene.registration = Registration(labels={"team": "a"}, fail_closed=True)
    assert len(scene.register()) == 2
    assert scene.configuration()["metadata"]["labels"] == {"team": "a"}
    assert scene.registrar.bundles() == (ONE + TWO, ONE + TWO)
    assert scene.events() == []


def test_event_that_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    """Drift is put back also where events are forbidden."""
    scene = replica()
    scene.register()
    scene.change(lambda live: live.update(webhooks=[]))
    scene.cluster.forbidden = {"Event"}
    assert scene.register() == ("MutatingWebhookConfiguration",)
    assert caplog.records[-1].message == "event was not written"


def test_conflicts() -> None:
    """Who is slower reads again, and both changes stay."""
    scene = replica()
    scene.register()
    scene.registrar.bundle = TWO
    scene.cluster.before_write = lambda: scene.change(
        lambda live: live["metadata"].update(annotations={"a": "b"})
    )
    assert len(scene.register()) == 2
    assert scene.configuration()["metadata"]["annotations"] == {"a": "b"}
    assert scene.registrar.bundles() == (TWO, TWO)


def test_creation_race() -> None:
    """Two replicas that start together make one set of configurations."""
    scene = replica()
    scene.cluster.before_write = lambda: scene.new_registrar(ONE).tick(scene.clock.now())
    scene.register()
    assert scene.registrar.bundles() == (ONE, ONE)
    assert scene.events() == []


def test_deleted_between_reading_and_writing() -> None:
    """A configuration that vanishes at the worst moment is made again."""
    scene = replica()
    scene.register()
    scene.registrar.bundle = TWO
    scene.cluster.before_write = lambda: scene.cluster.delete(
        Ref(MUTATING_WEBHOOKS, "", CONFIGURATION)
    )
    assert len(scene.register()) == 2
    assert scene.registrar.bundles() == (TWO, TWO)


def test_endless_conflicts() -> None:
    """Reading again has an end, and the other configuration does not suffer."""
    scene = replica()
    scene.register()
    scene.registrar.bundle = TWO
    numbers = count()

    def disturb() -> None:
        scene.cluster.before_write = lambda: None
        scene.change(lambda live: live["metadata"].update(annotations={"by": f"{next(numbers)}"}))
        scene.cluster.before_write = disturb

    scene.cluster.before_write = disturb
    with pytest.raises(Conflict, match="MutatingWebhookConfiguration vpa-webhook-config"):
        scene.register()
    assert scene.registrar.bundles() == (ONE, TWO)


@cases("failure", {"outage": (Unavailable("x"),), "forbidden": (Refused("x"),)})
def test_trouble_with_one(failure: ClusterError) -> None:
    """What happens to one configuration does not keep the other from being made."""
    scene = replica()
    scene.cluster.failures = [failure]
    with pytest.raises(type(failure)):
        scene.register()
    assert scene.registrar.bundles() == (None, ONE)
    assert scene.register() == ("MutatingWebhookConfiguration",)


def test_first_registration_waits() -> None:
    """API servers are sent here for the first time when somebody answers; changes never wait."""
    scene = replica()
    seen = []
    for reason, bundle in (("caches are not synced", ""), ("", ""), ("caches are not synced", TWO)):
        scene.reason = reason
        scene.registrar.bundle = bundle or scene.registrar.bundle
        seen.append((len(scene.register()), scene.registrar.waits))
    assert seen == [(0, True), (2, False), (2, False)]


def test_follower() -> None:
    """Who does not lead reads, and writes nothing."""
    scene = replica()
    scene.leads = False
    assert scene.register() == ()
    assert scene.registrar.bundles() == (None, None)


def test_nothing_to_trust() -> None:
    """Without a CA nothing is registered, also after a new beginning."""
    scene = replica()
    scene.registrar.forget()
    assert scene.register() == ()
    assert scene.registrar.bundles() == (None, None)


def test_forgetting() -> None:
    """What another leader wrote meanwhile is no drift."""
    scene = replica()
    scene.register()
    other = scene.new_registrar(ONE)
    other.bundle = TWO
    other.tick(scene.clock.now())
    scene.registrar.forget()
    scene.registrar.bundle = ONE
    assert len(scene.register()) == 2
    assert scene.events() == []


def test_old_api_server(caplog: pytest.LogCaptureFixture) -> None:
    """A field that the API server does not know is told once, and not written for ever."""
    scene = replica()
    scene.cluster.prune = lambda body: [
        webhook.pop("matchConditions", None) for webhook in body.get("webhooks", ())
    ]
    scene.register()
    assert scene.register() == ()
    assert scene.events() == []
    (record,) = caplog.records
    assert record.message == "API server does not keep fields"
    assert getattr(record, "fields", []) == ["webhooks[vpa.k8s.io].matchConditions"]
    scene.change(lambda live: webhook(live).update(timeoutSeconds=1))
    assert scene.register() == ("MutatingWebhookConfiguration",)
    assert scene.register() == ()


@cases(
    "ca_pem trusted",
    {"ours": (ONE, True), "one of two": (ONE + TWO, False), "none to be trusted": ("", True)},
)
def test_trusts(ca_pem: str, trusted: bool) -> None:
    """A certificate is trusted when every configuration carries all of its CAs."""
    scene = replica()
    certificates = CertificateSet(ca_pem, "", "")
    assert scene.registrar.trusts(certificates)
    assert scene.registrar.trouble(certificates) == "a webhook configuration is missing"
    scene.register()
    assert scene.registrar.trusts(certificates) == trusted
    assert (scene.registrar.trouble(certificates) == "") == trusted
    scene.cluster.failures = outage(1)
    assert scene.registrar.trouble(certificates) == "connection refused"


def test_odd_bundle() -> None:
    """A bundle that is no base64 trusts nothing, and is put right."""
    scene = replica()
    scene.register()
    scene.change(lambda live: put_bundle(live, "%"))
    assert scene.registrar.bundles() == ("", ONE)
    scene.register()
    assert scene.registrar.bundles() == (ONE, ONE)
