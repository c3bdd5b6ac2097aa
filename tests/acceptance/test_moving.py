"""There and back: upstream's recommender and ours go on with each other's history.

Strategy: upstream's own program, built from its Go module, learns first, with ours beside it under
another name. Then ours takes its place, and then upstream's that of ours. The load stays the same,
so that whoever forgot something would show by its bounds: those of a new history are far apart.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from app.model.fields import Json
from app.model.quantity import Quantity
from app.ports import CHECKPOINTS
from bench.upstream import folder as upstream
from tests.acceptance.cluster import Cluster
from tests.acceptance.logs import Logs
from tests.acceptance.space import APP, Box, Space, workload
from tests.acceptance.stage import LOAD
from tests.acceptance.worker import Start
from tests.cluster.given import has_our_nodes
from tests.cluster.programs import Program, eventually, free_port

LASTING: Final = ("firstSampleStart", "version")
SECONDS: Final = 180.0
LITTLE: Final = 3  # the bounds of a new history are millions of times as far


class Learned:
    """What a VPA says, and what its checkpoint holds."""

    def __init__(self, space: Space, name: str = "vpa") -> None:
        self.box = space.recommended(name).get(APP, {})
        found = space.admin.find(CHECKPOINTS, space.name, f"{name}-{APP}") or {}
        self.history: Json = found.get("status") or {}

    @property
    def samples(self) -> int:
        """How many there were; 0 before anything is recommended."""
        return int(self.history.get("totalSamplesCount", 0)) if self.box else 0

    @property
    def most_cpu(self) -> int:
        """The upper bound, which comes down as time goes by."""
        return Quantity.read(self.box["upperBound"]["cpu"]).nano


@contextmanager
def theirs(cluster: Cluster, space: Space, folder: Path, logs: Logs, name: str) -> Iterator[None]:
    """Let upstream's recommender work."""
    kubeconfig = cluster.access.kubeconfig(folder / f"{name}.kubeconfig", cluster.admin.token)
    command = [
        str(upstream(("recommender",)) / "recommender"),
        f"--kubeconfig={kubeconfig}",
        f"--address=127.0.0.1:{free_port()}",
        f"--vpa-object-namespace={space.name}",
        "--recommender-interval=1s",
    ]
    program = Program(name, command, folder / f"{name}.log", {"PATH": os.environ.get("PATH", "")})
    logs.add(name, program.log)
    program.start()
    try:
        yield
    finally:
        program.stop()


@contextmanager
def ours(start: Start, space: Space, name: str, *flags: str) -> Iterator[None]:
    """Let our recommender work; it puts down what it learned before it ends."""
    scope = f"--vpa-object-namespace={space.name}"
    worker = start("recommender", scope, *flags, name=name)
    yield
    assert worker.stop() == 0


def goes_on(space: Space, before: Learned) -> None:
    """See that more becomes known than before, and that not for a moment all is forgotten."""
    seen: list[int] = []

    def look() -> bool:
        seen.append(Learned(space).most_cpu)
        return seen[-1] < before.most_cpu

    eventually(look, "the bounds come closer", seconds=SECONDS, every=0.5)
    assert max(seen) < LITTLE * before.most_cpu


@pytest.mark.skipif(shutil.which("go") is None, reason="upstream's recommender is built with Go")
def test_there_and_back(
    cluster: Cluster, start: Start, space: Space, tmp_path: Path, logs: Logs
) -> None:
    """Each goes on where the other stopped, and beside each other they recommend the same."""
    if not has_our_nodes(cluster.admin):
        pytest.skip("the nodes of this cluster are not ours, so usage cannot be arranged")
    item = workload("Deployment", [Box(requests="100m/100Mi")])
    load = {LOAD: "cpu: constant 400m, memory: constant 200Mi"}
    item["spec"]["template"]["metadata"]["annotations"] = load
    space.create(item)
    space.vpa(updatePolicy={"updateMode": "Off"})
    space.vpa("beside", updatePolicy={"updateMode": "Off"}, recommenders=[{"name": "plumbline"}])

    with (
        theirs(cluster, space, tmp_path, logs, "upstream"),
        ours(start, space, "beside", "--recommender-name=plumbline"),
    ):
        eventually(lambda: Learned(space).samples > 2, "upstream's learns", seconds=SECONDS)
        beside = eventually(lambda: Learned(space, "beside").box, "it recommends beside upstream's")
    first = Learned(space)
    assert beside["target"] == first.box["target"]

    with ours(start, space, "ours"):
        goes_on(space, first)
    second = Learned(space)

    with theirs(cluster, space, tmp_path, logs, "upstream again"):
        goes_on(space, second)
        known = second.samples
        eventually(lambda: Learned(space).samples > known, "it puts down what it learns")
    third = Learned(space)

    assert first.samples < second.samples < third.samples
    for found in (second, third):
        assert found.box["target"] == first.box["target"]
        assert all(found.history[name] == first.history[name] for name in LASTING)
