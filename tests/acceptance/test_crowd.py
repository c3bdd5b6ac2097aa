"""A large cluster lives for some minutes; only with `--crowd-minutes`, for it takes the machine."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex

import pytest

from app.ports import NAMESPACES, PODS, VPAS
from tests.acceptance.cluster import Cluster
from tests.acceptance.load import webhook_failures
from tests.acceptance.logs import Logs
from tests.acceptance.results import FIGURE
from tests.acceptance.space import Box, Space, workload
from tests.acceptance.webhook import Webhook
from tests.acceptance.worker import Worker
from tests.cluster.api import Json
from tests.cluster.programs import Program, eventually

FLAGS = ("--feature-gates=AllAlpha=true",)
WORKERS = {
    verb: (f"--{verb}-interval=1m", "--kube-api-qps=200", "--kube-api-burst=400", *FLAGS)
    for verb in ("recommender", "updater")
}
SPACES = 20
PODS_PER_HUNDRED = 250  # VPAs
PATIENCE_SECONDS = 1800.0
RESIZED = "vpa_updater_in_place_updated_pods_total"

Note = Callable[[str], None]


@pytest.fixture
def minutes(request: pytest.FixtureRequest) -> float:
    """How long to watch."""
    found = float(request.config.getoption("--crowd-minutes"))
    if not found:
        pytest.skip("--crowd-minutes tells how long")
    return found


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many there are, and where."""

    vpas: int
    pods: int
    spaces: tuple[Space, ...]


@pytest.fixture
def note(crowd: Crowd, record_property: Callable[[str, object], None]) -> Note:
    """Writes a figure down."""

    def write(text: str) -> None:
        sys.stderr.write(f"{text}\n")
        record_property(FIGURE, f"{crowd.vpas:,} VPAs, {crowd.pods:,} pods: {text}.")

    return write


@pytest.fixture
def crowd(
    cluster: Cluster, minutes: float, webhook: Webhook, request: pytest.FixtureRequest
) -> Iterator[Crowd]:
    """Namespaces for Deployments and their VPAs."""
    assert minutes
    assert webhook.problem() == "OK"
    vpas = int(request.config.getoption("--crowd-vpas"))
    names = [f"crowd-{token_hex(3)}" for _ in range(SPACES)]
    for name in names:
        cluster.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    spaces = tuple(Space(cluster.admin, name) for name in names)
    yield Crowd(vpas, vpas * PODS_PER_HUNDRED // 100, spaces)
    for name in names:
        cluster.admin.delete(NAMESPACES, "", name)


@pytest.fixture
def spaces(crowd: Crowd, note: Note) -> tuple[Space, ...]:
    """The namespaces, all pods running."""
    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(partial(_fill, crowd), crowd.spaces))
    eventually(
        lambda: sum(map(_running, crowd.spaces)) == crowd.pods,
        f"{crowd.pods} pods run",
        seconds=PATIENCE_SECONDS,
        every=10,
    )
    note(f"all written and running after {time.monotonic() - began:.0f} s")
    return crowd.spaces


def _fill(crowd: Crowd, space: Space) -> None:
    each, pods = crowd.vpas // SPACES, crowd.pods // SPACES
    for number in range(each):
        name = f"app-{number}"
        replicas = pods // each + (number < pods % each)
        space.create(
            workload(
                "Deployment", [Box(requests="10m/10Mi")], replicas=replicas, name=name, app=name
            )
        )
        space.vpa(name, target=name, updatePolicy={"updateMode": "InPlaceOrRecreate"})


def _running(space: Space) -> int:
    found = space.admin.list(PODS, space.name)
    return sum(pod["status"]["phase"] == "Running" for pod in found)


def _recommended(space: Space) -> int:
    return sum("recommendation" in (vpa.get("status") or {}) for vpa in _vpas(space))


def _vpas(space: Space) -> list[Json]:
    return list(space.admin.list(VPAS, space.name))


def test_crowd(
    cluster: Cluster,
    logs: Logs,
    tmp_path: Path,
    minutes: float,
    webhook: Webhook,
    crowd: Crowd,
    spaces: tuple[Space, ...],
    note: Note,
) -> None:
    """All VPAs have a recommendation, pods follow, and no process has an error to tell."""
    workers = {
        verb: Worker(verb, cluster.access, cluster.admin, tmp_path, flags)
        for verb, flags in WORKERS.items()
    }
    failures = webhook_failures(cluster.admin)
    began = time.monotonic()
    try:
        for worker in workers.values():
            worker.start(logs)
        eventually(
            lambda: sum(map(_recommended, spaces)) == crowd.vpas,
            "all are recommended for",
            seconds=PATIENCE_SECONDS,
            every=10,
        )
        note(f"all recommended for after {time.monotonic() - began:.0f} s")
        end = max(time.monotonic(), began + minutes * 60)
        eventually(lambda: time.monotonic() > end, "time", seconds=minutes * 60 + 5, every=1)
        resized = workers["updater"].number(RESIZED)
        note(f"{resized:.0f} resizes in place in {(time.monotonic() - began) / 60:.1f} minutes")
        for verb, worker in workers.items():
            note(f"{verb}, {worker.rounds():.0f} rounds: {_usage(worker.program.pid)}")
            assert worker.rounds() > 1
            assert _errors(worker.program) == []
    finally:
        for worker in workers.values():
            worker.program.kill()
    note(f"webhook: {_usage(webhook.program.pid, *webhook.workers())}")
    assert resized > 0
    assert _errors(webhook.program) == []
    assert webhook_failures(cluster.admin) == failures


def _errors(program: Program) -> list[str]:
    said = program.log.read_text("utf-8").splitlines()
    return [line for line in said if '"level":"error"' in line]


def _usage(*pids: int) -> str:
    """Return cpu time and memory of a process, or of one and its children."""
    ticks = peak = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        status = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
        ticks += int(fields[11]) + int(fields[12])
        peak += next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    seconds = ticks / os.sysconf("SC_CLK_TCK")
    return f"{seconds:.0f} s of cpu, {peak // 1024} MiB at the most"
