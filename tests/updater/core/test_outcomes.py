"""What is learnt from calls that were accepted or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from app.model.errors import (
    ClusterError,
    Conflict,
    Invalid,
    NotFound,
    Refused,
    TooMany,
    Unavailable,
)
from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.updater.core.decisions import Action, Reason
from app.updater.core.memory import (
    Infeasible,
    Memory,
    Pause,
    PodMemory,
    Resized,
    longer,
    unseen_pdb_key,
)
from app.updater.core.outcomes import (
    Outcome,
    RefusalKind,
    eviction_refusal,
    evicts_instead,
    learn,
    refusal_reason,
    resize_refusal,
    undone,
)
from app.updater.core.proof import Breaker, Breakers
from app.updater.core.rules import UpdateRules
from tests import make
from tests.cases import cases
from tests.updater.core import boosts
from tests.updater.core.scenes import (
    NOW,
    OURS,
    UNPROVEN,
    Scene,
    amounts,
    container,
    resize_condition,
    running,
    several,
)

POD = running(container("app", "100m/100Mi"))
CAPACITY = (("NodeCapacity", "too much"),)
BUDGET = (("DisruptionBudget", "needs 2 healthy pods"),)
TOO_MUCH = "node didn't have enough allocatable resources: cpu, requested: 9, allocatable: 8"


def scene(mode: str = "Recreate", rules: UpdateRules = OURS, *others: Json) -> Scene:
    """Return a scene of three pods that are too small."""
    return Scene(several(POD, 3), mode=mode, rules=rules, others=others)


def outcome(found: Scene, error: ClusterError | None = None, **decided: object) -> Outcome:
    """Return what came of the first step of a scene, with another decision if wanted."""
    queue = found.plan().queues[0]
    step = queue.steps[0]
    decision = replace(step.decision, **cast("dict[str, Any]", decided))
    return Outcome(queue, replace(step, decision=decision), found.now, error)


def after(
    found: Scene, error: ClusterError | None = None, memory: Memory | None = None, **decided: object
) -> Memory:
    """Return the memory after the first step of a scene was carried out."""
    return learn(memory or found.plan().memory, [outcome(found, error, **decided)], found.rules)


def first(memory: Memory) -> PodMemory:
    """Return what is remembered of the first pod."""
    return memory.pods.get("uid-web-0", PodMemory("default", "web-0"))


EITHER = "InPlaceOrRecreate"


def test_an_eviction_is_believed_and_its_replacement_awaited() -> None:
    """The pod counts as gone, and whoever comes now is looked at."""
    found = after(scene())
    assert first(found) == PodMemory("default", "web-0", evicted=NOW)
    (key, proof) = next(iter(found.proofs.items()))
    assert key == ("default", ObjectKey("", "StatefulSet", "web"), "web")
    assert proof.awaited == ("uid-web-0",)
    assert proof.known == {"uid-web-0", "uid-web-1", "uid-web-2"}
    assert dict(proof.expected) == {
        ("app", "cpu"): make.quantity("200m"),
        ("app", "memory"): make.quantity("200Mi"),
    }


SILENCE = Unavailable("no answer in time")


def unanswered(found: Scene, memory: Memory | None = None) -> tuple[Outcome, Memory]:
    """Return the first step of a scene when nobody answered, and what is learnt of that."""
    silent = replace(outcome(found, SILENCE), is_unanswered=True)
    return silent, learn(memory or found.plan().memory, [silent], found.rules)


def test_an_eviction_in_doubt_is_awaited_like_any_other() -> None:
    """Nobody else goes until it is known, and what is seen later is not learnt twice."""
    pause = Pause(Reason.PDB_BLOCKED, "no", 3, NOW)
    budgets = {("default", "web"): pause}
    memory = Memory(breakers=Breakers(Breaker(is_open=True, failures=1)), pdb_pauses=budgets)
    call, doubted = unanswered(scene("Recreate", OURS, make.budget_json()), memory)
    pod, (proof,) = first(doubted), doubted.proofs.values()
    assert pod.evicted == NOW
    assert pod.pause is not None
    assert proof.awaited == ("uid-web-0",)
    assert doubted.breakers.canaries == {"uid-web-0"}
    assert doubted.pdb_pauses == budgets
    judged = proof.after_replacement("new", helped=False, rules=OURS, now=NOW)
    (key,) = doubted.proofs
    known = replace(doubted, proofs={key: judged})
    done = learn(known, [replace(call, error=None)], OURS)
    assert done == replace(known, pdb_pauses={})


def test_an_eviction_in_doubt_that_was_not_carried_out() -> None:
    """Its place is free again, its replacement is not awaited, another canary may go."""
    found = scene()
    before = Memory(breakers=Breakers(Breaker(is_open=True, failures=1)))
    call, doubted = unanswered(found, before)
    memory = undone(doubted, call)
    pod, (proof,) = first(memory), memory.proofs.values()
    assert (pod.evicted, pod.pause is not None) == (None, True)
    assert proof.awaited == ()
    assert memory.breakers.canaries == frozenset()
    assert undone(before, call) == before


def test_a_second_try_is_not_taken_back_with_the_first() -> None:
    """Whoever was tried again since is a matter of the later try."""
    for found in (scene(), scene(EITHER)):
        call, _ = unanswered(found)
        _, later = unanswered(replace(found, now=NOW + timedelta(minutes=3)))
        assert undone(later, call) == later


def test_a_resize_in_doubt() -> None:
    """It counts as under way until it is seen, and rests as one that failed."""
    call, doubted = unanswered(scene(EITHER))
    pod = first(doubted)
    assert pod.resized == Resized(NOW, 0, "1")
    assert pod.pause is not None
    taken_back = first(undone(doubted, call))
    assert taken_back is not None
    assert (taken_back.resized, taken_back.pause) == (None, pod.pause)
    done = learn(doubted, [replace(call, error=None, generation=3)], OURS)
    assert first(done) == PodMemory("default", "web-0", resized=Resized(NOW, 3, "1"))


def test_an_eviction_instead_of_a_resize_counts_as_one() -> None:
    """The action that was taken decides, not the one that was planned."""
    found = after(scene(EITHER), action=Action.EVICT, change=None)
    assert (first(found).evicted, len(found.proofs)) == (NOW, 1)


def test_nothing_to_compare_is_nothing_to_await() -> None:
    """A pod whose numbers are not known can prove nothing."""
    assert after(scene(), numbers=None).proofs == {}


@pytest.mark.parametrize(
    ("error", "pauses", "remembered"),
    [
        (TooMany("no", causes=BUDGET), ["web"], None),
        (TooMany("slow down"), [], Reason.EVICTION_ERROR),
        (Unavailable("etcd"), [], Reason.EVICTION_ERROR),
        (NotFound("gone"), [], None),
        (Conflict("another uid"), [], None),
    ],
)
def test_refused_evictions(
    error: ClusterError, pauses: Sequence[str], remembered: Reason | None
) -> None:
    """A budget rests as a whole, a pod for itself, and what is gone is gone."""
    found = after(scene("Recreate", OURS, make.budget_json()), error)
    assert [name for _, name in found.pdb_pauses] == pauses
    pause = first(found).pause
    assert (pause.reason if pause else None) is remembered


def test_a_budget_that_lets_go_ends_its_pause() -> None:
    """And one that refuses again rests longer."""
    pause = Pause(Reason.PDB_BLOCKED, "no", 3, NOW)
    memory = Memory(pdb_pauses={("default", "web"): pause, ("default", "other"): pause})
    found = scene("Recreate", OURS, make.budget_json())
    assert set(after(found, memory=memory).pdb_pauses) == {("default", "other")}
    again = after(found, TooMany("no", causes=BUDGET), memory=memory)
    assert again.pdb_pauses[("default", "web")].count == 4


def test_a_budget_that_is_not_seen() -> None:
    """It stands under the owner of the pod, and goes when it lets one go."""
    place = unseen_pdb_key("default", ObjectKey("", "StatefulSet", "web"))
    held = after(scene("Recreate", OURS), TooMany("no", causes=BUDGET))
    assert held.pdb_pauses[place].message == "PodDisruptionBudget (not in the watch cache): no"
    assert after(scene("Recreate", OURS), memory=held).pdb_pauses == {}


def test_a_resize_is_remembered_until_it_is_seen() -> None:
    """With the generation that the server told; a pause and an old refusal are over."""
    accepted = replace(outcome(scene(EITHER)), generation=7)
    expected = PodMemory("default", "web-0", resized=Resized(NOW, 7, "1"))
    assert first(learn(Memory(), [accepted], OURS)) == expected


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unavailable("deadline"), Reason.RESIZE_ERROR),
        (Refused("exceeded quota"), Reason.RESIZE_ERROR),
        (NotFound("gone"), None),
    ],
)
def test_refused_resizes(error: ClusterError, reason: Reason | None) -> None:
    """A pod rests, and is not evicted."""
    pause = first(after(scene(EITHER), error)).pause
    assert (pause.reason if pause else None) is reason


@pytest.mark.parametrize("mode", [EITHER, "InPlace"])
def test_what_a_node_refused_is_remembered(mode: str) -> None:
    """What was asked for, what was blamed, and how big the node was."""
    node = make.node_json("node-1", cpu="4", memory="8Gi")
    error = Refused(TOO_MUCH, causes=CAPACITY)
    wanted = {("app", name): make.quantity(text) for name, text in amounts("200m/200Mi").items()}
    unknown = Infeasible(wanted, frozenset({"cpu"}), NOW, None)
    assert first(after(scene(mode), error)).infeasible == unknown
    on_node = scene(mode, OURS, node)
    known = replace(unknown, allocatable=on_node.snapshot().nodes["node-1"].allocatable)
    assert first(after(on_node, error)).infeasible == known


def test_refusals_without_numbers() -> None:
    """A step without numbers remembers a refusal of nothing in particular."""
    pod = first(after(scene(EITHER), Refused(TOO_MUCH, causes=CAPACITY), numbers=None))
    assert pod.infeasible == Infeasible({}, frozenset({"cpu"}), NOW, None)


def test_a_wish_taken_back_does_not_end_the_refusal() -> None:
    """Only a new wish that is accepted does."""
    pods = [
        running(
            container("app", "200m/200Mi"),
            conditions=[resize_condition("Pending", "Infeasible", "no room")],
        )
    ]
    pods[0]["status"]["containerStatuses"][0]["resources"] = {
        "requests": make.amounts("100m", "100Mi")
    }
    calm = several(running(container("app", "200m/200Mi")), 3)[1:]
    found = Scene([*pods, *calm], mode="InPlace", rules=OURS)
    pod = first(after(found))
    assert pod.infeasible is not None
    fresh = replace(found, pods=several(POD, 3))
    assert first(after(fresh, memory=Memory(pods={"uid-web-0": pod}))).infeasible is None


def test_ends_of_boosts() -> None:
    """The first try is remembered, be it refused; pauses are no longer than five minutes."""
    found = boosts.scene(boosts.boosted())
    accepted = first(after(found))
    assert accepted == PodMemory(
        "default", "web-0", resized=Resized(NOW, 0, "1"), unboost_tried_at=NOW
    )
    moments = [NOW + number * timedelta(minutes=10) for number in range(8)]
    refused = outcome(found, Unavailable("no"))
    pod = first(learn(Memory(), [replace(refused, at=now) for now in moments], OURS))
    assert pod.unboost_tried_at == NOW
    assert pod.pause is not None
    assert pod.pause.until == moments[-1] + timedelta(minutes=5)


def test_outcomes_are_taken_in_order() -> None:
    """A refusal and then a success leave the success."""
    found = scene("Recreate", UNPROVEN)
    outcomes = [outcome(found, Unavailable("no")), outcome(found)]
    expected = PodMemory("default", "web-0", evicted=NOW)
    assert first(learn(Memory(), outcomes, UNPROVEN)) == expected


BUDGET_CAUSE = (("DisruptionBudget", "The disruption budget web needs 2 healthy pods and has 2"),)


@cases(
    "error expected",
    {
        "too much for the node": (Refused("no", causes=CAPACITY), RefusalKind.INFEASIBLE),
        "refused for another cause": (Refused("no", causes=(("Other", ""),)), RefusalKind.HOPELESS),
        "not found": (NotFound("no", causes=CAPACITY), RefusalKind.GONE),
        "plain": (ClusterError("no"), RefusalKind.RETRY),
        "timeout": (Unavailable("deadline"), RefusalKind.RETRY),
        "429": (TooMany("slow down"), RefusalKind.RETRY),
        "conflict": (Conflict("changed"), RefusalKind.RETRY),
        "invalid": (Invalid("Pod QOS Class may not change"), RefusalKind.HOPELESS),
        "no resize subresource": (
            NotFound("the server could not find the requested resource"),
            RefusalKind.HOPELESS,
        ),
        "no such method": (ClusterError("no", status=405), RefusalKind.HOPELESS),
        "quota": (Refused("exceeded quota: rq"), RefusalKind.RETRY),
        "limit range": (Refused("maximum cpu usage per Container is 500m"), RefusalKind.RETRY),
        "no right": (Refused('User "u" cannot patch resource "pods/resize"'), RefusalKind.RETRY),
    },
)
def test_after_resize(error: ClusterError, expected: RefusalKind) -> None:
    """Only what no waiting can mend, and recreating can, leads to an eviction."""
    assert resize_refusal(error) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NotFound("gone"), RefusalKind.GONE),
        (Conflict("another uid"), RefusalKind.GONE),
        (TooMany("Cannot evict pod", causes=BUDGET_CAUSE), RefusalKind.PDB),
        (TooMany("DisruptionBudget is still being processed"), RefusalKind.PDB),
        (TooMany("slow down"), RefusalKind.RETRY),
        (
            Unavailable("This pod has more than one PodDisruptionBudget, which is not supported"),
            RefusalKind.PDB,
        ),
        (Unavailable("etcd"), RefusalKind.RETRY),
        (Refused("no right"), RefusalKind.RETRY),
    ],
)
def test_after_eviction(error: ClusterError, expected: RefusalKind) -> None:
    """A budget that holds is no failure of the pod."""
    assert eviction_refusal(error) is expected


def test_evicts_instead() -> None:
    """Only where a resize will never do; after a timeout or a conflict it is tried again."""
    found = {kind for kind in RefusalKind if evicts_instead(kind)}
    assert found == {RefusalKind.HOPELESS, RefusalKind.INFEASIBLE}


def test_pauses_double_up_to_a_limit() -> None:
    """Ten seconds, twenty, forty, and never more than ten minutes."""
    pause, seconds = None, []
    for _ in range(9):
        pause = longer(pause, Reason.EVICTION_ERROR, "no", NOW)
        seconds.append((pause.until - NOW).total_seconds())
    assert seconds == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert pause is not None
    assert not pause.is_over(NOW + timedelta(seconds=599))
    assert pause.is_over(NOW + timedelta(seconds=600))


def test_pauses_are_no_shorter_than_asked() -> None:
    """A server may ask for more, but not for ever."""
    for asked, given in ((33, 33), (1e300, 3600)):
        pause = longer(None, Reason.EVICTION_ERROR, "no", NOW, retry_after_seconds=asked)
        assert pause.until == NOW + timedelta(seconds=given)


@pytest.mark.parametrize(
    ("action", "error", "reason"),
    [
        (Action.EVICT, TooMany("no", causes=BUDGET_CAUSE), Reason.PDB_BLOCKED),
        (Action.EVICT, NotFound("gone"), Reason.POD_TERMINATING),
        (Action.EVICT, Unavailable("etcd"), Reason.EVICTION_ERROR),
        (Action.RESIZE, Refused("no", causes=CAPACITY), Reason.RESIZE_INFEASIBLE),
        (Action.UNBOOST, Conflict("changed"), Reason.RESIZE_ERROR),
    ],
)
def test_what_is_told_of_a_refusal(action: Action, error: ClusterError, reason: Reason) -> None:
    """The reason of a pod for which a call was refused, in the words of its decisions."""
    assert refusal_reason(action, error)[0] is reason
