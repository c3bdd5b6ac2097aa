"""The page inside `plumbline run` is told what the run was told."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from app.flags.command_line import parse
from app.model.errors import BadSetting
from app.page.access import LinkAccess, LoginNeeded, Visit
from app.run.embedded_page import embedded_page
from app.run.flags import RunSettings
from app.run.simulated import SimulatedRuntime
from app.runtime.access import Caller
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock


def test_a_recording_is_handed_on(tmp_path: Path) -> None:
    """The page reads the recording that the run names, and says what is wrong with it."""
    path = tmp_path / "demo.npz"
    settings = parse(RunSettings, [f"--recording={path}", "--page-port=0"], {})
    runtime = SimulatedRuntime(Sandbox(SteppedClock()))
    with pytest.raises(BadSetting, match=r"demo\.npz: cannot be read"):
        embedded_page(settings, runtime, tmp_path)


def test_a_run_that_others_can_reach_is_entered_by_its_link(tmp_path: Path) -> None:
    """Its cluster knows no tokens; the link lets in one browser, whatever the host is called."""
    settings = parse(RunSettings, ["--host=0.0.0.0", "--page-port=0"], {})
    page = embedded_page(settings, SimulatedRuntime(Sandbox(SteppedClock())), tmp_path)
    try:
        access = page.access
        assert isinstance(access, LinkAccess)
        assert re.fullmatch(r"https://localhost:\d+/enter/\S+", page.url)
        visit = Visit(Caller(""), "demo.example.com", "")
        with pytest.raises(LoginNeeded):
            access.viewer(visit)
        session, _ = access.begin(visit, access.token)
        assert access.viewer(replace(visit, session=session)).may_see("default")
        with pytest.raises(LoginNeeded):
            access.begin(visit, access.token)
        assert access.cookie.name.startswith("__Host-")
        assert "Secure" in access.cookie.text(session, 1)
    finally:
        page.start()
        page.stop()
