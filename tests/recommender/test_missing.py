"""Whoever waits for a recommendation in vain is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.model.vpa import ContainerRecommendation, Vpa, read_vpa
from app.recommender.report import UnrecommendedVpas
from app.sandbox.clock import SteppedClock


def vpa(name: str) -> Vpa:
    """Return a VPA without recommendation."""
    return read_vpa({"metadata": {"namespace": "default", "name": name}, "spec": {}})


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[int, list[str]]]:
    """Return what was told since the last look, line by line."""
    found = [(line.__dict__["count"], line.__dict__["vpas"]) for line in caplog.records]
    caplog.clear()
    return found


def test_who_has_none_for_long_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """After more than half an hour, and after another one again; who has one starts anew."""
    caplog.set_level("INFO")
    clock = SteppedClock()
    missing = UnrecommendedVpas(clock)
    a, b = vpa("a"), vpa("b")
    fine = replace(b, recommendation=(ContainerRecommendation("app", {}, {}, {}, {}),))
    rounds = {0: [a, b], 20: [fine, a], 30: [a, b], 31: [b, a], 60: [a, b], 62: [a, b]}
    lines, began = {}, clock.monotonic()
    for minute, seen in rounds.items():
        clock.advance(began + minute * 60 - clock.monotonic())
        missing.look(seen)
        lines[minute] = told(caplog)

    assert lines == {
        0: [],
        20: [],
        30: [],
        31: [(1, ["default/a"])],
        60: [],
        62: [(2, ["default/a", "default/b"])],
    }


def test_a_line_names_few(caplog: pytest.LogCaptureFixture) -> None:
    """However many there are, it is one line, which says how many; who went is forgotten."""
    caplog.set_level("INFO")
    clock = SteppedClock()
    missing = UnrecommendedVpas(clock)
    crowd = [vpa(f"vpa-{number:03}") for number in range(200)]
    for seen in (crowd, crowd[1:]):
        missing.look(seen)
        clock.advance(1801)
    missing.look(crowd)

    ((count, names), *_) = told(caplog)
    assert (count, len(names)) == (199, 10)
    assert "default/vpa-000" not in names
