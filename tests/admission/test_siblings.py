"""The VPAs beside one that is written: watched, made sure of, one review of a target at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from app.admission.core.overlap import LIFETIME_SECONDS, LONGEST_SECONDS, SiblingsWanted
from app.admission.core.validate import Phase
from app.admission.metrics import ReviewLimit
from app.admission.siblings import (
    MOST_PENDING,
    AcceptedVpas,
    KnownSiblings,
    SharedLists,
    TargetKey,
    TargetLocks,
)
from app.model.errors import Unavailable
from app.model.vpa import Vpa
from tests import make
from tests.cases import cases
from tests.reached_limits import ReachedLimits
from tests.runtime.serving import WAIT_SECONDS
from tests.waiting import eventually

NEW = make.vpa("new")
OTHERS = tuple(make.vpa(f"v{i}", target=f"Job/{i}") for i in range(200))
RIVALS = tuple(make.vpa(f"r{i}") for i in range(5))


@dataclass
class Server:
    """An API server, and what it was asked for."""

    vpas: tuple[Vpa, ...] = ()
    tells: bool = True
    asked: list[str] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)

    def of(self, namespace: str) -> tuple[Vpa, ...] | None:
        """Return what is stored now, when it may."""
        vpas = self.vpas
        self.asked.append(namespace)
        assert self.may_answer.wait(30)
        return vpas if self.tells else None

    def named(self, _namespace: str, name: str) -> Vpa | None:
        """Return one VPA."""
        self.asked.append(name)
        if not self.tells:
            raise Unavailable("not now")
        return next((vpa for vpa in self.vpas if vpa.name == name), None)


@cases(
    "watched server asked found",
    {
        "few": ((make.vpa("old"),), Server(RIVALS), ["default"], RIVALS),
        "few, unknown": (RIVALS, Server(tells=False), ["default"], RIVALS),
        "not read": (None, Server(RIVALS), ["default"], RIVALS),
        "nothing known": (None, Server(tells=False), ["default"], None),
        "many": (OTHERS, Server(RIVALS), [], OTHERS),
        "a rival": ((*OTHERS, *RIVALS[:2]), Server(RIVALS), ["r0"], (*OTHERS, *RIVALS[:2])),
        "one has gone": (
            (*OTHERS, *RIVALS[:2]),
            Server(RIVALS[1:]),
            ["r0", "r1"],
            (*OTHERS, RIVALS[1]),
        ),
        "one was changed": (
            (*OTHERS, RIVALS[0]),
            Server((make.vpa("r0", target="Job/x"),)),
            ["r0"],
            (*OTHERS, make.vpa("r0", target="Job/x")),
        ),
        "unknown": ((*OTHERS, RIVALS[0]), Server(tells=False), ["r0"], (*OTHERS, RIVALS[0])),
        "many, unknown": ((*OTHERS, *RIVALS), Server(tells=False), ["r0"], (*OTHERS, *RIVALS)),
        "many have gone": (
            (*OTHERS, *RIVALS),
            Server(OTHERS),
            ["r0", "r1", "r2", "default"],
            OTHERS,
        ),
    },
)
def test_what_is_read(
    watched: tuple[Vpa, ...] | None,
    server: Server,
    asked: list[str],
    found: tuple[Vpa, ...] | None,
) -> None:
    """Few VPAs are listed; of many only those that seem to overlap are read."""
    server.may_answer.set()
    assert KnownSiblings(server, lambda: 0.0).beside(NEW, watched, 60.0) == found
    assert server.asked == asked


def test_policies_make_many() -> None:
    """A few large VPAs are not listed either."""
    large = make.vpa("large", policies=[make.policy_json(f"c{i}") for i in range(1_001)])
    server = Server((large,))
    assert KnownSiblings(server, lambda: 0.0).beside(NEW, (large,), 60.0) == (large,)
    assert server.asked == ["large"]


def test_without_time_nothing_is_read() -> None:
    """What was watched is believed when the time is over."""
    server = Server()
    watched = (*OTHERS, *RIVALS)
    assert KnownSiblings(server, lambda: 60.0).beside(NEW, watched, 60.0) == watched
    assert not server.asked


def test_a_list_tells_what_was_stored_when_it_was_asked_for() -> None:
    """Who comes while a list is under way gets the next one, which may hold more."""
    server = Server()
    lists = SharedLists(server)
    assert lists.of("default", 0.0) is None
    assert eventually(lambda: server.asked == ["default"])
    server.vpas = RIVALS
    assert lists.of("default", 0.0) is None
    server.may_answer.set()
    assert lists.of("default", 30.0) == RIVALS


def test_lists_are_shared() -> None:
    """All who come while a namespace is listed share the next list."""
    server = Server(RIVALS)
    lists = SharedLists(server)
    assert lists.of("default", 0.0) is None
    assert eventually(lambda: server.asked == ["default"])
    assert [lists.of("default", 0.0) for _ in range(10)] == [None] * 10
    server.may_answer.set()
    assert eventually(lambda: server.asked == ["default"] * 2)
    assert lists.of("default", 30.0) == RIVALS
    assert len(server.asked) <= 3


NOW = 100.0
LATER = NOW + LIFETIME_SECONDS + LONGEST_SECONDS
WEB = TargetKey("default", "Deployment", "web")
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
        assert first == TargetKey("default", "Deployment", "a")
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
    assert accepted.of(TargetKey("other", "Deployment", "web"), Phase.MUTATING, NOW) == ()


def test_what_no_review_asks_for_is_forgotten() -> None:
    """However many targets VPAs are written for, those of the last half a minute are kept."""
    reached = ReachedLimits()
    accepted = AcceptedVpas(reached)
    for number in range(2_000):
        accepted.add(TargetKey("default", "Job", f"{number}"), Phase.MUTATING, make.vpa(), NOW)
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
        accepted.add(
            TargetKey("default", "Job", f"{number}"), Phase.MUTATING, large, NOW + number / 9
        )

    kept = MOST_PENDING // each
    last = NOW + 199 / 9
    assert (len(accepted), reached.counts) == (kept, {ReviewLimit.PENDING_VPAS: 200 - kept})
    assert accepted.of(TargetKey("default", "Job", "199"), Phase.MUTATING, last) != ()
    assert accepted.of(TargetKey("default", "Job", "0"), Phase.MUTATING, NOW) == ()
