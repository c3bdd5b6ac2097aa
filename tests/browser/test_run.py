"""`plumbline run` as one types it: its first line leads to pages that a browser is content with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.browser.driver import Browser
from tests.browser.looks import origin, walk
from tests.cluster.programs import Program

_ROOT: Final = Path(__file__).parents[2]
_PORTS: Final = ("port", "admission-port", "recommender-port", "updater-port", "page-port")
_FIRST: Final = "Page: "
KINDS: Final = {"", "feed", "installation", "docs", "vpas", "pods"}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Program]:
    """Let it run, at a pace at which pods stay while one looks at them."""
    words = ["run", "--speed=1", *(f"--{name}=0" for name in _PORTS)]
    environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_ROOT)}
    command = [sys.executable, "-m", "app", *words]
    program = Program("run", command, tmp_path / "run.log", environment)
    program.start()
    yield program
    program.stop(30)


def first_line(program: Program) -> str:
    """Return the first line that is printed, whole."""
    line, end, _ = program.log.read_text("utf-8").partition("\n")
    return line if end else ""


def kind(path: str) -> str:
    """Return the kind of a page."""
    words = path.strip("/").split("/")
    return words[2] if words[0] == "namespaces" else words[0]


def has_pods(answer: httpx.Response) -> bool:
    """Whether the page has read the cluster, which takes it a moment."""
    return answer.is_success and bool(answer.json()["sums"]["pods"])


def test_the_first_line_leads_to_all_pages(browser: Browser, run: Program) -> None:
    """Each link is followed: no complaint of the browser, nothing from another origin."""
    run.wait_until(lambda: bool(first_line(run)))
    line = first_line(run)
    assert line.startswith(_FIRST)
    url = line.removeprefix(_FIRST).rstrip("/")
    run.wait_until(lambda: has_pods(httpx.get(f"{url}/fleet.json")))

    places = walk(browser, url)

    assert {kind(httpx.URL(place).path) for place in places} >= KINDS
    browser.listen()
    assert browser.complaints == []
    assert {origin(one.url) for one in browser.requests} == {url}
