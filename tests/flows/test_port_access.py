"""The ports of recommender and updater, from a client's side: TLS, and who is told of workloads."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from app.admission.certificates import issue
from app.diagnosis.pod_preview import PodPreviewer
from app.flags.command_line import parse
from app.kube.manifests import documents
from app.recommender import process as recommender
from app.recommender.flags import RecommenderSettings
from app.run.simulated import SimulatedRuntime
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from app.updater import process as updater
from app.updater.flags import UpdaterSettings
from tests.cluster.programs import free_port
from tests.waiting import eventually

CERTIFICATES = issue(("localhost",), datetime(2020, 1, 1, tzinfo=UTC), 20_000)
OPEN = ("/livez", "/metrics", "/openapi.json")
GUARDED = {
    "recommender": ("/v1/recommendations", "/metrics/recommendations"),
    "updater": ("/v1/decisions", "/v1/decisions?namespace=default"),
}
Running = recommender.Process | updater.Process


def recommending(flags: list[str], runtime: SimulatedRuntime) -> Running:
    """Return a recommender."""
    return recommender.Process(parse(RecommenderSettings, flags, {}), runtime, PodPreviewer)


def updating(flags: list[str], runtime: SimulatedRuntime) -> Running:
    """Return an updater."""
    return updater.Process(parse(UpdaterSettings, flags, {}), runtime)


PROCESSES: dict[str, Callable[[list[str], SimulatedRuntime], Running]] = {
    "recommender": recommending,
    "updater": updating,
}


@pytest.fixture(params=PROCESSES)
def name(request: pytest.FixtureRequest) -> str:
    """One of both."""
    found: str = request.param
    return found


@pytest.fixture
def port(name: str, tmp_path: Path) -> Iterator[int]:
    """A process that serves TLS, at an address that it does not take for loopback."""
    files = {"--tls-cert-file": CERTIFICATES.cert_pem, "--tls-private-key": CERTIFICATES.key_pem}
    port = free_port()
    flags = [f"--address=127.1:{port}"]
    for flag, text in files.items():
        path = tmp_path / flag.strip("-")
        path.write_text(text)
        flags.append(f"{flag}={path}")
    sandbox = Sandbox(SteppedClock())
    assert sandbox.apply(*documents.objects("crd")) == []
    process = PROCESSES[name](flags, SimulatedRuntime(sandbox))
    process.start()
    yield port
    process.stop()


def test_tls_and_tokens(name: str, port: int) -> None:
    """With a certificate the port talks TLS alone; what names workloads asks for a token."""
    trusted = ssl.create_default_context(cadata=CERTIFICATES.ca_pem)
    with httpx.Client(base_url=f"https://localhost:{port}", verify=trusted) as client:

        def status(path: str) -> int:
            try:
                return client.get(path).status_code
            except httpx.ConnectError:
                return 0

        assert eventually(lambda: status("/livez") == 200)
        assert [status(path) for path in OPEN] == [200, 200, 200 if name == "recommender" else 404]
        assert [status(path) for path in GUARDED[name]] == [401, 401]
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"http://localhost:{port}/livez")
