"""A recording is read in pieces that cover it once, and put together again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.backtest.pieces import (
    NamespaceSizes,
    RecordingPiece,
    RecordingSpan,
    joined,
    planned_pieces,
)
from tests.backtest.recordings import START, STEP, WEB, recording
from tests.cases import cases

STEPS = 4032


def piece(first: int, until: int, namespace: str = "shop") -> RecordingPiece:
    """Return some steps of a namespace."""
    return RecordingPiece(namespace, first, until - first)


@cases(
    "containers done planned",
    {
        "a small namespace at once": (10, [], [(0, STEPS)]),
        "a large one in parts": (100, [], [(0, 2500), (2500, STEPS)]),
        "what was read is left out": (10, [(0, 100), (300, 400)], [(100, 300), (400, STEPS)]),
        "also out of order": (10, [(300, STEPS), (0, 100)], [(100, 300)]),
        "nothing is left": (10, [(0, STEPS)], []),
        "what overlaps": (10, [(0, 200), (100, 300), (300, STEPS)], []),
        "very many containers": (10**6, [(24, STEPS)], [(0, 12), (12, 24)]),
    },
)
def test_plan(
    containers: int, done: Sequence[tuple[int, int]], planned: Sequence[tuple[int, int]]
) -> None:
    """What was not read yet is cut by how many containers there were."""
    sizes = {"shop": NamespaceSizes(12, {12: 1, 24: containers})}
    kept = [piece(*each) for each in done]
    assert planned_pieces(sizes, STEPS, kept) == [piece(*each) for each in planned]


def test_halves() -> None:
    """Two halves are the whole; one step has none."""
    assert piece(10, 15).halves() == (piece(10, 12), piece(12, 15))
    assert piece(10, 11).halves() == ()


def test_cut() -> None:
    """Parts are the whole; the last may be shorter."""
    assert list(piece(10, 15).cut(2)) == [piece(10, 12), piece(12, 14), piece(14, 15)]


def test_least() -> None:
    """Only what was counted within a piece must be in its answer."""
    sizes = NamespaceSizes(12, {12: 5, 24: 7, 36: 9})
    assert [sizes.least(piece(*each)) for each in ((0, 12), (0, 30), (12, 36), (13, 24))] == [
        5,
        7,
        9,
        0,
    ]


def test_joined() -> None:
    """Parts lie side by side; the owner that is known last counts."""
    early = recording([WEB._replace(owner_kind="", owner_name="")], cpu=1.0)
    late = recording([WEB], cpu=2.0)
    other = recording([WEB._replace(pod="web-2")], cpu=3.0)
    late = type(late)(START + 4 * STEP, STEP, late.rows, *(values for _, values in late.arrays()))
    found = joined(RecordingSpan(START, STEP, 10), lambda: [early, late, other])

    assert found.rows == (WEB, WEB._replace(pod="web-2"))
    nan = np.nan
    np.testing.assert_array_equal(found.cpu[0], [1, 1, 1, 1, 2, 2, 2, 2, nan, nan])
    np.testing.assert_array_equal(found.cpu[1], [3, 3, 3, 3, *[nan] * 6])
