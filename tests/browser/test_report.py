"""The report opens from a disk: all in one file, which asks for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.flags.command_line import parse
from app.page.flags import ReportSettings
from app.page.report import write_report
from app.runtime.clock import SystemClock
from tests.browser.driver import Browser
from tests.browser.looks import faint, wide
from tests.browser.stage import Pages


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, served: dict[str, Pages]) -> Path:
    """Write one of what was recorded."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    words = [f"--output={path}", *served["recorded"].words]
    write_report(parse(ReportSettings, words, {}), SystemClock())
    return path


def test_report(browser: Browser, report: Path) -> None:
    """Every workload has its charts and its readout; nothing is asked for but the file."""
    for width in (400, 1280):
        browser.look(width)
        browser.open(report.as_uri())
        assert (wide(browser), faint(browser)) == ([], [])
    assert browser.count("section.page figure path.median") >= 20

    now = browser.text("figure .at")
    browser.point("figure svg.plot", 0.9)
    assert browser.text("figure .at") != now

    browser.click("#fleet tbody th a")
    assert browser.run("return document.querySelector(location.hash).matches('section.page')")
    browser.listen()
    assert {one.url.partition("#")[0] for one in browser.requests} == {report.as_uri()}
