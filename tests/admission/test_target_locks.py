"""Locks of targets pile up only while they are needed."""

from __future__ import annotations

from app.admission.core.overlap import LIFETIME_SECONDS, LONGEST_SECONDS, SiblingsWanted
from app.admission.core.validate import Phase
from app.admission.target_locks import TargetLocks
from tests import make

NOW = 100.0


def wanted(name: str) -> SiblingsWanted:
    """Return a question about a target."""
    return SiblingsWanted("default", "Deployment", name, is_decisive=True, vpa=make.vpa())


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
        claimed.claim(make.vpa(), Phase.MUTATING, NOW)
    with locks.held(wanted("held"), NOW, 0.0) as held:
        for index in range(5_000):
            with locks.held(wanted(f"t{index}"), NOW, 0.0):
                assert len(locks) <= 1_002
        with locks.held(wanted("claimed"), NOW + LIFETIME_SECONDS / 2, 0.0) as again:
            assert again is claimed
        with locks.held(wanted("held"), NOW, 0.0) as again:
            assert again is None
    later = NOW + LIFETIME_SECONDS + LONGEST_SECONDS
    for index in range(2_000):
        with locks.held(wanted(f"u{index}"), later, 0.0):
            pass
    with locks.held(wanted("claimed"), later, 0.0) as again:
        assert again is not None
        assert again is not claimed
    with locks.held(wanted("held"), later, 0.0) as again:
        assert again is not None
        assert again is not held


def test_the_later_phase_asks_for_its_own_claims() -> None:
    """Of rivals that two processes accepted in the earlier phase one is stored at least."""
    with TargetLocks().held(wanted("a"), NOW, 0.0) as target:
        assert target is not None
        early, late = make.vpa("early"), make.vpa("late")
        target.claim(early, Phase.MUTATING, NOW)
        assert target.claims(Phase.MUTATING, NOW) == (early,)
        assert target.claims(Phase.VALIDATING, NOW) == ()
        target.claim(late, Phase.VALIDATING, NOW)
        assert target.claims(Phase.MUTATING, NOW) == (late, early)
        assert target.claims(Phase.VALIDATING, NOW) == (late,)
