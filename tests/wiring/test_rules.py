"""Flags become the rules by which reviews are judged."""

from __future__ import annotations

import pytest

from app.core.admission.overlap import Disjointness
from app.model.gates import Gate
from app.settings.admission import AdmitSettings
from app.settings.command_line import parse
from app.wiring.rules import review_rules
from tests import make


def test_rules_without_flags() -> None:
    """By default gates are closed, boosts have no cap, and overlaps are refused."""
    rules = review_rules(parse(AdmitSettings, [], {}).decisions)
    assert not any(gate in rules.pods.gates for gate in Gate)
    assert rules.pods.max_cpu_boost is None
    assert rules.vpas.disjointness is Disjointness.ENFORCE


@pytest.mark.parametrize("mode", Disjointness)
def test_rules_of_flags(mode: Disjointness) -> None:
    """Each flag finds its rule."""
    words = [
        "--feature-gates=CPUStartupBoost=true",
        "--max-allowed-cpu-boost=2",
        f"--selector-disjointness={mode}",
    ]
    rules = review_rules(parse(AdmitSettings, words, {}).decisions)
    assert [gate for gate in Gate if gate in rules.pods.gates] == [Gate.CPU_STARTUP_BOOST]
    assert rules.pods.max_cpu_boost == make.quantity("2")
    assert rules.vpas.disjointness is mode
