"""The page inside `plumbline run` is told what the run was told."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.flags.command_line import parse
from app.model.errors import BadSetting
from app.run.embedded_page import embedded_page
from app.run.flags import RunSettings
from app.run.simulated import SimulatedRuntime
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock


def test_a_recording_is_handed_on(tmp_path: Path) -> None:
    """The page reads the recording that the run names, and says what is wrong with it."""
    path = tmp_path / "demo.npz"
    settings = parse(RunSettings, [f"--recording={path}", "--page-port=0"], {})
    runtime = SimulatedRuntime(Sandbox(SteppedClock()))
    with pytest.raises(BadSetting, match=r"demo\.npz: cannot be read"):
        embedded_page(settings, runtime, tmp_path)
