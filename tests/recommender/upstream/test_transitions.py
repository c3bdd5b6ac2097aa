"""Upstream sees kills in transitions alone."""

from __future__ import annotations

from typing import Any

import pytest

from app.recommender.upstream.containers import kills_by_transition
from tests import make
from tests.recommender.core.test_oom import TRANSITIONS, pod, status, transition


@pytest.mark.parametrize(("before", "after", "other", "expected"), TRANSITIONS)
def test_transitions(
    before: dict[str, Any], after: dict[str, Any], other: str, expected: list[int]
) -> None:
    """What a transition tells of kills counts."""
    found = kills_by_transition(*transition(before, after, other, expected))
    assert [record.memory_bytes for record in found] == expected


def test_first_sight() -> None:
    """What a pod tells at first sight, or a status that appears, does not."""
    first = pod(status("terminated", restarts=1, last="OOMKilled", finished=None))
    assert kills_by_transition(None, first) == []
    before = make.pod(status={"phase": "Running"})
    assert kills_by_transition(before, pod(status("terminated"))) == []
