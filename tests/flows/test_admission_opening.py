"""The webhook's port is open when the cluster is known, and no sooner: also a worker's share."""

from __future__ import annotations

import os
import signal
import socket
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from app.admission.certificate_stores import made_in
from app.ports import LEASES, LIMIT_RANGES, STATEFUL_SETS, VPAS, WORKLOADS
from app.runtime.clock import SystemClock
from tests import make
from tests.cases import cases
from tests.flows.webhook_process import JSON, Webhook, started
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import kubeconfig, write
from tests.waiting import eventually

SIZED = {"requests": "150m", "limits": "300m"}  # of CPU; by the VPA alone 250m and 500m
ASKED_TIMES = 20  # by new connections, which the kernel spreads over the workers


@contextmanager
def beside(api: ApiServer, folder: Path, *flags: str) -> Iterator[Webhook]:
    """Run a webhook with given certificates, which others have registered."""
    made_in(folder / "certs", ("localhost",), SystemClock().now(), 30)
    config = write(folder / "config", kubeconfig(api.url))
    with started(
        folder,
        f"--kubeconfig={config}",
        f"--tls-cert-file={folder}/certs/serverCert.pem",
        f"--tls-private-key={folder}/certs/serverKey.pem",
        f"--client-ca-file={folder}/certs/caCert.pem",
        "--register-webhook=false",
        *flags,
    ) as webhook:
        yield webhook


@pytest.fixture
def api() -> Iterator[ApiServer]:
    """A cluster with a workload, its VPA, and a LimitRange that a pod of it would break."""
    with serving(VPAS, LIMIT_RANGES, LEASES, *WORKLOADS) as found:
        found.store(VPAS, make.vpa_json(cpu="250m", memory="200Mi"))
        found.store(STATEFUL_SETS, make.workload_json())
        found.store(LIMIT_RANGES, make.limit_range_json(most={"cpu": "300m"}))
        yield found


def sizes(webhook: Webhook) -> dict[str, str]:
    """Return which CPU a new pod gets, asked on a connection of its own."""
    pod = make.pod_json(cpu="100m", cpu_limit="200m")
    with webhook.client() as client:
        content = orjson.dumps(make.review_json(pod))
        answer = client.post("/mutate", content=content, headers=JSON).json()["response"]
    found: dict[str, str] = {}
    for operation in orjson.loads(b64decode(answer.get("patch", "W10="))):
        *_, kind, resource = operation["path"].split("/")
        if kind in ("requests", "limits") and resource == "cpu":
            found[kind] = operation["value"]
    return found


def is_open(webhook: Webhook) -> bool:
    """Say whether a connection comes about."""
    port = int(webhook.url.rpartition(":")[2])
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@cases(
    "flags resource",
    {
        "one process, VPAs": ((), "verticalpodautoscalers"),
        "one process, LimitRanges": ((), "limitranges"),
        "one process, owners": ((), "statefulsets"),
        "two workers, LimitRanges": (("--workers=2",), "limitranges"),
    },
)
def test_port_opens_when_the_cluster_is_known(
    tmp_path: Path, api: ApiServer, flags: tuple[str, ...], resource: str
) -> None:
    """A list that is slow keeps the port closed; that is no reason to be started again."""
    with api.holding(resource), beside(api, tmp_path, *flags) as webhook:
        assert eventually(lambda: f"{resource} are not read" in webhook.said("/readyz"))
        assert not is_open(webhook)
        assert webhook.said("/livez") == "OK"
    with beside(api, tmp_path, *flags) as webhook:
        assert eventually(webhook.is_ready), webhook.log.read_text()
        assert sizes(webhook) == SIZED


def test_worker_that_comes_back_answers_when_it_knows(tmp_path: Path, api: ApiServer) -> None:
    """While a new worker still reads the cluster, the other ones answer all there is."""
    with beside(api, tmp_path, "--workers=2") as webhook:
        assert eventually(webhook.is_ready), webhook.log.read_text()
        with api.holding("limitranges"):
            os.kill(webhook.workers()[0], signal.SIGKILL)
            assert eventually(lambda: "limitranges are not read" in webhook.said("/readyz"))
            assert [sizes(webhook) for _ in range(ASKED_TIMES)] == [SIZED] * ASKED_TIMES
        assert eventually(webhook.is_ready)
        assert [sizes(webhook) for _ in range(ASKED_TIMES)] == [SIZED] * ASKED_TIMES


def explained(webhook: Webhook, **headers: str) -> tuple[int, int]:
    """Return the statuses of a question, and of a review beside it."""
    content = orjson.dumps(make.review_json(make.pod_json(cpu="100m")))
    with webhook.client() as client:
        found = [
            client.post(path, content=content, headers=JSON | more).status_code
            for path, more in (("/explain", headers), ("/mutate", {}))
        ]
    return found[0], found[1]


@pytest.mark.parametrize("flags", [(), ("--workers=2",)], ids=["one process", "two workers"])
def test_questions_need_a_token(tmp_path: Path, api: ApiServer, flags: tuple[str, ...]) -> None:
    """Where others reach the port, the API server says who may ask; reviews need nothing."""
    with beside(api, tmp_path, "--host=", *flags) as webhook:
        assert eventually(webhook.is_ready), webhook.log.read_text()
        assert explained(webhook) == (401, 200)
        for user, allowed, questions in (("tom", False, 1), ("jane", True, 2)):
            known = {"authenticated": True, "user": {"username": user}}
            for path, status, times in (
                ("/tokenreviews", known, 1),
                ("/subjectaccessreviews", {"allowed": allowed}, questions),
            ):
                api.fail(path, 201, body={"kind": "Review", "status": status}, times=times)
            answered = explained(webhook, authorization=f"Bearer {user}")
            assert answered == (200 if allowed else 403, 200)


def test_who_has_nothing_to_rotate_is_no_candidate(tmp_path: Path, api: ApiServer) -> None:
    """With given files, registered by others, the Lease of the rotation is left to others."""
    with beside(api, tmp_path) as webhook:
        assert eventually(webhook.is_ready), webhook.log.read_text()
        heartbeat = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        assert eventually(lambda: bool(api.asked(f"{heartbeat}/vpa-admission-controller")))
    assert [one.path for one in api.requests if "rotation" in one.path] == []
