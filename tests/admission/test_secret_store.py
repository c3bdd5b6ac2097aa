"""One Secret holds the ring for all replicas, whoever made it first."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest

from app.admission.certificate_stores import SecretStore
from app.admission.certificates import issue
from app.admission.core.rotation import CertificateSet, KeyRing, Material
from app.model.errors import Conflict, Refused
from app.ports import SECRETS, Json, Ref
from tests.cases import cases
from tests.cluster_in_memory import ClusterInMemory
from tests.stepped_clock import SteppedClock

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ONE, TWO, THREE = (issue(("a",), NOW, 90) for _ in range(3))
FULL = KeyRing(ONE, TWO, (THREE.ca_pem, TWO.ca_pem))


@pytest.fixture
def cluster() -> ClusterInMemory:
    """An empty cluster."""
    return ClusterInMemory(SteppedClock().now)


@pytest.fixture
def store(cluster: ClusterInMemory) -> SecretStore:
    """The store of one replica."""
    return store_of(cluster)


def store_of(cluster: ClusterInMemory) -> SecretStore:
    """A store under upstream's name."""
    return SecretStore(cluster, "kube-system", "vpa-tls-certs")


def secret(data: dict[str, str]) -> Json:
    """The Secret with these texts."""
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return {
        "metadata": {"name": "vpa-tls-certs", "namespace": "kube-system", "labels": {"by": "x"}},
        "type": "Opaque",
        "data": encoded,
    }


def in_cluster(cluster: ClusterInMemory) -> Json:
    """The Secret as it is."""
    return cluster.get(Ref(SECRETS, "kube-system", "vpa-tls-certs"))


def test_nothing_to_fill(cluster: ClusterInMemory, store: SecretStore) -> None:
    """A Secret that is missing, and may not be created, is told with what creates it."""
    found = store.read()
    cluster.failures = [Refused("secrets is forbidden", status=403)]
    with pytest.raises(Refused) as caught:
        store.write(found, FULL)
    command = "kubectl -n kube-system create secret generic vpa-tls-certs"
    assert str(caught.value) == (
        "Secret kube-system/vpa-tls-certs is missing, and a webhook may only fill it: " + command
    )


def test_empty_secret(cluster: ClusterInMemory, store: SecretStore) -> None:
    """One that is shipped empty is filled, and keeps what else it has."""
    cluster.create(Ref(SECRETS, "kube-system"), {**secret({}), "data": None})
    assert store.poll() is None
    store.write(store.read(), KeyRing(ONE))
    assert store.poll() == Material(1, ONE)
    assert in_cluster(cluster)["metadata"]["labels"] == {"by": "x"}


def test_round_trip(cluster: ClusterInMemory, store: SecretStore) -> None:
    """What is written is read, the generation in use under upstream's key names."""
    assert store.read().ring == KeyRing()
    store.write(store.read(), FULL)
    assert store.read().ring == FULL
    assert set(in_cluster(cluster)["data"]) == {
        *("caCert.pem", "serverCert.pem", "serverKey.pem"),
        *("nextCaCert.pem", "nextServerCert.pem", "nextServerKey.pem"),
        "retiringCaCerts.pem",
    }
    store.write(store.read(), KeyRing(TWO))
    assert store.read().ring == KeyRing(TWO)
    assert set(in_cluster(cluster)["data"]) == {"caCert.pem", "serverCert.pem", "serverKey.pem"}


@cases(
    "keys",
    {
        "script": (("caCert.pem", "serverCert.pem", "serverKey.pem"),),
        "chart": (("ca", "cert", "key"),),
        "cert-manager": (("ca.crt", "tls.crt", "tls.key"),),
    },
)
def test_made_by_others(
    cluster: ClusterInMemory, store: SecretStore, keys: tuple[str, ...]
) -> None:
    """Secrets of other tools are taken over, and what else is in them stays."""
    parts = (ONE.ca_pem, ONE.cert_pem, ONE.key_pem)
    theirs = secret({**dict(zip(keys, parts, strict=True)), "caKey.pem": "theirs"})
    cluster.create(Ref(SECRETS, "kube-system"), theirs)
    stored = store.read()
    assert stored.ring == KeyRing(ONE)
    store.write(stored, KeyRing(ONE, TWO))
    assert store.read().ring == KeyRing(ONE, TWO)
    after = in_cluster(cluster)
    assert {key: after["data"][key] for key in theirs["data"]} == theirs["data"]
    assert after["metadata"]["labels"] == {"by": "x"}
    store.write(store.read(), KeyRing(TWO, None, (ONE.ca_pem,)))
    assert store.read().ring == KeyRing(TWO, None, (ONE.ca_pem,))
    assert in_cluster(cluster)["data"]["caKey.pem"] == theirs["data"]["caKey.pem"]


@cases(
    "data current",
    {
        "no data": (None, None),
        "other keys only": ({"caKey.pem": "QQ=="}, None),
        "half a set": ({"serverCert.pem": "QQ=="}, CertificateSet("", "A", "")),
        "no base64, no text": ({"serverCert.pem": "%%", "ca": 7}, None),
        "no ASCII": ({"serverKey.pem": "/w=="}, CertificateSet("", "", "\ufffd")),
    },
)
def test_odd_secrets(
    cluster: ClusterInMemory, store: SecretStore, data: Json | None, current: CertificateSet | None
) -> None:
    """Whatever lies in the Secret, it can be read and then replaced."""
    cluster.create(
        Ref(SECRETS, "kube-system"), {"metadata": {"name": "vpa-tls-certs"}, "data": data}
    )
    assert store.read().ring.current == current
    store.write(store.read(), KeyRing(ONE))
    assert store.read().ring == KeyRing(ONE)


@pytest.mark.parametrize("existing", [False, True], ids=["both create", "both replace"])
def test_two_writers(cluster: ClusterInMemory, store: SecretStore, existing: bool) -> None:
    """Of two who read the same one may write, and what it wrote stays."""
    if existing:
        store.write(store.read(), KeyRing(THREE))
    ours, theirs = store.read(), store_of(cluster).read()
    store_of(cluster).write(theirs, KeyRing(ONE))
    with pytest.raises(Conflict):
        store.write(ours, KeyRing(TWO))
    assert store.read().ring == KeyRing(ONE)


def test_poll_warns_of_a_loss_only(
    cluster: ClusterInMemory, store: SecretStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Before the first generation there is nothing to warn of; once it is gone there is."""
    store.poll()
    before = caplog.text
    writer = store_of(cluster)
    writer.write(writer.read(), KeyRing(ONE))
    store.poll()
    cluster.delete(Ref(SECRETS, "kube-system", "vpa-tls-certs"))
    store.poll()

    assert before == ""
    assert [getattr(record, "reason", "") for record in caplog.records] == ["the Secret holds none"]


def test_poll(cluster: ClusterInMemory, store: SecretStore) -> None:
    """Replicas serve the generation in use, never the next one, and never half of one."""
    writer = store_of(cluster)
    assert store.poll() is None
    writer.write(writer.read(), KeyRing(ONE))
    assert store.poll() == Material(1, ONE)
    writer.write(writer.read(), KeyRing(ONE, TWO))
    assert store.poll() == Material(1, ONE)
    writer.write(writer.read(), KeyRing(CertificateSet(TWO.ca_pem, TWO.cert_pem, ONE.key_pem)))
    assert store.poll() == Material(1, ONE)
    cluster.delete(Ref(SECRETS, "kube-system", "vpa-tls-certs"))
    assert store.poll() == Material(1, ONE)
    writer.write(writer.read(), KeyRing(TWO))
    assert store.poll() == Material(2, TWO)
