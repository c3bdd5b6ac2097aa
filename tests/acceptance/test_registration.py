"""The webhook registers itself, keeps it so, and says by a Lease whether it answers."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from app.admission.core.rotation import fingerprints
from app.commands.flags import ManifestsSettings
from app.commands.manifests import webhooks_report
from app.flags.command_line import parse
from app.model.fields import Json
from app.ports import EVENTS, SECRETS, VALIDATING_WEBHOOKS
from tests.acceptance.cluster import Cluster
from tests.acceptance.logs import Logs
from tests.acceptance.rights import NAMESPACE
from tests.acceptance.space import APP, Box, Space, bare_pod
from tests.acceptance.webhook import (
    SECRET,
    Webhook,
    clean,
    configurations,
    refusal_of_nonsense,
    renewed,
)
from tests.cluster.api import Api
from tests.cluster.programs import during, eventually

WEBHOOK_WORKERS = 2  # some of which are halted and killed here
PODS = "vpa_admission_controller_admission_pods_total"


def test_configurations(admin: Api, webhook: Webhook) -> None:
    """Both configurations lead to our paths, and trust the CA in the Secret and no other."""
    mutating, validating = configurations(admin)
    clients = [found["webhooks"][0]["clientConfig"] for found in (mutating, validating)]

    paths = [client["url"].removeprefix(webhook.address) for client in clients]
    assert paths == ["/mutate", "/validate"]
    stored = admin.get(SECRETS, NAMESPACE, SECRET)["data"]
    authority = fingerprints(base64.b64decode(stored["caCert.pem"]).decode())
    for client in clients:
        assert fingerprints(base64.b64decode(client["caBundle"]).decode()) == authority
    assert not [name for name in stored if "cakey" in name.lower()]


@pytest.mark.usefixtures("webhook")
def test_drift_is_put_back(admin: Api) -> None:
    """What somebody changes or deletes is as before soon after; an Event tells what it was."""
    admin.delete_all(EVENTS, "default")
    before = configurations(admin)
    changed, _ = configurations(admin)
    changed["webhooks"][0]["rules"].pop()
    changed["webhooks"][0]["clientConfig"]["caBundle"] = ""
    changed["webhooks"][0]["failurePolicy"] = "Fail"
    changed["webhooks"].append({**changed["webhooks"][0], "name": "other.example.com"})
    changed["webhooks"][1] |= {"namespaceSelector": {"matchLabels": {"nobody": "has"}}}
    admin.replace(changed)
    admin.delete(VALIDATING_WEBHOOKS, "", before[1]["metadata"]["name"])

    def look() -> bool:
        mutating, validating = configurations(admin)
        assert mutating["webhooks"][0] == before[0]["webhooks"][0]
        assert validating["webhooks"] == before[1]["webhooks"]
        return True

    eventually(lambda: admin.find(VALIDATING_WEBHOOKS, "", before[1]["metadata"]["name"]), "back")
    eventually(look, "both configurations are as before")
    names = [found["name"] for found in configurations(admin)[0]["webhooks"]]
    assert names == ["vpa.k8s.io", "other.example.com"]
    told = [
        "Changed by another client and put back: the whole object",
        "Changed by another client and put back: webhooks[vpa.k8s.io].clientConfig.caBundle, "
        "webhooks[vpa.k8s.io].failurePolicy, webhooks[vpa.k8s.io].rules",
    ]
    eventually(lambda: drift_events(admin) == told, "both are told of")
    eventually(lambda: refusal_of_nonsense(admin), "the API server calls the webhook again")


def drift_events(admin: Api) -> list[str]:
    """Return what is told of changes by others."""
    found = admin.list(EVENTS, "default")
    return sorted(each["message"] for each in found if each["reason"] == "RegistrationDrift")


@contextmanager
def workers_halted(webhook: Webhook) -> Iterator[None]:
    """Let no worker do anything for a while."""
    webhook.signal_workers(signal.SIGSTOP)
    try:
        yield
    finally:
        webhook.signal_workers(signal.SIGCONT)


def test_heartbeat_means_that_reviews_are_answered(admin: Api, webhook: Webhook) -> None:
    """The Lease is renewed every interval, not while workers hang, and again afterwards."""
    last = renewed(admin)
    eventually(lambda: renewed(admin) != last, "a beat", seconds=5)
    with workers_halted(webhook):
        eventually(lambda: webhook.problem() != "OK", "not ready")
        last = eventually(lambda: renewed(admin), "a last beat")

        def check() -> None:
            assert renewed(admin) == last

        during(3, check)
    eventually(lambda: renewed(admin) != last, "a beat")


def test_a_dead_worker_is_replaced(admin: Api, webhook: Webhook) -> None:
    """A worker that is killed is followed by another one."""
    before = webhook.workers()
    webhook.signal_workers(signal.SIGKILL)
    eventually(lambda: webhook.problem() != "OK", "not ready")
    eventually(lambda: webhook.problem() == "OK", "ready")

    assert not set(before) & set(webhook.workers())
    eventually(lambda: refusal_of_nonsense(admin), "the API server calls the new worker")


def test_a_worker_that_hangs_is_replaced(webhook: Webhook) -> None:
    """A worker that does nothing any more is followed by another one within 30 s."""
    hung, *others = webhook.workers()
    os.kill(hung, signal.SIGSTOP)

    def is_replaced() -> bool:
        found = set(webhook.workers())
        return len(found) > len(others) and hung not in found and webhook.problem() == "OK"

    eventually(is_replaced, "a new worker answers", seconds=30, every=0.5)
    assert set(others) <= set(webhook.workers())


MIRROR = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}


def pod(
    namespace: str, *, labels: Json | None = None, annotations: Json | None = None, node: str = ""
) -> Json:
    """Return a pod."""
    found = bare_pod(Box(), labels, name=APP, namespace=namespace, annotations=annotations or {})
    found["spec"] |= {"nodeName": node, "automountServiceAccountToken": False} if node else {}
    return found


def test_which_pods_are_reviewed(admin: Api, webhook: Webhook, space: Space) -> None:
    """Mirror pods and the webhook's own pods are not; others with such labels are."""
    ours: Sequence[Json] = (
        {"app": "vpa-admission-controller"},
        {
            "app.kubernetes.io/name": "plumbline",
            "app.kubernetes.io/component": "admission-controller",
        },
    )
    numbers = [webhook.settled(PODS)]
    for item in (
        *(pod(NAMESPACE, labels=labels) for labels in ours),
        pod(space.name, annotations=MIRROR, node="somewhere"),
        *(pod(space.name, labels=labels) for labels in ours),
        pod(NAMESPACE, labels={"app.kubernetes.io/component": "recommender"}),
    ):
        admin.create(item, dry_run=True)
        numbers.append(webhook.settled(PODS))

    assert [after - before for before, after in pairwise(numbers)] == [0, 0, 0, 1, 1, 1]


def test_stop(admin: Api, webhook: Webhook) -> None:
    """Asked to end it does so soon and well; what it registered stays for the next one."""
    assert webhook.stop(30) == 0
    assert len(configurations(admin)) == 2


def test_registered_by_hand(
    cluster: Cluster,
    logs: Logs,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    webhook: Webhook,
) -> None:
    """What `plumbline manifests webhooks` prints, applied as it is, is called."""
    webhook.stop()
    clean(cluster.admin)
    flags = ("--register-webhook=false",)
    unregistered = Webhook(cluster, tmp_path, flags, name="unregistered")
    request.addfinalizer(unregistered.close)
    unregistered.start(logs)
    stored = cluster.admin.get(SECRETS, NAMESPACE, SECRET)["data"]
    (tmp_path / "ca.pem").write_bytes(base64.b64decode(stored["caCert.pem"]))
    assert not refusal_of_nonsense(cluster.admin)
    host, _, port = unregistered.address.rpartition(":")
    words = (
        "webhooks",
        "--register-by-url",
        f"--webhook-address={host}",
        f"--webhook-port={port}",
        f"--client-ca-file={tmp_path}/ca.pem",
    )
    for item in webhooks_report(parse(ManifestsSettings, words, {})).items:
        cluster.admin.apply(item)
    unregistered.wait_until_called()


def test_nobody_there(webhook: Webhook, space: Space) -> None:
    """While no webhook runs, pods and VPAs are created as they are."""
    webhook.stop()
    made = space.create(pod(space.name))

    assert "vpaObservedContainers" not in made["metadata"].get("annotations", {})
    assert "updatePolicy" not in space.vpa()["spec"]
