"""A large cluster lives for some minutes; only with `--crowd-minutes`, for it takes the machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex

import pytest

from app.ports import NAMESPACES, PODS, VPAS
from tests.acceptance.cluster import Cluster
from tests.acceptance.logs import Logs
from tests.acceptance.space import Box, Space, workload
from tests.acceptance.webhook import Webhook
from tests.acceptance.worker import Worker
from tests.cluster.api import Json
from tests.cluster.programs import eventually

FLAGS = ("--feature-gates=AllAlpha=true",)
VPA_COUNT = 2000
POD_COUNT = 5000
SPACES = 20
PATIENCE_SECONDS = 1800.0
FAST = ("--kube-api-qps=200", "--kube-api-burst=400", *FLAGS)


@pytest.fixture
def minutes(request: pytest.FixtureRequest) -> float:
    """How long to watch."""
    found = float(request.config.getoption("--crowd-minutes"))
    if not found:
        pytest.skip("--crowd-minutes tells how long")
    return found


@pytest.fixture
def spaces(cluster: Cluster, minutes: float) -> Iterator[list[Space]]:
    """Namespaces with Deployments and their VPAs, all pods running."""
    del minutes
    names = [f"crowd-{token_hex(3)}" for _ in range(SPACES)]
    found = [Space(cluster.admin, name) for name in names]
    for name in names:
        cluster.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(_fill, found))
        eventually(
            lambda: sum(map(_running, found)) == POD_COUNT,
            f"{POD_COUNT} pods run",
            seconds=PATIENCE_SECONDS,
            every=10,
        )
    yield found
    for name in names:
        cluster.admin.delete(NAMESPACES, "", name)


def _fill(space: Space) -> None:
    each = VPA_COUNT // SPACES
    pods = POD_COUNT // SPACES
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
    spaces: list[Space],
) -> None:
    """All VPAs have a recommendation, pods follow, and no process has an error to tell."""
    began = time.monotonic()
    workers = [
        Worker(verb, cluster.access, cluster.admin, tmp_path, FAST)
        for verb in ("recommender", "updater")
    ]
    try:
        for worker in workers:
            worker.start(logs)
        eventually(
            lambda: sum(map(_recommended, spaces)) == VPA_COUNT,
            "all are recommended for",
            seconds=600,
            every=5,
        )
        recommended = time.monotonic() - began
        before = [worker.rounds() for worker in workers]
        eventually(
            lambda: time.monotonic() - began > minutes * 60, "time", seconds=minutes * 60 + 5
        )
        for worker, rounds in zip(workers, before, strict=True):
            assert worker.rounds() > rounds
            said = worker.program.log.read_text("utf-8").splitlines()
            assert not [line for line in said if '"level":"error"' in line]
            figures = f"{worker.verb}: {worker.rounds():.0f} rounds, {_usage(worker.program.pid)}\n"
            sys.stderr.write(figures)
    finally:
        for worker in workers:
            worker.program.kill()
    sys.stderr.write(f"all recommended after {recommended:.0f} s\n")
    sys.stderr.write(f"webhook: {_usage(webhook.program.pid)}\n")


def _usage(pid: int) -> str:
    """Return cpu time and memory of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
    return f"{(int(fields[11]) + int(fields[12])) / 100:.0f} s of cpu, {int(peak) // 1024} MiB"
