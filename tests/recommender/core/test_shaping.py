"""Rounding, whole cores, caps, and the texts that are published."""

from __future__ import annotations

import numpy as np
import pytest

from app.model.quantity import Quantity
from app.recommender.core.rules import Cap
from app.recommender.core.shaping import (
    LOWER,
    TARGET,
    UNCAPPED,
    UPPER,
    Bound,
    Caps,
    Shaped,
    cpu_quantity,
    humanized,
    memory_quantity,
    shape_cpu,
    shape_memory,
)

GI = 2**30
MI = 2**20


def cap(least: str = "", most: str = "") -> Cap:
    """Return a cap from texts."""
    return Cap(Quantity.parse(least) if least else None, Quantity.parse(most) if most else None)


def shaped_cpu(
    target: int, *, step: int = 1, whole: bool = False, within: Cap | None = None
) -> Shaped:
    """Shape one row whose three estimates are equal."""
    return shape_cpu(np.full((1, 3), target), step, np.array([whole]), Caps.of([within or Cap()]))


def shaped_memory(
    target: int, *, step: int = 1, humanize: bool = False, within: Cap | None = None
) -> Shaped:
    """Shape one row whose three estimates are equal."""
    return shape_memory(
        np.full((1, 3), target), step, Caps.of([within or Cap()]), humanize=humanize
    )


def cpu_text(shaped: Shaped, column: int, within: Cap | None = None) -> str:
    """Return the text of one amount."""
    amount, bound = shaped.amounts[0, column], shaped.bounds[0, column]
    return str(cpu_quantity(int(amount), int(bound), within or Cap()))


def memory_text(shaped: Shaped, column: int, within: Cap | None = None) -> str:
    """Return the text of one amount."""
    amount, bound = shaped.amounts[0, column], shaped.bounds[0, column]
    return str(memory_quantity(int(amount), int(bound), within or Cap()))


@pytest.mark.parametrize(
    ("millicores", "expected"),
    [
        (0, "0"),
        (1, "1m"),
        (25, "25m"),
        (1000, "1"),
        (1500, "1500m"),
        (2000, "2"),
        (23_000, "23"),
        (100_000, "100"),
        (10**14, "100G"),
    ],
)
def test_cpu_text(millicores: int, expected: str) -> None:
    """W73: millicores are decimal."""
    assert cpu_text(shaped_cpu(millicores), TARGET) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0"),
        (1000, "1k"),
        (1024, "1Ki"),
        (262_144_000, "250Mi"),
        (131_072_000, "125Mi"),
        (380_258_472, "380258472"),
        (GI + GI // 2, "1536Mi"),
        (10**14, "97656250000Ki"),
    ],
)
def test_memory_text(count: int, expected: str) -> None:
    """W74: bytes are binary where they can."""
    assert memory_text(shaped_memory(count), TARGET) == expected


@pytest.mark.parametrize(
    ("millicores", "step", "expected"),
    [
        (79, 50, "100m"),
        (34, 50, "50m"),
        (100, 7, "105m"),
        (1_231_241, 13, "1231243m"),
        (0, 5, "0"),
        (100, -5, "100m"),
        (100, 0, "100m"),
    ],
)
def test_round_cpu(millicores: int, step: int, expected: str) -> None:
    """W75: amounts are rounded up to whole steps; no step, no rounding."""
    found = shaped_cpu(millicores, step=step)

    assert {cpu_text(found, column) for column in range(4)} == {expected}


@pytest.mark.parametrize(
    ("count", "expected"), [(200 * MI, "256Mi"), (80 * MI, "128Mi"), (839_500_000, "896Mi")]
)
def test_round_memory(count: int, expected: str) -> None:
    """W76: so are bytes."""
    assert memory_text(shaped_memory(count, step=128 * MI), TARGET) == expected


@pytest.mark.parametrize(
    ("count", "text", "expected"),
    [
        (1537, "1.50Ki", "1536"),
        (1_050_000, "1.00Mi", "1Mi"),
        (262_144_000, "250.00Mi", "250Mi"),
        (839_500_000, "800.61Mi", "839500431360m"),
        (1023, "1023", "1023"),
        (2 * GI, "2.00Gi", "2Gi"),
    ],
)
def test_humanize(count: int, text: str, expected: str) -> None:
    """W77: two decimals, read again as a quantity."""
    assert humanized(count) == text
    assert memory_text(shaped_memory(count, humanize=True), TARGET) == expected


@pytest.mark.parametrize(
    ("millicores", "expected"), [(8100, "9"), (8900, "9"), (8000, "8"), (25, "1")]
)
def test_whole_cores(millicores: int, expected: str) -> None:
    """W78: whole cores on demand, in the uncapped target too; other rows stay."""
    found = shape_cpu(np.full((2, 3), millicores), 1, np.array([True, False]), Caps.none(2))

    assert {cpu_text(found, column) for column in range(4)} == {expected}
    assert found.amounts[1].tolist() == [millicores] * 4


@pytest.mark.parametrize(
    ("target", "within", "expected", "bound"),
    [
        pytest.param(100, cap("500m", "300m"), "300m", Bound.MOST, id="W80: the most wins"),
        pytest.param(100, cap("500m"), "500m", Bound.LEAST, id="raised"),
        pytest.param(100, cap("", "50m"), "50m", Bound.MOST, id="lowered"),
        pytest.param(100, cap("100m", "100m"), "100m", Bound.NOTHING, id="just right"),
        pytest.param(100, cap("0.1000005"), "100000500n", Bound.LEAST, id="a finer least"),
        pytest.param(100, cap("", "0.0999995"), "99999500n", Bound.MOST, id="a finer most"),
        pytest.param(100, cap("", "100000500n"), "100m", Bound.NOTHING, id="within a finer most"),
        pytest.param(100, cap("1E"), "1E", Bound.LEAST, id="an absurd least"),
    ],
)
def test_caps(target: int, within: Cap, expected: str, bound: Bound) -> None:
    """Amounts are raised, then lowered; caps are published as they were written."""
    found = shaped_cpu(target, within=within)

    texts = [cpu_text(found, column, within) for column in (TARGET, LOWER, UPPER)]
    assert texts == [expected] * 3
    assert found.bounds[0].tolist() == [bound, bound, bound, Bound.NOTHING]
    assert found.amounts[0, UNCAPPED] == target


def test_caps_come_after_whole_cores() -> None:
    """W79: a cap undoes whole cores, but not in the uncapped target."""
    within = cap("", "1500m")
    found = shaped_cpu(1100, whole=True, within=within)

    assert (cpu_text(found, TARGET, within), cpu_text(found, UNCAPPED)) == ("1500m", "2")


def test_memory_keeps_the_spelling_of_its_cap() -> None:
    """A cap in another family of suffixes stays what it is."""
    within = cap("", "1G")

    assert memory_text(shaped_memory(2 * GI, within=within), TARGET, within) == "1G"
