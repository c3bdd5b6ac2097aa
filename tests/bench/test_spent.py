"""Memory of one process is its resident memory; what several share counts once."""

from __future__ import annotations

import pytest

from bench.spent import resident_kb


@pytest.mark.parametrize(
    ("processes", "memory"),
    [
        pytest.param([], 0, id="none"),
        pytest.param([(100, 70)], 100, id="one-alone"),
        pytest.param([(100, 100), (50, 50)], 150, id="nothing-shared"),
        pytest.param([(100, 60), (90, 70), (80, 80)], 60 + 70 + 80 + 40, id="the-largest-share"),
    ],
)
def test_memory_of_processes(processes: list[tuple[int, int]], memory: int) -> None:
    """What each has alone is added up, and of what they share the largest part."""
    assert resident_kb(processes) == memory
