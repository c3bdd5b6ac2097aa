"""Turns pile up only while somebody needs them."""

from __future__ import annotations

from datetime import timedelta

from app.core.admission.claims import LIFETIME
from app.core.admission.overlap import SiblingsWanted
from app.web.turns import Turns
from tests import make

NOW = make.NOW


def wanted(name: str) -> SiblingsWanted:
    """Return a question about a target."""
    return SiblingsWanted("default", "Deployment", name, is_decisive=True)


def test_a_turn_is_held_by_one() -> None:
    """Who asks while a turn is held and has no time to wait does not get it."""
    turns = Turns()
    with turns.of(wanted("a"), NOW, 1.0) as first:
        assert first is not None
        with turns.of(wanted("a"), NOW, -1.0) as second:
            assert second is None
        with turns.of(wanted("b"), NOW, 0.0) as other:
            assert other is not None
    with turns.of(wanted("a"), NOW, 0.0) as third:
        assert third is first


def test_idle_turns_are_cleared_away() -> None:
    """However many targets are asked about, only held and claimed turns are kept."""
    turns = Turns()
    with turns.of(wanted("claimed"), NOW, 0.0) as claimed:
        assert claimed is not None
        claimed.claims = claimed.claims.adding(make.vpa(), NOW)
    with turns.of(wanted("held"), NOW, 0.0) as held:
        for index in range(5_000):
            with turns.of(wanted(f"t{index}"), NOW, 0.0):
                assert len(turns) <= 1_002
        with turns.of(wanted("claimed"), NOW + LIFETIME / 2, 0.0) as again:
            assert again is claimed
        with turns.of(wanted("held"), NOW, 0.0) as again:
            assert again is None
    later = NOW + LIFETIME + timedelta(seconds=1)
    for index in range(2_000):
        with turns.of(wanted(f"u{index}"), later, 0.0):
            pass
    with turns.of(wanted("claimed"), later, 0.0) as again:
        assert again is not None
        assert again is not claimed
    with turns.of(wanted("held"), later, 0.0) as again:
        assert again is not None
        assert again is not held
