"""What was used in the cluster in memory becomes a recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.backtest.recording import load_recording
from app.model.errors import BadSetting
from app.ports import DEPLOYMENTS, Ref
from app.run.run_history import RunHistory
from app.run.simulated import SimulatedRuntime
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from tests.sandbox.worlds import container, deployment

MI = 2**20


def test_a_run_is_recorded(tmp_path: Path) -> None:
    """Usage, requests, owners and restarts of the cluster stand in the file."""
    sandbox = Sandbox(SteppedClock())
    history = RunHistory(SimulatedRuntime(sandbox), sandbox.cluster)
    item = deployment(
        "web",
        container(requests={"cpu": "1", "memory": "1Gi"}, limits={}),
        load="cpu: constant 300m, memory: constant 200Mi",
    )
    with history.kept(tmp_path / "run.npz"):
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
    history = RunHistory(SimulatedRuntime(sandbox), sandbox.cluster)
    with (
        pytest.raises(BadSetting, match="--record: there is no folder for"),
        history.kept(tmp_path / "none" / "run.npz"),
    ):
        pytest.fail("it must not begin")
    with (
        pytest.raises(BadSetting, match="--record: there is no usage"),
        history.kept(tmp_path / "x"),
    ):
        sandbox.advance(60)
