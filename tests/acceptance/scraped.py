"""A real Prometheus that scrapes our processes as ServiceMonitors say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import httpx
import pytest

from app.model.fields import Json
from app.ports import PODS
from tests.acceptance.installed import SERVICES, Installed
from tests.acceptance.logs import Logs
from tests.acceptance.rights import NAMESPACE
from tests.cluster.programs import Program, free_port


class Prometheus:
    """Answers queries."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=30)

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def is_ready(self) -> bool:
        """Say whether it can be asked."""
        try:
            return self._client.get("/-/ready").is_success
        except httpx.HTTPError:
            return False

    def result(self, query: str) -> list[Json]:
        """Return all series that a query finds now, each with its labels and its value.

        Raises:
            HTTPStatusError: it is no query.
        """
        found = self._client.get("/api/v1/query", params={"query": query}).raise_for_status()
        return list(found.json()["data"]["result"])


@contextmanager
def prometheus(folder: Path, logs: Logs, told: Json) -> Iterator[Prometheus]:
    """Run one that scrapes each second what it is told to."""
    path = which("prometheus")
    if path is None:
        pytest.skip("there is no prometheus here; Debian's package of that name brings it")
    file = folder / "prometheus.json"
    paces = dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), "1s")
    file.write_text(json.dumps({"global": paces, **told}))
    address = f"127.0.0.1:{free_port()}"
    flags = {
        "config.file": file,
        "storage.tsdb.path": folder / "prometheus",
        "web.listen-address": address,
    }
    command = [path, *(f"--{name}={text}" for name, text in flags.items())]
    program = Program("prometheus", command, folder / "prometheus.log", {})
    logs.add(program.name, program.log)
    found = Prometheus(f"http://{address}")
    program.start()
    try:
        program.wait_until(found.is_ready)
        yield found
    finally:
        found.close()
        program.kill()


def jobs(installed: Installed, monitors: Sequence[Json], token: str) -> list[Json]:
    """Return what is to be scraped by monitors, with a token where one is to be sent."""
    return [job for monitor in monitors for job in _jobs(installed, monitor, token)]


def _jobs(installed: Installed, monitor: Json, token: str) -> Iterator[Json]:
    """Yield what the Prometheus operator makes of a monitor: a job for each endpoint.

    Tokens are sent over plain HTTP: the pods are on this machine, and have no certificates.
    """
    chosen = ",".join(
        f"{key}={text}" for key, text in monitor["spec"]["selector"]["matchLabels"].items()
    )
    for number, endpoint in enumerate(monitor["spec"]["endpoints"]):
        yield {
            "job_name": f"{monitor['metadata']['name']}/{number}",
            "metrics_path": endpoint["path"],
            "honor_labels": endpoint["honorLabels"],
            **({"authorization": {"credentials": token}} if "bearerTokenFile" in endpoint else {}),
            "static_configs": [
                {"targets": [f"{pod['status']['podIP']}:{port}"], "labels": _labels(pod)}
                for service in installed.admin.list(SERVICES, NAMESPACE, chosen)
                for port in _ports(service, endpoint["port"])
                for pod in _behind(installed, service)
            ],
        }


def _ports(service: Json, name: str) -> list[int]:
    return [port["port"] for port in service["spec"]["ports"] if port.get("name") == name]


def _behind(installed: Installed, service: Json) -> Sequence[Json]:
    labels = ",".join(f"{key}={text}" for key, text in service["spec"]["selector"].items())
    return installed.admin.list(PODS, NAMESPACE, labels)


def _labels(pod: Json) -> Json:
    """Return the labels that the operator gives to what it reads from a pod."""
    (container,) = pod["spec"]["containers"]
    place = {"namespace": NAMESPACE, "pod": pod["metadata"]["name"]}
    return {**place, "container": container["name"]}
