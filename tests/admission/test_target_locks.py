"""Locks of targets pile up only while they are needed."""

from __future__ import annotations

from datetime import timedelta

from app.admission.core.overlap import LIFETIME, SiblingsWanted
from app.admission.target_locks import TargetLocks
from tests import make

NOW = make.NOW


def wanted(name: str) -> SiblingsWanted:
    """Return a question about a target."""
    return SiblingsWanted("default", "Deployment", name, is_decisive=True)


def test_a_lock_is_held_by_one() -> None:
    """A review that finds a lock held, and has no time to wait, does not get it."""
    locks = TargetLocks()
    with locks.held(wanted("a"), NOW, 1.0) as first:
        assert first is not None
        with locks.held(wanted("a"), NOW, -1.0) as second:
            assert second is None
        with locks.held(wanted("b"), NOW, 0.0) as other:
            assert other is not None
    with locks.held(wanted("a"), NOW, 0.0) as third:
        assert third is first


def test_idle_locks_are_cleared_away() -> None:
    """However many targets are asked about, only locks that are held or claimed are kept."""
    locks = TargetLocks()
    with locks.held(wanted("claimed"), NOW, 0.0) as claimed:
        assert claimed is not None
        claimed.claims = claimed.claims.adding(make.vpa(), NOW)
    with locks.held(wanted("held"), NOW, 0.0) as held:
        for index in range(5_000):
            with locks.held(wanted(f"t{index}"), NOW, 0.0):
                assert len(locks) <= 1_002
        with locks.held(wanted("claimed"), NOW + LIFETIME / 2, 0.0) as again:
            assert again is claimed
        with locks.held(wanted("held"), NOW, 0.0) as again:
            assert again is None
    later = NOW + LIFETIME + timedelta(seconds=1)
    for index in range(2_000):
        with locks.held(wanted(f"u{index}"), later, 0.0):
            pass
    with locks.held(wanted("claimed"), later, 0.0) as again:
        assert again is not None
        assert again is not claimed
    with locks.held(wanted("held"), later, 0.0) as again:
        assert again is not None
        assert again is not held
