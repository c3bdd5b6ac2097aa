"""What all owners share while one plan is made."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from app.model.kinds import ObjectKey
from app.updater.core.decisions import Reason
from app.updater.core.memory import Infeasible, Memory, PodMemory, SeenRollout
from app.updater.core.owners import OngoingRollout
from app.updater.core.plan_state import PlanState
from app.updater.core.proof import Breaker, Breakers, Proof, ProofVersion
from app.updater.core.proposals import Assessment, PlanInputs
from app.updater.core.rules import UpdateRules
from tests import make
from tests.cases import cases
from tests.make import NO_GATES
from tests.updater.core.scenes import NOW, OURS, UNPROVEN

POD, VPA = make.pod(), make.vpa()
NO_PROOF = Proof(ProofVersion("", 0, ()))
OUT = Breaker(is_open=True, canary="x", until=NOW + timedelta(hours=1))


def state(
    memory: Memory | None = None,
    *,
    is_partial: bool = False,
    rules: UpdateRules = OURS,
    now: datetime = NOW,
) -> PlanState:
    """Return the state of a new plan."""
    return PlanState(
        PlanInputs(rules, NO_GATES, memory or Memory(), now, is_partial=is_partial), {}
    )


def test_budgets_are_used_up() -> None:
    """By name, across owners; a broken pod is tried all the same."""
    found = state()
    pdbs = (make.budget(allowed=2),)
    assert [found.reserve_pdbs(pdbs, broken=False) for _ in range(3)] == [True, True, False]
    assert found.reserve_pdbs(pdbs, broken=True)
    assert found.reserve_pdbs((), broken=False)


def reserved(found: PlanState, namespace: str = "default", times: int = 9) -> int:
    """Return how many evictions could be reserved."""
    return sum(found.reserve_eviction(namespace) for _ in range(times))


@cases(
    "breakers here there",
    {
        "closed": (Breakers(), 9, 9),
        "of the cluster": (Breakers(Breaker(is_open=True)), 1, 0),
        "of the cluster, a canary is out": (Breakers(OUT), 0, 0),
        "of the namespace": (Breakers(namespaces={"default": Breaker(is_open=True)}), 1, 9),
        "of the namespace, a canary is out": (Breakers(namespaces={"default": OUT}), 0, 9),
        "of another namespace": (Breakers(namespaces={"other": OUT}), 9, 0),
        "both": (Breakers(Breaker(is_open=True), {"default": OUT}), 0, 1),
    },
)
def test_breakers_let_one_pod_go(breakers: Breakers, here: int, there: int) -> None:
    """Open: one, or none while a canary is out; in one namespace, or in the whole cluster."""
    found = state(Memory(breakers=breakers))
    assert (reserved(found), reserved(found, "other")) == (here, there)


def started(
    awaited: int = 0, useless: int = 0, minutes_ago: float = 1, namespaces: int = 1
) -> Memory:
    """Return the memory some time after a start: nothing has helped yet."""
    since = NOW - timedelta(minutes=minutes_ago)
    uids = tuple(map(str, range(awaited)))
    proof = Proof(ProofVersion("", 0, ()), awaited=uids, since=since)
    names = [f"n{number}" for number in range(namespaces)]
    web = ObjectKey("", "StatefulSet", "web")
    bad = dict.fromkeys(names, Breaker(((since, False),) * useless))
    return Memory(
        proofs={(name, web, "web"): proof for name in names},
        breakers=Breakers(namespaces=bad, is_trusted=False),
    )


@cases(
    "memory rules here there",
    {
        "nothing went": (started(), OURS, 4, 4),
        "some are awaited": (started(awaited=3), OURS, 1, 4),
        "in several namespaces": (started(awaited=3, namespaces=3), OURS, 1, 1),
        "as many as may go": (started(awaited=4), OURS, 0, 4),
        "in the whole cluster": (started(awaited=4, namespaces=3), OURS, 0, 0),
        "not replaced at all": (started(awaited=11, minutes_ago=5), OURS, 4, 4),
        "some were useless": (started(awaited=1, useless=2), OURS, 1, 4),
        "long ago": (started(awaited=5, useless=2, minutes_ago=10), OURS, 4, 4),
        "many useless ones of one namespace": (started(useless=50), OURS, 0, 4),
        "nothing is proven": (started(), UNPROVEN, None, None),
        "something helped": (Memory(), OURS, None, None),
    },
)
def test_after_a_start_few_pods_go_first(
    memory: Memory, rules: UpdateRules, here: int | None, there: int | None
) -> None:
    """Ten, four of each namespace: one namespace takes no other its turn."""
    found = state(memory, rules=rules)
    assert (found.evictions_left("n0"), found.evictions_left("other")) == (here, there)


def test_a_verdict_counts_at_once() -> None:
    """For the owners that come later in the same plan."""
    found = state(started(awaited=4))
    assert not found.reserve_eviction("n0")
    assert found.no_eviction_left("n0")[0] is Reason.PROOF_PENDING
    found.note_replacement("n0", NO_PROOF, helped=True)
    assert found.reserve_eviction("n0")
    for _ in range(4):
        found.note_replacement("n0", NO_PROOF, helped=False)
    assert not found.reserve_eviction("n0")
    message = "evictions in namespace n0 are stopped: too many came back unchanged"
    assert found.no_eviction_left("n0") == (Reason.RECREATED_WITHOUT_CHANGE, message)
    assert found.reserve_eviction("n1")


@cases(
    "minutes_ago before after",
    {
        "counted since its eviction": (1, 1, 1),
        "not counted any more": (6, 4, 3),
    },
)
def test_a_useless_replacement_is_counted_once(minutes_ago: float, before: int, after: int) -> None:
    """As awaited or as useless, also in the plan in which it is judged."""
    memory = started(awaited=3, minutes_ago=minutes_ago)
    found = state(memory)
    assert found.evictions_left("n0") == before
    (proof,) = memory.proofs.values()
    found.note_replacement("n0", proof, helped=False)
    assert found.evictions_left("n0") == after


def test_all_stop_for_several_namespaces_alone() -> None:
    """The third namespace in which evictions do not help stops all."""
    found = state()
    for name in ("n0", "n1"):
        for _ in range(9):
            found.note_replacement(name, NO_PROOF, helped=False)
    assert found.reserve_eviction("other")
    found.note_replacement("n2", NO_PROOF, helped=False)
    assert not found.reserve_eviction("other")
    message = "all evictions are stopped: in several namespaces too many pods came back unchanged"
    assert found.no_eviction_left("other") == (Reason.RECREATED_WITHOUT_CHANGE, message)


NAMES = ("a", "b", "c", "d")


def test_what_is_awaited_is_judged_first() -> None:
    """A replacement that helped lets all other namespaces go on in the same plan."""
    web = ObjectKey("", "StatefulSet", "web")
    out = Proof(ProofVersion("", 0, ()), awaited=("x",), since=NOW)
    bad = {"c": Breaker(((NOW, False),))}
    proofs = {(name, web, "web"): out for name in ("b", "c")}
    memory = Memory(proofs=proofs, breakers=Breakers(namespaces=bad, is_trusted=False))
    for minutes in range(9):
        order = state(memory, now=NOW + timedelta(minutes=minutes)).namespaces_in_turn(NAMES)
        assert set(order[:2]) == {"b", "c"}


@cases(
    "breakers first last",
    {
        "all may go": (Breakers(), "a", "d"),
        "nothing has helped yet": (Breakers(is_trusted=False), None, None),
        "all have stopped": (Breakers(OUT), None, None),
        "evictions of one did not help": (
            Breakers(OUT, {"b": Breaker(((NOW, False),)), "d": Breaker(((NOW, True),))}),
            None,
            "b",
        ),
    },
)
def test_namespaces_take_turns(breakers: Breakers, first: str | None, last: str | None) -> None:
    """While few evictions are left another one begins each time; the useless come last."""
    orders = [
        state(Memory(breakers=breakers), now=NOW + timedelta(minutes=minutes)).namespaces_in_turn(
            NAMES
        )
        for minutes in range(9)
    ]
    assert {first} == {order[0] for order in orders} or first is None
    assert {last} == {order[-1] for order in orders} or last is None
    assert first is not None or len({order[0] for order in orders}) > 1


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
    key = ("default", ObjectKey("", "ReplicaSet", "web"))
    memory = Memory(rollouts={key: SeenRollout("a", NOW)})
    assert state(memory).memory().rollouts == {}
    assert state(memory, is_partial=True).memory().rollouts == memory.rollouts
    found = state(memory)
    assert found.note_rollout(key, OngoingRollout("b", "")) == NOW
    assert found.memory().rollouts == {key: SeenRollout("b", NOW)}
