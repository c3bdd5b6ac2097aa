"""Who is next, and who follows when a call failed."""

from __future__ import annotations

from collections.abc import Mapping

from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.updater.core.action_queue import ActionQueue, QueueCursor, QueueStep
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.memory import NamespacedName
from app.updater.core.need import Rank
from app.updater.core.owners import OwnerBudget
from app.updater.core.proof import ProofVersion
from tests import make

PDB: NamespacedName = ("default", "web")

VERSION = ProofVersion("", 0, ())


def step(
    name: str,
    action: Action = Action.EVICT,
    *,
    needs_slot: bool = True,
    broken: bool = False,
    pdbs: tuple[NamespacedName, ...] = (),
    may_evict: bool = False,
    vpa: str = "web",
    rank: Rank = (0, 0.0, 0.0, "", ""),
) -> QueueStep:
    """Return a step."""
    pod = make.pod(name=name)
    decision = Decision(
        pod.uid, "default", name, vpa, action, Reason.EVICTED, "", may_evict_instead=may_evict
    )
    return QueueStep(pod, decision, needs_slot, broken, pdbs, rank, VERSION)


def walk(
    *steps: QueueStep,
    running: int = 4,
    ready: int | None = None,
    wanted: int = 4,
    unproven: frozenset[str] = frozenset(),
    up: Mapping[str, Pod] | None = None,
) -> QueueCursor:
    """Return a walk through an owner of four, half of which may be down."""
    budget = OwnerBudget(wanted, 0.5, running, running if ready is None else ready)
    key = ObjectKey("", "StatefulSet", "web")
    pods = frozenset(item.pod.uid for item in steps)
    return QueueCursor(
        ActionQueue("default", key, budget, steps, unproven, pods, tuple((up or {}).values()))
    )


def names(found: QueueCursor) -> list[str]:
    """Return the names of all that may go now."""
    taken = []
    while (item := found.next()) is not None:
        taken.append(item.pod.name)
    return taken


def take(found: QueueCursor) -> QueueStep:
    """Return the step that may go now."""
    step = found.next()
    assert step is not None
    return step


def reasons(found: QueueCursor) -> dict[str, Reason]:
    """Return why those that are left got no turn."""
    return {item.pod.name: why[0] for item, why in found.rest()}


def test_as_many_as_there_are_places() -> None:
    """Two of four; whoever needs no place goes as well."""
    assert names(walk(*map(step, "abcd"))) == ["a", "b"]
    free = step("d", needs_slot=False)
    assert names(walk(step("a"), step("b"), step("c"), free)) == ["a", "b", "d"]
    assert names(walk(step("a"), step("b", broken=True), running=3)) == ["a"]


def up(*gone: str) -> dict[str, Pod]:
    """Return the pods a to d by name, without some."""
    return {name: make.pod(name=name) for name in "abcd" if name not in gone}


def keeps(found: QueueCursor, item: QueueStep, now: dict[str, Pod]) -> bool:
    """Whether a step keeps its slot when only these pods are up."""
    found.recount(now)
    return found.why_slot_is_lost(item) is None


def test_pods_that_others_take_down_take_places() -> None:
    """Our own are counted already; a step that needs no place goes on."""
    found = walk(*map(step, "abcd"), step("e", needs_slot=False), up=up())
    first, second = take(found), take(found)
    assert keeps(found, first, up("a"))
    assert keeps(found, second, up("a", "b"))
    assert not keeps(found, second, up("a", "c"))
    assert keeps(found, step("e", needs_slot=False), up("a", "c", "d"))
    found.came_to_nothing(second)
    assert found.budget == OwnerBudget(4, 0.5, 2, 2, 1, 1)
    assert names(found) == ["e"]
    assert keeps(found, first, up("a"))
    assert names(found) == ["c"]


def test_a_failed_call_makes_room_for_the_next() -> None:
    """Refusals cost nothing, every pod is tried."""
    found = walk(*map(step, "abcd"))
    tried = []
    while (item := found.next()) is not None:
        tried.append(item.pod.name)
        found.came_to_nothing(item)
    assert tried == ["a", "b", "c", "d"]
    assert found.budget == OwnerBudget(4, 0.5, 4, 4)
    free = walk(step("a", needs_slot=False))
    taken = take(free)
    free.came_to_nothing(taken)
    assert free.budget == OwnerBudget(4, 0.5, 4, 4)


def test_a_budget_that_refused_is_not_asked_again() -> None:
    """Its pods are skipped, the others go on."""
    found = walk(step("a", pdbs=(PDB,)), step("b", pdbs=(PDB,)), step("c"))
    first = take(found)
    found.came_to_nothing(first)
    found.close(first.pdbs)
    assert names(found) == ["c"]
    assert reasons(found) == {"b": Reason.PDB_BLOCKED}


def test_resizes_pass_closed_budgets() -> None:
    """They are none of a PodDisruptionBudget's business."""
    found = walk(step("a", Action.RESIZE, pdbs=(PDB,)))
    found.close((PDB,))
    assert names(found) == ["a"]


def test_a_canary_goes_alone() -> None:
    """Per VPA, and another one follows if it could not go."""
    found = walk(step("a"), step("b"), step("c", vpa="other"), unproven=frozenset({"web"}))
    first = take(found)
    assert names(found) == ["c"]
    assert reasons(found) == {"b": Reason.PROOF_PENDING}
    found.came_to_nothing(first)
    assert names(found) == ["b"]


def test_a_refused_resize_may_become_an_eviction() -> None:
    """After all else is done, if it may, and if there is a place and no canary out then."""
    wanting = step("a", Action.RESIZE, may_evict=True)
    found = walk(wanting, step("b", Action.RESIZE), step("c"), running=4)
    assert found.next() is wanting
    found.came_to_nothing(wanting)
    found.evict_later(wanting)
    assert names(found) == ["b", "c"]
    found = walk(wanting, step("b", Action.RESIZE))
    first = take(found)
    found.came_to_nothing(first)
    found.evict_later(first)
    assert names(found) == ["b", "a"]
    alone = walk(wanting, step("b"), unproven=frozenset({"web"}))
    first = take(alone)
    alone.evict_later(first)
    assert names(alone) == ["b"]


def test_an_eviction_instead_is_told_as_one() -> None:
    """What was planned as a resize is carried out and told as an eviction."""
    found = walk(step("a", Action.RESIZE, needs_slot=False, may_evict=True))
    first = take(found)
    found.evict_later(first)
    later = take(found)
    assert later.is_eviction
    assert later.needs_slot
    assert later.decision.done().reason is Reason.EVICTED
    assert later.decision.message.endswith("its resize was refused")
    never = walk(step("a", Action.RESIZE))
    never.evict_later(step("a", Action.RESIZE))
    assert names(never) == ["a"]


def test_a_vpa_that_does_not_help_stops() -> None:
    """Its resizes go on."""
    found = walk(step("a"), step("b", Action.RESIZE), step("c", vpa="other"))
    found.stop_evicting("web", (Reason.RECREATED_WITHOUT_CHANGE, "of no use"))
    assert names(found) == ["b", "c"]
    assert reasons(found) == {"a": Reason.RECREATED_WITHOUT_CHANGE}


def test_who_finds_no_place_is_told_of_the_owner() -> None:
    """Its numbers stand in the sentence, and who has the places; a broken pod counts with all."""
    found = walk(*map(step, "ab"), step("c"), step("d", broken=True), ready=3)
    taken = names(found)
    rest = list(found.rest())
    assert (taken, [left.pod.name for left, _ in rest]) == (["a", "d"], ["b", "c"])
    told = "a and d are being updated; only 2 of 4 pods of StatefulSet/web may be down at a time"
    assert rest[0][1] == (Reason.BUDGET_EXHAUSTED, told)

    found = walk(step("a", broken=True), running=2, ready=1)
    ((_, (_, message)),) = found.rest()
    assert message == "only 2 of 4 pods of StatefulSet/web may be down at a time"


def test_many_who_have_places() -> None:
    """Three of them are named."""
    found = walk(*map(step, "abcdef"), running=10, wanted=10)
    names(found)
    ((_, (_, message)),) = found.rest()
    assert message.startswith("a, b, c and 2 more are being updated; only 5 of 10 pods of")


def test_the_most_urgent_step_ranks_a_queue() -> None:
    """Be it not the first one."""
    ranks = [(2, -1.0, 0.0, "", ""), (0, -9.0, 0.0, "", "")]
    steps = tuple(step(str(number), rank=rank) for number, rank in enumerate(ranks))
    key = ObjectKey("", "StatefulSet", "web")
    queue = ActionQueue("default", key, OwnerBudget(4, 0.5, 4, 4), steps, frozenset(), frozenset())
    assert queue.rank == ranks[1]
