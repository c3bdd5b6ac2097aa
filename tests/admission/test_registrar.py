"""The webhook configurations are as wanted, and stay so."""

from __future__ import annotations

import base64
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from app.admission.core.rotation import CertificateSet
from app.admission.registrar import Registrar
from app.kube.manifests.webhooks import Registration, documents
from app.model.errors import ClusterError, Conflict, Refused, Unavailable
from app.ports import EVENTS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Json, Ref, Resource
from tests.cluster_in_memory import ClusterInMemory, outage
from tests.stepped_clock import SteppedClock

NAME = "vpa-webhook-config"
BOTH = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)


def pem(der: bytes) -> str:
    """A certificate's armour around anything."""
    body = base64.b64encode(der).decode()
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"


ONE, TWO = pem(b"one"), pem(b"two")


class Scene:
    """One replica's registrar in a cluster."""

    def __init__(self, registration: Registration | None = None) -> None:
        self.clock = SteppedClock()
        self.cluster = ClusterInMemory(self.clock.now)
        self.leads = True
        self.reason = ""
        self.registration = registration or Registration()
        self.registrar = self.another()

    def another(self) -> Registrar:
        """The registrar of a replica that has just started."""
        registrar = Registrar(
            self.cluster,
            lambda bundle: documents(self.registration, bundle),
            lambda: self.leads,
            lambda: self.reason,
        )
        registrar.bundle = ONE
        return registrar

    def tick(self) -> tuple[str, ...]:
        """Let a second pass and the registrar work."""
        self.clock.wait(1)
        return self.registrar.tick(self.clock.now())

    def live(self, resource: Resource = MUTATING_WEBHOOKS) -> Json:
        """A configuration as it is."""
        return self.cluster.get(Ref(resource, "", NAME))

    def change(self, change: Callable[[Json], object]) -> None:
        """Let somebody else change the configuration for pods."""
        found = self.live()
        change(found)
        self.cluster.replace(Ref(MUTATING_WEBHOOKS, "", NAME), found)

    def events(self) -> list[str]:
        """What the events say."""
        return [event["message"] for event in self.cluster.list(EVENTS, "default").items]


def test_creation() -> None:
    """Both configurations are made, and then left alone."""
    scene = Scene()
    assert scene.tick() == ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    assert scene.registrar.bundles() == (ONE, ONE)
    assert scene.tick() == ()
    assert scene.another().tick(scene.clock.now()) == ()
    assert scene.events() == []


def test_takeover_from_upstream() -> None:
    """Upstream's object is changed in place: it keeps its identity and what others put on it."""
    scene = Scene()
    theirs: dict[str, Any] = {
        "metadata": {"name": NAME, "annotations": {"a": "b"}},
        "webhooks": [
            {"name": "vpa.k8s.io", "timeoutSeconds": 30, "clientConfig": {"caBundle": "eA=="}},
            {"name": "other.example.com"},
        ],
    }
    before = scene.cluster.create(Ref(MUTATING_WEBHOOKS), theirs)
    assert scene.tick() == ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    after = scene.live()
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


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param(
            lambda live: webhook(live)["clientConfig"].update(caBundle="eA=="),
            "clientConfig.caBundle",
            id="CA bundle",
        ),
        pytest.param(lambda live: webhook(live)["rules"].pop(), "rules", id="rules"),
        pytest.param(
            lambda live: webhook(live).update(namespaceSelector={"matchLabels": {"a": "b"}}),
            "namespaceSelector",
            id="selector",
        ),
        pytest.param(lambda live: webhook(live).pop("timeoutSeconds"), "timeoutSeconds", id="gone"),
        pytest.param(lambda live: live.update(webhooks=[]), "webhooks[vpa.k8s.io]", id="emptied"),
    ],
)
def test_drift(
    change: Callable[[Json], object], path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What somebody else changes is put back and told, once."""
    scene = Scene()
    scene.tick()
    before = scene.live()["webhooks"]
    scene.change(change)
    assert scene.tick() == ("MutatingWebhookConfiguration",)
    assert scene.live()["webhooks"] == before
    assert scene.tick() == ()
    (event,) = scene.events()
    assert path in event
    assert [record.message for record in caplog.records] == ["webhook configuration put back"]


def test_deletion() -> None:
    """A configuration that somebody deletes is made again, which is drift as well."""
    scene = Scene()
    scene.tick()
    scene.cluster.delete(Ref(VALIDATING_WEBHOOKS, "", NAME))
    assert scene.tick() == ("ValidatingWebhookConfiguration",)
    (event,) = scene.cluster.list(EVENTS, "default").items
    assert event["involvedObject"]["uid"] == scene.live(VALIDATING_WEBHOOKS)["metadata"]["uid"]


def test_our_own_changes_are_no_drift() -> None:
    """Another CA or other settings are written without an event."""
    scene = Scene()
    scene.tick()
    scene.registrar.bundle = ONE + TWO
    assert len(scene.tick()) == 2
    scene.registration = Registration(labels={"team": "a"}, fail_closed=True)
    assert len(scene.tick()) == 2
    assert scene.live()["metadata"]["labels"] == {"team": "a"}
    assert scene.registrar.bundles() == (ONE + TWO, ONE + TWO)
    assert scene.events() == []


def test_event_that_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    """Drift is put back also where events are forbidden."""
    scene = Scene()
    scene.tick()
    scene.change(lambda live: live.update(webhooks=[]))
    scene.cluster.forbidden = {"Event"}
    assert scene.tick() == ("MutatingWebhookConfiguration",)
    assert caplog.records[-1].message == "event was not written"


def test_conflicts() -> None:
    """Who is slower reads again, and both changes stay."""
    scene = Scene()
    scene.tick()
    scene.registrar.bundle = TWO
    scene.cluster.before_write = lambda: scene.change(
        lambda live: live["metadata"].update(annotations={"a": "b"})
    )
    assert len(scene.tick()) == 2
    assert scene.live()["metadata"]["annotations"] == {"a": "b"}
    assert scene.registrar.bundles() == (TWO, TWO)


def test_creation_race() -> None:
    """Two replicas that start together make one set of configurations."""
    scene = Scene()
    scene.cluster.before_write = lambda: scene.another().tick(scene.clock.now())
    scene.tick()
    assert scene.registrar.bundles() == (ONE, ONE)
    assert scene.events() == []


def test_deleted_between_reading_and_writing() -> None:
    """A configuration that vanishes at the worst moment is made again."""
    scene = Scene()
    scene.tick()
    scene.registrar.bundle = TWO
    scene.cluster.before_write = lambda: scene.cluster.delete(Ref(MUTATING_WEBHOOKS, "", NAME))
    assert len(scene.tick()) == 2
    assert scene.registrar.bundles() == (TWO, TWO)


def test_endless_conflicts() -> None:
    """Reading again has an end, and the other configuration does not suffer."""
    scene = Scene()
    scene.tick()
    scene.registrar.bundle = TWO
    numbers = count()

    def disturb() -> None:
        scene.cluster.before_write = lambda: None
        scene.change(lambda live: live["metadata"].update(annotations={"by": f"{next(numbers)}"}))
        scene.cluster.before_write = disturb

    scene.cluster.before_write = disturb
    with pytest.raises(Conflict, match="MutatingWebhookConfiguration vpa-webhook-config"):
        scene.tick()
    assert scene.registrar.bundles() == (ONE, TWO)


@pytest.mark.parametrize(
    "failure",
    [pytest.param(Unavailable("x"), id="outage"), pytest.param(Refused("x"), id="forbidden")],
)
def test_trouble_with_one(failure: ClusterError) -> None:
    """What happens to one configuration does not keep the other from being made."""
    scene = Scene()
    scene.cluster.failures = [failure]
    with pytest.raises(type(failure)):
        scene.tick()
    assert scene.registrar.bundles() == (None, ONE)
    assert scene.tick() == ("MutatingWebhookConfiguration",)


def test_first_registration_waits() -> None:
    """API servers are sent here for the first time when somebody answers; changes never wait."""
    scene = Scene()
    seen = []
    for reason, bundle in (("caches are not synced", ""), ("", ""), ("caches are not synced", TWO)):
        scene.reason = reason
        scene.registrar.bundle = bundle or scene.registrar.bundle
        seen.append((len(scene.tick()), scene.registrar.waits))
    assert seen == [(0, True), (2, False), (2, False)]


def test_follower() -> None:
    """Who does not lead reads, and writes nothing."""
    scene = Scene()
    scene.leads = False
    assert scene.tick() == ()
    assert scene.registrar.bundles() == (None, None)


def test_nothing_to_trust() -> None:
    """Without a CA nothing is registered, also after a new beginning."""
    scene = Scene()
    scene.registrar.forget()
    assert scene.tick() == ()
    assert scene.registrar.bundles() == (None, None)


def test_forgetting() -> None:
    """What another leader wrote meanwhile is no drift."""
    scene = Scene()
    scene.tick()
    other = scene.another()
    other.bundle = TWO
    other.tick(scene.clock.now())
    scene.registrar.forget()
    scene.registrar.bundle = ONE
    assert len(scene.tick()) == 2
    assert scene.events() == []


def test_old_api_server(caplog: pytest.LogCaptureFixture) -> None:
    """A field that the API server does not know is told once, and not written for ever."""
    scene = Scene()
    scene.cluster.prune = lambda body: [
        webhook.pop("matchConditions", None) for webhook in body.get("webhooks", ())
    ]
    scene.tick()
    assert scene.tick() == ()
    assert scene.events() == []
    (record,) = caplog.records
    assert record.message == "API server does not keep fields"
    assert getattr(record, "fields", []) == ["webhooks[vpa.k8s.io].matchConditions"]
    scene.change(lambda live: webhook(live).update(timeoutSeconds=1))
    assert scene.tick() == ("MutatingWebhookConfiguration",)
    assert scene.tick() == ()


@pytest.mark.parametrize(
    ("ca_pem", "trusted"),
    [
        pytest.param(ONE, True, id="ours"),
        pytest.param(ONE + TWO, False, id="one of two"),
        pytest.param("", True, id="none to be trusted"),
    ],
)
def test_trusts(ca_pem: str, trusted: bool) -> None:
    """A certificate is trusted when every configuration carries all of its CAs."""
    scene = Scene()
    certificates = CertificateSet(ca_pem, "", "")
    assert scene.registrar.trusts(certificates)
    assert scene.registrar.trouble(certificates) == "a webhook configuration is missing"
    scene.tick()
    assert scene.registrar.trusts(certificates) == trusted
    assert (scene.registrar.trouble(certificates) == "") == trusted
    scene.cluster.failures = outage(1)
    assert scene.registrar.trouble(certificates) == "connection refused"


def test_odd_bundle() -> None:
    """A bundle that is no base64 trusts nothing, and is put right."""
    scene = Scene()
    scene.tick()
    scene.change(lambda live: webhook(live)["clientConfig"].update(caBundle="%"))
    assert scene.registrar.bundles() == ("", ONE)
    scene.tick()
    assert scene.registrar.bundles() == (ONE, ONE)
