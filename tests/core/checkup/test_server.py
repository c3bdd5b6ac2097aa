"""What is found about the API server."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.core.checkup.facts import Facts
from app.core.checkup.findings import Level, Unasked
from app.core.checkup.server import of_clock, of_server
from tests import make
from tests.core.checkup.healthy import FACTS, flaws

RESOURCES = frozenset({"pods", "pods/eviction", "pods/resize"})


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        pytest.param(FACTS, [], id="as it should be"),
        pytest.param(
            replace(FACTS, version=Unasked("refused")),
            [(Level.UNKNOWN, "could not be looked at: refused")],
            id="no version",
        ),
        pytest.param(
            replace(FACTS, version="v1.27.9"),
            [(Level.SERIOUS, "version v1.27.9 is too old: the webhook needs 1.30 or newer")],
            id="too old",
        ),
        pytest.param(
            replace(FACTS, version="v1.32.0-gke.1"),
            [
                (
                    Level.NOTE,
                    "version v1.32.0-gke.1 resizes no running pods; that needs 1.33 or newer",
                )
            ],
            id="old",
        ),
        pytest.param(
            replace(FACTS, version="main"),
            [(Level.WARNING, 'nobody knows what version "main" can do')],
            id="a strange version",
        ),
        pytest.param(
            replace(FACTS, core_resources=Unasked("refused")),
            [(Level.UNKNOWN, "could not be looked at: refused")],
            id="no discovery",
        ),
        pytest.param(
            replace(FACTS, core_resources=RESOURCES - {"pods/eviction"}),
            [(Level.SERIOUS, "it knows no evictions")],
            id="no evictions",
        ),
    ],
)
def test_versions_and_features(facts: Facts, found: list[tuple[Level, str]]) -> None:
    """What a server is too old for is told, and how serious that is."""
    assert flaws(list(of_server(facts))) == found


def test_resizes_that_are_switched_off() -> None:
    """A server without resizes is named with the gate that brings them."""
    (finding,) = list(of_server(replace(FACTS, core_resources=RESOURCES - {"pods/resize"})))[1:]
    assert (finding.level, "InPlacePodVerticalScaling" in finding.fix) == (Level.WARNING, True)


@pytest.mark.parametrize(
    ("seconds", "level", "word"),
    [
        (0, Level.FINE, "agree"),
        (4, Level.FINE, "agree"),
        (8, Level.WARNING, "8s ahead of ours"),
        (-8, Level.WARNING, "8s behind ours"),
        (45, Level.SERIOUS, "45s ahead of ours"),
    ],
)
def test_clocks(seconds: int, level: Level, word: str) -> None:
    """Clocks that differ are told before Leases are judged by them."""
    server_time = make.NOW + timedelta(seconds=seconds)
    (finding,) = of_clock(replace(FACTS, server_time=server_time))
    assert finding.level is level
    assert word in finding.message


def test_a_clock_that_nobody_knows() -> None:
    """Without the right to try, the server's time is not known."""
    (finding,) = of_clock(replace(FACTS, server_time=Unasked("refused")))
    assert finding.level is Level.UNKNOWN
