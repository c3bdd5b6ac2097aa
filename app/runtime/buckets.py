"""Upstream's histogram buckets, in seconds unless said otherwise."""

from __future__ import annotations

from typing import Final

Buckets = tuple[float, ...]


def _read(text: str) -> Buckets:
    return tuple(map(float, text.split()))


# One step of a loop or of an admission.
EXECUTION: Final = _read(
    "0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10 20 30 40 50 60 70 80 90 100 120 150 240 300"
)
# One answer, given or waited for.
ANSWER: Final = _read(
    "0.01 0.02 0.05 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1 2 5 10 20 30 60 120 300"
)
# From the birth of a VPA to its first recommendation.
FIRST_RECOMMENDATION: Final = _read(
    "1 2 5 7.5 10 20 30 40 50 60 90 120 150 180 240 300 600 900 1800"
)
# Shares of the recommendation.
RELATIVE: Final = _read(
    "-1 -0.75 -0.5 -0.25 -0.1 -0.05 -0.025 -0.01 -0.005 -0.0025 -0.001 0 "
    "0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 0.75 1 2.5 5 10 25 50 100"
)
CORES: Final = tuple(0.01 * 2**power for power in range(17))
BYTES: Final = tuple(1e6 * 2**power for power in range(17))
