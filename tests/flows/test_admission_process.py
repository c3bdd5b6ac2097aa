"""The admission process as it is started, on objects from files."""

from __future__ import annotations

import os
import re
import signal
import ssl
import threading
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import httpx
import orjson
import pytest

from app.admission.certificate_stores import made_in
from app.admission.responses import decoded
from app.runtime.clock import SystemClock
from tests import make
from tests.flows.webhook_process import JSON, Webhook, started
from tests.waiting import eventually


@contextmanager
def running(folder: Path, *flags: str) -> Iterator[Webhook]:
    """Start the process, and wait until it is ready."""
    objects = folder / "objects.jsonl"
    found = [make.vpa_json(cpu="250m", memory="200Mi"), make.workload_json()]
    objects.write_bytes(b"\n".join(orjson.dumps(item) for item in found))
    with started(folder, f"--objects={objects}", f"--certs-dir={folder}/certs", *flags) as webhook:
        assert eventually(webhook.is_ready), webhook.log.read_text()
        yield webhook


SHAPES = (
    pytest.param((), id="one process"),
    pytest.param(("--workers=2",), id="two workers"),
)


@pytest.fixture(scope="module", params=SHAPES)
def webhook(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Webhook]:
    """A process that answers by itself, and one with two workers."""
    with running(tmp_path_factory.mktemp("webhook"), *request.param) as found:
        yield found


def review() -> bytes:
    """Return a review of a pod that the VPA controls."""
    return orjson.dumps(make.review_json(make.pod_json(cpu="100m", memory="100Mi")))


DRAIN_SECONDS = 5.0  # for which clients are sent elsewhere


def test_pod_is_patched_over_tls(webhook: Webhook) -> None:
    """A pod gets its recommendation from a process that files describe the cluster to."""
    with webhook.client() as client:
        answer = client.post("/mutate", content=review(), headers=JSON).json()

    patch = orjson.loads(b64decode(answer["response"]["patch"]))
    values = {operation["path"]: operation["value"] for operation in patch}
    assert values["/spec/containers/0/resources/requests/cpu"] == "250m"


def test_a_pod_is_explained_over_tls(webhook: Webhook) -> None:
    """Whichever process answers explains what it would do; nothing of that is counted."""
    with webhook.client() as client:
        mutated, explained = (
            client.post(path, content=review(), headers=JSON).json()
            for path in ("/mutate", "/explain")
        )

    assert explained["response"] == decoded(mutated)["response"]
    (container,) = explained["explanation"]["containers"]
    assert container["cpu"]["recommended"] == container["cpu"]["gets"]["request"] == "250m"


def skipped_pods(webhook: Webhook) -> float:
    """Return how many updates of pods were counted."""
    found = re.search(
        r'skipped_pods_total\{reason="NotACreation"\} (\S+)', webhook.said("/metrics")
    )
    return float(found[1]) if found else 0.0


def send_updates(webhook: Webhook) -> None:
    """Send 20 updates of pods, on a new connection each, so that all workers get some."""
    update = orjson.dumps(make.review_json(make.pod_json(), operation="UPDATE"))
    for _ in range(20):
        with webhook.client() as client:
            client.post("/mutate", content=update, headers=JSON).raise_for_status()


def test_metrics_add_up(webhook: Webhook) -> None:
    """A scrape counts what was answered, by whichever process."""
    send_updates(webhook)

    assert eventually(lambda: skipped_pods(webhook) == 20)


def test_every_process_has_its_metrics_where_they_belong(webhook: Webhook) -> None:
    """One process counts in memory; several share files, which they map."""
    workers = webhook.workers()

    maps = [Path(f"/proc/{pid}/maps").read_text() for pid in (webhook.process.pid, *workers)]
    assert [".db" in found for found in maps] == [bool(workers)] * (1 + len(workers))
    text = httpx.get(f"{webhook.health}/metrics").text
    for name in (
        "plumbline_build_info",
        "plumbline_certificate_expiry_timestamp_seconds",
        "process_resident_memory_bytes",
        'failed_open_pods_total{reason="InternalError"}',
    ):
        assert name in text


def test_reviews_are_described_on_the_second_port(webhook: Webhook) -> None:
    """The port that is called by API servers has no pages; the other one describes it."""
    found = httpx.get(f"{webhook.health}/openapi.json").json()
    assert found["paths"].keys() == {"/mutate", "/validate", "/explain"}
    assert "swagger" in httpx.get(f"{webhook.health}/docs").text
    with webhook.client() as client:
        assert client.get("/openapi.json").status_code == 404


def served_certificate(webhook: Webhook) -> str:
    """Return the certificate that a new connection meets."""
    port = int(webhook.url.rpartition(":")[2])
    return ssl.get_server_certificate(("localhost", port))


def test_a_new_certificate_is_served(tmp_path: Path, webhook: Webhook) -> None:
    """Files that change are served to new connections, and old connections go on."""
    folder = webhook.log.parent / "certs"
    made_in(tmp_path, ("localhost",), SystemClock().now(), 30)
    with webhook.client() as client:
        client.post("/mutate", content=review(), headers=JSON).raise_for_status()
        for name in ("serverKey.pem", "serverCert.pem", "caCert.pem"):
            (tmp_path / name).replace(folder / name)
        wanted = (folder / "serverCert.pem").read_text()

        assert eventually(lambda: served_certificate(webhook) == wanted, 30)
        client.post("/mutate", content=review(), headers=JSON).raise_for_status()
    webhook.context.load_verify_locations(folder / "caCert.pem")


def counted_in(webhook: Webhook) -> set[str]:
    """Return the files in which the workers count."""
    maps = [Path(f"/proc/{pid}/maps").read_text() for pid in webhook.workers()]
    return {path for text in maps for path in re.findall(r"\S+/counter_\S+\.db", text)}


def test_killed_worker_comes_back(tmp_path: Path) -> None:
    """A worker that dies is missed by readiness and started again, and goes on counting."""
    with running(tmp_path, "--workers=2") as webhook:
        send_updates(webhook)
        assert eventually(lambda: skipped_pods(webhook) == 20)
        files, before = counted_in(webhook), webhook.workers()
        os.kill(before[0], signal.SIGKILL)

        assert eventually(lambda: not webhook.is_ready())
        assert eventually(webhook.is_ready)
        after = webhook.workers()
        send_updates(webhook)
        assert eventually(lambda: skipped_pods(webhook) == 40)
        assert counted_in(webhook) == files
    assert len(after) == len(before) == 2
    assert before[0] not in after


def ask_until_nobody_listens(webhook: Webhook, answered: threading.Event) -> str:
    """Ask again and again on one connection; return what went wrong before it was closed."""
    with webhook.client() as client:
        while True:
            try:
                client.post("/mutate", content=review(), headers=JSON).raise_for_status()
            except (httpx.ConnectError, httpx.RemoteProtocolError):
                return ""  # refused, or closed between two reviews
            except httpx.HTTPError as error:
                return repr(error)
            answered.set()


@pytest.mark.parametrize("flags", SHAPES)
def test_sigterm_ends_all_without_breaking_open_reviews(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """Reviews that are on their way when the process is told to end are answered."""
    answered = threading.Event()
    with running(tmp_path, *flags) as webhook, ThreadPoolExecutor() as pool:
        asking = pool.submit(ask_until_nobody_listens, webhook, answered)
        assert answered.wait(10)
        workers = webhook.workers()
        webhook.process.terminate()
        assert eventually(lambda: not webhook.is_ready())
        with webhook.client() as client:  # who has not heard of it yet is answered
            answer = client.post("/mutate", content=review(), headers=JSON)
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert webhook.process.wait(20) == 0

        assert asking.result(20) == ""
    assert len(workers) == (2 if flags else 0)
    assert all(not Path(f"/proc/{pid}").exists() for pid in workers)


@pytest.mark.parametrize("flags", SHAPES)
def test_a_second_signal_does_not_wait_for_clients(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Told twice to end, the process ends at once."""
    with running(tmp_path, *flags) as webhook:
        began = monotonic()
        webhook.process.send_signal(signal.SIGINT)
        assert eventually(lambda: "stopping" in webhook.log.read_text())
        webhook.process.send_signal(signal.SIGINT)
        assert webhook.process.wait(20) == 0
        assert monotonic() - began < DRAIN_SECONDS
