"""What all owners share while one plan is made."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.model.kinds import ObjectKey
from app.updater.core.decisions import Reason
from app.updater.core.memory import Infeasible, Memory, PodMemory, SeenRollout
from app.updater.core.owners import OngoingRollout
from app.updater.core.plan_state import Assessment, PlanInputs, PlanState
from app.updater.core.proof import Breaker, Proof, ProofVersion
from app.updater.core.rules import UpdateRules
from tests import make
from tests.make import NO_GATES
from tests.updater.core.scenes import NOW, OURS, UNPROVEN

POD, VPA = make.pod(), make.vpa()


def state(
    memory: Memory | None = None, *, is_partial: bool = False, rules: UpdateRules = OURS
) -> PlanState:
    """Return the state of a new plan."""
    return PlanState(
        PlanInputs(rules, NO_GATES, memory or Memory(), NOW, is_partial=is_partial), {}
    )


def test_budgets_are_used_up() -> None:
    """By name, across owners; a broken pod is tried all the same."""
    found = state()
    pdbs = (make.budget(allowed=2),)
    assert [found.reserve_pdbs(pdbs, broken=False) for _ in range(3)] == [True, True, False]
    assert found.reserve_pdbs(pdbs, broken=True)
    assert found.reserve_pdbs((), broken=False)


def test_the_breaker_counts() -> None:
    """Closed: any number; open: one, or none while a canary is out."""
    assert all(state().reserve_eviction() for _ in range(9))
    opened = Memory(breaker=Breaker(is_open=True))
    found = state(opened)
    assert [found.reserve_eviction() for _ in range(3)] == [True, False, False]
    assert found.evictions_left == 0  # owners that come later are blocked at once
    out = Breaker(is_open=True, canary="x", until=NOW + timedelta(minutes=1))
    waiting = replace(opened, breaker=out)
    assert not state(waiting).reserve_eviction()


def started(awaited: int = 0, useless: int = 0, minutes_ago: float = 1) -> Memory:
    """Return the memory some time after a start: nothing has helped yet."""
    since = NOW - timedelta(minutes=minutes_ago)
    uids = tuple(map(str, range(awaited)))
    proof = Proof(ProofVersion("", 0, ()), awaited=uids, since=since)
    key = ("default", ObjectKey("", "StatefulSet", "web"), "web")
    breaker = Breaker(((since, False),) * useless, is_trusted=False)
    return Memory(proofs={key: proof}, breaker=breaker)


@pytest.mark.parametrize(
    ("memory", "rules", "left"),
    [
        (started(), OURS, 10),
        (started(awaited=7), OURS, 3),
        (started(awaited=11), OURS, 0),
        (started(awaited=11, minutes_ago=5), OURS, 10),  # they are not replaced at all
        (started(awaited=5, useless=2), OURS, 3),
        (started(awaited=5, useless=2, minutes_ago=10), OURS, 10),
        (Memory(breaker=Breaker(((NOW, True), (NOW, False)), is_trusted=False)), OURS, 9),
        (started(), UNPROVEN, None),
        (Memory(), OURS, None),
    ],
)
def test_after_a_start_ten_pods_go_first(
    memory: Memory, rules: UpdateRules, left: int | None
) -> None:
    """A webhook that is of no use costs no more of them, however many workloads there are."""
    assert state(memory, rules=rules).evictions_left == left


def test_a_verdict_counts_at_once() -> None:
    """For the owners that come later in the same plan."""
    found = state(started(awaited=10))
    assert not found.reserve_eviction()
    assert found.no_eviction_left()[0] is Reason.PROOF_PENDING
    found.note_replacement(frozenset(), helped=True)
    assert found.reserve_eviction()
    for _ in range(4):
        found.note_replacement(frozenset(), helped=False)
    assert not found.reserve_eviction()
    assert found.no_eviction_left()[0] is Reason.RECREATED_WITHOUT_CHANGE


def test_what_is_learnt_is_added() -> None:
    """To what was remembered before; nothing learnt changes nothing."""
    before = PodMemory("default", "web-0", unboost_tried_at=NOW, resizing_since=NOW)
    memory = Memory(pods={POD.uid: before})
    found = state(memory)
    found.remember(Assessment(POD, VPA))
    assert found.memory() == memory
    past = Infeasible({}, frozenset(), NOW, None)
    found.remember(Assessment(POD, VPA, infeasible=past))
    assert found.memory().pods[POD.uid] == replace(before, infeasible=past)


def test_rollouts_are_seen_while_they_last() -> None:
    """A whole plan forgets those that are over, a part of one does not."""
    key = ("default", "ReplicaSet/web")
    memory = Memory(rollouts={key: SeenRollout("a", NOW)})
    assert state(memory).memory().rollouts == {}
    assert state(memory, is_partial=True).memory().rollouts == memory.rollouts
    found = state(memory)
    assert found.note_rollout(key, OngoingRollout("b", "")) == NOW
    assert found.memory().rollouts == {key: SeenRollout("b", NOW)}
