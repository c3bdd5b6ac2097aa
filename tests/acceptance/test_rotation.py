"""Certificates change while pods are created, and no pod notices.

What counts is what the API server says of itself: how often it called the webhook in vain.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial

import pytest

from app.admission.certificate_stores import SecretStore
from app.admission.certificates import Authority, issue, serving_names
from app.admission.certification import Rotator
from app.admission.core.rotation import CertificateSet, RotationRules, fingerprints
from app.admission.registrar import Registrar
from app.kube.client import connect
from app.kube.manifests.documents import Registration, webhook_configurations
from app.kube.reach import Origin
from app.ports import SECRETS
from app.runtime.clock import SystemClock
from app.runtime.election import lease, micro_time
from tests.acceptance.cluster import Cluster, reached_as
from tests.acceptance.load import Load, webhook_failures
from tests.acceptance.logs import Logs
from tests.acceptance.rights import NAMESPACE
from tests.acceptance.rows import FIGURE
from tests.acceptance.space import Space, item_of
from tests.acceptance.webhook import (
    ELECTION,
    SECRET,
    Webhook,
    configurations,
    refusal_of_nonsense,
    secret_data,
)
from tests.cluster.api import Api
from tests.cluster.programs import eventually

PER_SECOND = 50
NAMES = serving_names("vpa-webhook", NAMESPACE, f"https://{reached_as()[0]}")
DAYS = 100
CLOCK = SystemClock()


def issued(days_ago: int = 0) -> CertificateSet:
    """Return a generation that was made so many days ago."""
    return issue(NAMES, CLOCK.now() - timedelta(days=days_ago), DAYS)


def put_secret(admin: Api, certificates: CertificateSet) -> None:
    """Put a generation in the place of whatever is in the Secret."""
    admin.apply(item_of(SECRETS, SECRET, NAMESPACE, data=secret_data(certificates)))


def registration_of(webhook: Webhook) -> Registration:
    """Return what the webhook registers."""
    return Registration(url=webhook.address)


def left_behind(admin: Api, webhook: Webhook) -> CertificateSet:
    """Leave what a former process would have: an old generation that API servers trust."""
    old = issued(days_ago=DAYS * 3 // 4)
    put_secret(admin, old)
    for _, document in webhook_configurations(registration_of(webhook), old.ca_pem):
        admin.create(document)
    return old


def served(webhook: Webhook) -> str:
    """Return the certificate that is served now."""
    return ssl.get_server_certificate(("127.0.0.1", webhook.port)).strip()


def serves(webhook: Webhook, certificates: CertificateSet) -> bool:
    """Say whether a generation is served."""
    return served(webhook) == certificates.cert_pem.strip()


def trusted(admin: Api) -> list[frozenset[str]]:
    """Return the CAs that each configuration trusts."""
    clients = [found["webhooks"][0]["clientConfig"] for found in configurations(admin)]
    return [fingerprints(base64.b64decode(client["caBundle"]).decode()) for client in clients]


@pytest.fixture
def running(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """A webhook that is not started yet."""
    found = Webhook(cluster, tmp_path_factory.mktemp("rotation"), workers=2)
    try:
        yield found
    finally:
        found.close()


Loaded = Callable[[str], AbstractContextManager[Load]]


@pytest.fixture
def loaded(admin: Api, space: Space, record_property: Callable[[str, object], None]) -> Loaded:
    """Creates pods meanwhile, and writes down how many; it is told under what."""

    @contextmanager
    def meanwhile(what: str) -> Iterator[Load]:
        with bothered(admin, space) as load:
            yield load
        rate = f"{load.per_second:.0f} pods a second were created meanwhile"
        text = f"{what}: {rate}, none of them failed."
        record_property(FIGURE, text)

    return meanwhile


@contextmanager
def bothered(admin: Api, space: Space) -> Iterator[Load]:
    """Create pods meanwhile; each must be sized, and the API server must have no complaint."""
    before = webhook_failures(admin)
    with Load(space, space.sized_owner(), PER_SECOND) as load:
        eventually(lambda: load.sized > PER_SECOND, "the load begins")
        load.forget()
        yield load

    assert (load.unsized, load.failures) == (0, []), load.story
    assert webhook_failures(admin) == before


def test_renewal(admin: Api, running: Webhook, logs: Logs, loaded: Loaded) -> None:
    """A certificate with a third of its life left is followed by another one, CA and all."""
    old = left_behind(admin, running)
    running.start(logs)
    running.wait_until_called()
    with loaded("Certificate renewed"):
        assert serves(running, old)
        eventually(lambda: all(len(found) == 2 for found in trusted(admin)), "both CAs are trusted")
        assert serves(running, old), "the new certificate waits until its CA is seen everywhere"
        eventually(lambda: not serves(running, old), "the new certificate is served")
        stored = admin.get(SECRETS, NAMESPACE, SECRET)["data"]
        assert base64.b64decode(stored["serverCert.pem"]).decode().strip() == served(running)


def test_whole_rotation(
    admin: Api, cluster: Cluster, running: Webhook, logs: Logs, loaded: Loaded
) -> None:
    """Led by another replica, which takes less time: until the old CA has left."""
    old = left_behind(admin, running)
    spec = {"holderIdentity": "test", "leaseDurationSeconds": 3600}
    admin.create(lease(NAMESPACE, ELECTION, {**spec, "renewTime": micro_time(CLOCK.now())}))
    with led_by_the_test(cluster, running) as rotator:
        running.start(logs)
        running.wait_until_called()
        with loaded("Certificate and CA rotated"):

            def is_over() -> bool:
                rotator.tick(CLOCK.now())
                found = trusted(admin)
                return old_ca.isdisjoint(found[0] | found[1])

            old_ca = fingerprints(old.ca_pem)
            eventually(is_over, "the old CA has left", every=0.5)
    stored = admin.get(SECRETS, NAMESPACE, SECRET)["data"]
    assert base64.b64decode(stored["serverCert.pem"]).decode().strip() == served(running)
    assert sorted(stored) == ["caCert.pem", "serverCert.pem", "serverKey.pem"]
    assert not running.logged('"leading":true')


@contextmanager
def led_by_the_test(cluster: Cluster, webhook: Webhook) -> Iterator[Rotator]:
    """Give what keeps certificates, with short times."""
    kube = connect(origin=Origin(cluster.kubeconfig))
    registration = registration_of(webhook)
    registrar = Registrar(
        kube, partial(webhook_configurations, registration), lambda: True, lambda: ""
    )
    authority = Authority("vpa-webhook", NAMESPACE, registration.url, DAYS)
    rules = RotationRules(settle_seconds=3.0, grace_seconds=10.0)
    store = SecretStore(kube, NAMESPACE, SECRET)
    try:
        yield Rotator(store, authority, registrar, rules, lambda: True)
    finally:
        kube.close()


def test_ac_25_others_replace_the_secret(
    admin: Api, running: Webhook, logs: Logs, loaded: Loaded
) -> None:
    """AC-25: keys and CA that others put into the Secret are served, and told of in the log."""
    running.start(logs)
    running.wait_until_called()
    theirs = issued()
    with loaded("Secret replaced by others"):
        put_secret(admin, theirs)
        eventually(lambda: serves(running, theirs), "their certificate is served")
    for text in (
        "New certificate found, reloading",
        "New client CA found, reloading and patching webhook",
        "Successfully patched webhook with new client CA",
    ):
        eventually(partial(running.logged, text), text)
    assert "admission webhook" in refusal_of_nonsense(admin)
