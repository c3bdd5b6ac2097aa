"""How samples age: weights halve with every half-life.

Strategy: a sample weighs `2**((time - reference) / half_life)` times its own weight, so nothing
stored has to change as time goes by. The power of two is computed here, with the polynomial that
published totals have always been computed with, because libraries disagree in the last bit.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.recommender.core.moments import UNSET, YEAR_ONE

Times = NDArray[np.int64]  # nanoseconds
Weights = NDArray[np.float64]

LONGEST: Final = 100  # half-lives a sample may be ahead of the reference

_LN2_HIGH: Final = 6.93147180369123816490e-01
_LN2_LOW: Final = 1.90821492927058770002e-10
_POLYNOMIAL: Final = (
    4.13813679705723846039e-08,
    -1.65339022054652515390e-06,
    6.61375632143793436117e-05,
    -2.77777777770155933842e-03,
    1.66666666666666657415e-01,
)
_LEAST: Final = -1100.0  # the power is zero
_MOST: Final = 1023.9999999999999


def exp2(exponents: Weights) -> Weights:
    """Return 2**x for each exponent."""
    limited = np.clip(exponents, _LEAST, _MOST)
    whole = np.trunc(limited + np.copysign(0.5, limited))
    rest = limited - whole
    high = rest * _LN2_HIGH
    low = -rest * _LN2_LOW
    reduced = high - low
    square = reduced * reduced
    series = np.zeros_like(square)
    for coefficient in _POLYNOMIAL:
        series = coefficient + square * series
    bent = reduced - square * series
    fraction = 1.0 - ((low - (reduced * bent) / (2.0 - bent)) - high)
    powers: Weights = np.ldexp(fraction, whole.astype(np.int32))
    return powers


def factor(times: Times, references: Times, half_life_ns: int) -> Weights:
    """Return by how much samples at these times count, seen from their references."""
    return exp2((times - references).astype(np.float64) / float(half_life_ns))


def nearest_reference(times: Times, half_life_ns: int) -> Times:
    """Round times to whole half-lives since year 1, halves up."""
    offset = -YEAR_ONE % half_life_ns
    past = np.mod(times + offset, half_life_ns)
    return np.where(past < half_life_ns - past, times - past, times - past + half_life_ns)


def shift_factor(before: Times, after: Times, half_life_ns: int) -> Weights:
    """Return what weights must be multiplied with when their reference moves.

    Weights that were never given a reference are forgotten.
    """
    known = before != UNSET
    exponents = np.where(known, before, after) - after
    return np.where(known, exp2(exponents.astype(np.float64) / float(half_life_ns)), 0.0)


def latest_time(references: Times, half_life_ns: int) -> Times:
    """Return up to which time samples may be added before the reference must move."""
    return references + min(LONGEST * half_life_ns, 2**62)
