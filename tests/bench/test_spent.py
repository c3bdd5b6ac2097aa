"""Memory of one process is its resident memory; what several share counts once."""

from __future__ import annotations

from bench.spent import resident_kb
from tests.cases import cases


@cases(
    "processes memory",
    {
        "none": ([], 0),
        "one-alone": ([(100, 70)], 100),
        "nothing-shared": ([(100, 100), (50, 50)], 150),
        "the-largest-share": ([(100, 60), (90, 70), (80, 80)], 60 + 70 + 80 + 40),
    },
)
def test_memory_of_processes(processes: list[tuple[int, int]], memory: int) -> None:
    """What each has alone is added up, and of what they share the largest part."""
    assert resident_kb(processes) == memory
