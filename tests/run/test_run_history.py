"""What was used in the cluster in memory becomes a recording."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from app.backtest.recording_file import load_recording
from app.model.errors import BadSetting
from app.ports import DEPLOYMENTS, Ref
from app.run.run_history import KEPT, RunHistory
from app.run.simulated import SimulatedRuntime
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from tests.sandbox.worlds import container, deployment

MI = 2**20


def test_a_run_is_recorded(tmp_path: Path) -> None:
    """Usage, requests, owners and restarts of the cluster stand in the file."""
    sandbox = Sandbox(SteppedClock())
    history = RunHistory(SimulatedRuntime(sandbox), sandbox.cluster, tmp_path / "run.npz")
    item = deployment(
        "web",
        container(requests={"cpu": "1", "memory": "1Gi"}, limits={}),
        load="cpu: constant 300m, memory: constant 200Mi",
    )
    with history.watching():
        sandbox.apply(item)
        sandbox.advance(1800)
        sandbox.cluster.delete(Ref(DEPLOYMENTS, "default", "web"))
        sandbox.advance(600)
    found = load_recording(tmp_path / "run.npz")

    (row,) = found.rows
    assert (row.namespace, row.owner_kind, row.owner_name) == ("default", "Deployment", "web")
    assert found.step == 300
    np.testing.assert_allclose(found.cpu[0, 1:-1], 0.3, rtol=0.2)
    np.testing.assert_allclose(found.memory[0, 1:-1], 200 * MI, rtol=0.2)
    np.testing.assert_allclose(found.cpu_request[0, 1:-1], 1.0)
    assert not found.restarts[0, 1:-1].any()


def test_places_that_cannot_be(tmp_path: Path) -> None:
    """A folder that does not exist is told before the run, an empty run after it."""
    sandbox = Sandbox(SteppedClock())
    runtime = SimulatedRuntime(sandbox)
    with pytest.raises(BadSetting, match="--record: there is no folder for"):
        RunHistory(runtime, sandbox.cluster, tmp_path / "none" / "run.npz")
    history = RunHistory(runtime, sandbox.cluster, tmp_path / "x")
    with pytest.raises(BadSetting, match="--record: there is no usage"), history.watching():
        sandbox.advance(60)


def test_a_week_is_kept() -> None:
    """Without a file older usage, and pods that are gone since, are forgotten; kills as well."""
    sandbox = Sandbox(SteppedClock())
    history = RunHistory(SimulatedRuntime(sandbox), sandbox.cluster)
    app = container(requests={"memory": "100Mi"}, limits={"memory": "200Mi"})
    sandbox.apply(
        deployment("leak", app, load="cpu: constant 1m, memory: leaking 60Mi 600Mi, noise: 0"),
        deployment("short", app, load="cpu: constant 1m, memory: constant 10Mi"),
    )
    with history.watching():
        sandbox.advance(7200)
        sandbox.cluster.delete(Ref(DEPLOYMENTS, "default", "short"))
        sandbox.advance(3600)
        before = history.recording()
        sandbox.advance(KEPT.total_seconds())
        after = history.recording()

    assert sorted(row.owner_name for row in before.rows) == ["leak", "short"]
    assert [row.owner_name for row in after.rows] == ["leak"]
    assert after.start > before.start
    lasts = timedelta(seconds=after.end - after.start)
    assert KEPT <= lasts < KEPT + timedelta(hours=2)
    assert set(after.memory_request[0, 1:-1].tolist()) == {100 * MI}
    assert np.nansum(after.oom_kills) > 100
