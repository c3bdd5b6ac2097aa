"""Reviews of one target go one after the other; nothing piles up that is not in use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

from app.admission.core.overlap import LIFETIME_SECONDS, LONGEST_SECONDS, SiblingsWanted
from app.admission.core.validate import Phase
from app.admission.metrics import ReviewLimit
from app.admission.target_locks import MOST_PENDING, AcceptedVpas, Target, TargetLocks
from app.model.vpa import Vpa
from tests import make
from tests.reached_limits import ReachedLimits
from tests.runtime.serving import WAIT_SECONDS

NOW = 100.0
LATER = NOW + LIFETIME_SECONDS + LONGEST_SECONDS
WEB = Target("default", "Deployment", "web")
SIDE_BY_SIDE = 5_000


def wanted(name: str) -> SiblingsWanted:
    """Return a question about a target."""
    return SiblingsWanted("default", "Deployment", name, is_decisive=True, vpa=make.vpa())


def names(found: tuple[Vpa, ...]) -> list[str]:
    """Return the names of VPAs."""
    return [vpa.name for vpa in found]


def test_a_lock_is_held_by_one() -> None:
    """A review that finds a lock held, and has no time to wait, does not get it."""
    locks = TargetLocks()
    with locks.held(wanted("a"), 1.0) as first:
        assert first == Target("default", "Deployment", "a")
        with locks.held(wanted("a"), -1.0) as second:
            assert second is None
        with locks.held(wanted("b"), 0.0) as other:
            assert other is not None
    with locks.held(wanted("a"), 0.0) as third:
        assert third == first


def test_locks_in_use_are_kept_however_many_there_are() -> None:
    """Of thousands of targets under review each has one review, and afterwards no lock is left."""
    locks = TargetLocks()
    with ExitStack() as stack:
        for number in range(SIDE_BY_SIDE):
            assert stack.enter_context(locks.held(wanted(f"t{number}"), 0.0)) is not None
        assert len(locks) == SIDE_BY_SIDE
        for number in range(SIDE_BY_SIDE):
            with locks.held(wanted(f"t{number}"), -1.0) as second:
                assert second is None
    assert len(locks) == 0


def test_a_lock_that_is_waited_for_is_not_dropped() -> None:
    """While reviews wait, the end of the one before them lets only one of them in."""
    locks = TargetLocks()
    inside, most, finished = [0], [0], [0]
    counting = threading.Lock()

    def review() -> None:
        with locks.held(wanted("a"), WAIT_SECONDS) as target:
            assert target is not None
            with counting:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            for number in range(1_000):  # other targets come and go
                with locks.held(wanted(f"t{number}"), 0.0):
                    pass
            with counting:
                inside[0] -= 1
                finished[0] += 1

    together([review] * 8)
    assert (most[0], finished[0], len(locks)) == (1, 8, 0)


def together(tasks: list[Callable[[], None]]) -> None:
    """Do all of this at the same time."""
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)


def test_the_later_phase_asks_for_its_own_claims() -> None:
    """Of rivals that two processes accepted in the earlier phase one is stored at least."""
    accepted = AcceptedVpas(ReachedLimits())
    accepted.add(WEB, Phase.MUTATING, make.vpa("early"), NOW)
    assert names(accepted.of(WEB, Phase.MUTATING, NOW)) == ["early"]
    assert accepted.of(WEB, Phase.VALIDATING, NOW) == ()
    accepted.add(WEB, Phase.VALIDATING, make.vpa("late"), NOW)
    assert names(accepted.of(WEB, Phase.MUTATING, NOW)) == ["early", "late"]
    assert names(accepted.of(WEB, Phase.VALIDATING, NOW)) == ["late"]
    assert accepted.of(Target("other", "Deployment", "web"), Phase.MUTATING, NOW) == ()


def test_what_no_review_asks_for_is_forgotten() -> None:
    """However many targets VPAs are written for, those of the last half a minute are kept."""
    reached = ReachedLimits()
    accepted = AcceptedVpas(reached)
    for number in range(2_000):
        accepted.add(Target("default", "Job", f"{number}"), Phase.MUTATING, make.vpa(), NOW)
    kept = len(accepted)
    accepted.add(WEB, Phase.MUTATING, make.vpa("last"), LATER)

    assert (kept, len(accepted), reached.counts) == (2_000, 1, {})
    assert names(accepted.of(WEB, Phase.MUTATING, LATER)) == ["last"]


def test_a_flood_of_large_selectors_displaces_the_oldest() -> None:
    """What is remembered is limited by the values of selectors, counted, and the newest stay."""
    reached = ReachedLimits()
    accepted = AcceptedVpas(reached)
    values = [f"v{number}" for number in range(999)]
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}
    large = make.vpa("large", selector=selector)
    each = 1 + 1 + len(values)  # the VPA, its requirement, the values
    for number in range(200):
        accepted.add(Target("default", "Job", f"{number}"), Phase.MUTATING, large, NOW + number / 9)

    kept = MOST_PENDING // each
    last = NOW + 199 / 9
    assert (len(accepted), reached.counts) == (kept, {ReviewLimit.PENDING_VPAS: 200 - kept})
    assert accepted.of(Target("default", "Job", "199"), Phase.MUTATING, last) != ()
    assert accepted.of(Target("default", "Job", "0"), Phase.MUTATING, NOW) == ()
