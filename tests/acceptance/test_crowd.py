"""A large cluster lives for some minutes; only with `--crowd-minutes`, for it takes the machine."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
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
from tests.acceptance.rows import FIGURE
from tests.acceptance.space import Box, Space, new_space, workload
from tests.acceptance.webhook import Webhook
from tests.acceptance.worker import Start
from tests.cluster.nodes import MANY, placed
from tests.cluster.programs import Program, eventually

FLAGS = ("--feature-gates=AllAlpha=true",)
WORKERS = {
    verb: (f"--{verb}-interval=1m", "--kube-api-qps=200", "--kube-api-burst=400", *FLAGS)
    for verb in ("recommender", "updater")
}
SPACES = 100
HANDS = 8
PATIENCE_SECONDS = 1800.0  # for 5,000 pods on a machine that has much else to do
BOX = Box(requests="10m/10Mi")
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
    spaces = tuple(Space(cluster.admin, f"crowd-{token_hex(3)}") for _ in range(SPACES))
    yield Crowd(vpas, sum(map(_replicas, range(vpas))), spaces)
    for space in spaces:
        cluster.admin.delete(NAMESPACES, "", space.name)


def _replicas(number: int) -> int:
    """Return how many pods a VPA has: two or three."""
    return 2 + number % 2


@pytest.fixture
def nodes(cluster: Cluster, logs: Logs, minutes: float) -> tuple[str, ...]:
    """For whom nodes are kept that take the crowd; nobody, if they are somebody else's."""
    assert minutes
    if cluster.plane is None:
        return ("",)
    for program in cluster.plane.nodes.add(cluster.admin, MANY):
        logs.add(program.name, program.log)
    return tuple(size.kept_for for size in MANY)


@pytest.fixture
def spaces(crowd: Crowd, nodes: tuple[str, ...], note: Note) -> tuple[Space, ...]:
    """The namespaces, all pods running."""
    began = time.monotonic()
    with ThreadPoolExecutor(HANDS) as pool:
        list(pool.map(lambda space: new_space(space.admin, space.name), crowd.spaces))
        # VPAs first: each is reviewed beside those it has in its namespace, which takes quiet.
        list(pool.map(partial(_write_vpa, crowd), range(crowd.vpas)))
        list(pool.map(partial(_write_pods, crowd, nodes), range(crowd.vpas)))
    written = time.monotonic()

    def all_run() -> bool:
        run = sum(map(_running, crowd.spaces))
        sys.stderr.write(f"{run} of {crowd.pods} pods run\n")
        assert run == crowd.pods, f"{run} do"
        return True

    eventually(all_run, f"{crowd.pods} pods run", seconds=PATIENCE_SECONDS, every=10)
    note(
        f"all objects were written after {written - began:.0f} s, "
        f"all pods were running after {time.monotonic() - began:.0f} s"
    )
    return crowd.spaces


def _write_vpa(crowd: Crowd, number: int) -> None:
    name = f"app-{number}"
    policy = {"updateMode": "InPlaceOrRecreate"}
    crowd.spaces[number % SPACES].vpa(name, target=name, updatePolicy=policy)


def _write_pods(crowd: Crowd, nodes: Sequence[str], number: int) -> None:
    name, whom = f"app-{number}", nodes[number // 2 % len(nodes)]
    item = workload("Deployment", [BOX], replicas=_replicas(number), name=name, app=name)
    pod = item["spec"]["template"]
    # A token is a volume and more requests for each pod, and no business of a VPA.
    pod["spec"]["automountServiceAccountToken"] = False
    if whom:
        placed(pod, whom)
    crowd.spaces[number % SPACES].create(item)


def _running(space: Space) -> int:
    found = space.admin.list(PODS, space.name)
    return sum(pod["status"]["phase"] == "Running" for pod in found)


def _recommended(space: Space) -> int:
    found = space.admin.list(VPAS, space.name)
    return sum("recommendation" in (vpa.get("status") or {}) for vpa in found)


def test_crowd(
    cluster: Cluster,
    minutes: float,
    webhook: Webhook,
    crowd: Crowd,
    spaces: tuple[Space, ...],
    note: Note,
    start: Start,
) -> None:
    """All VPAs have a recommendation, pods follow, and no process has an error to tell."""
    failures = webhook_failures(cluster.admin)
    earlier = len(_errors(webhook.program))  # of a machine that had thousands to write at once
    note(f"webhook while they were written: {earlier} errors, {failures:.0f} failed calls")
    began = time.monotonic()
    workers = {verb: start(verb, *flags) for verb, flags in WORKERS.items()}
    eventually(
        lambda: sum(map(_recommended, spaces)) == crowd.vpas,
        "all are recommended for",
        seconds=PATIENCE_SECONDS,
        every=10,
    )
    note(f"all VPAs had a recommendation after {time.monotonic() - began:.0f} s")
    end = max(time.monotonic(), began + minutes * 60)
    eventually(lambda: time.monotonic() > end, "time", seconds=minutes * 60 + 5, every=1)
    resized = workers["updater"].number(RESIZED)
    note(f"{resized:.0f} resizes in place in {(time.monotonic() - began) / 60:.1f} minutes")
    for verb, worker in workers.items():
        note(f"{verb}, {worker.rounds():.0f} rounds: {_usage(worker.program.pid)}")
        assert worker.rounds() > 1
        assert _errors(worker.program) == []
    for worker in workers.values():
        worker.program.kill()
    note(f"webhook: {_usage(webhook.program.pid, *webhook.workers())}")
    assert resized > 0
    assert _errors(webhook.program)[earlier:] == []
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
    return f"{seconds:.0f} s of CPU, {peak // 1024} MiB at most"
