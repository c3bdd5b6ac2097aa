"""Running pods (updater) when calls fail: nothing twice, nothing too much, nothing for ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from app.model.errors import (
    ClusterError,
    Conflict,
    Invalid,
    NotFound,
    NotSent,
    Refused,
    TooMany,
    Unavailable,
)
from app.ports import PODS, VPAS, PatchKind, Ref, Resource
from app.updater.core.decisions import Reason
from app.updater.core.memory import Memory
from app.updater.core.plan import plan
from app.updater.core.rules import UpdateRules
from app.updater.executor import Batch
from app.updater.state import PlanVersion
from tests.cases import cases
from tests.faults import Fault
from tests.make import ALL_GATES
from tests.sandbox.worlds import snapshot_of
from tests.updater.stage import Call, Stage, budget, small, staged, vpa

BOOST = "vpaCpuStartupBoost/"
SILENCE = Unavailable("no answer in time")
BROKEN = Unavailable("internal error", status=500)
BUDGET = TooMany("Cannot evict pod", status=429, causes=(("DisruptionBudget", "no"),))

unproven = partial(staged, "--prove=off")  # pods that should be twice as big


def evictions(error: ClusterError, times: int = 1, *, too_late: bool = False) -> Fault:
    """Let evictions fail."""
    return Fault(error, "evict", times=times, too_late=too_late)


def resizes(error: ClusterError, times: int = 1, *, too_late: bool = False) -> Fault:
    """Let resizes fail."""
    return Fault(error, "patch", PODS, subresource="resize", times=times, too_late=too_late)


# --- evictions


@cases(
    "fault in_first_round",
    {
        "silence, in doubt": (evictions(SILENCE), 1),
        "silence, but done": (evictions(SILENCE, too_late=True), 2),
        "500, undone": (evictions(BROKEN), 2),
        "500, but done": (evictions(BROKEN, too_late=True), 2),
        "504, in doubt": (evictions(Unavailable("timeout", status=504)), 1),
        "409": (evictions(Conflict("another one", status=409)), 1),
        "404": (evictions(NotFound("gone", status=404)), 1),
        "403": (evictions(Refused("no right", status=403)), 2),
    },
)
def test_an_eviction_that_fails(fault: Fault, in_first_round: int) -> None:
    """A slot is given back only if the pod is known to be where it was; in the end all go."""
    stage = unproven()
    stage.faults.order(fault)
    counts: list[int] = []
    stage.asked.after = lambda _call: counts.append(len(stage.pods()))
    stage.round()
    assert len(stage.evicted()) == in_first_round
    stage.run(900)
    assert stage.requests() == ["200m"] * 4
    assert min(counts) >= 2
    assert len(set(stage.evicted())) == len(stage.evicted()) == 4


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
def test_a_call_that_was_not_sent(mode: str) -> None:
    """It is no failure: nothing is read, counted or paused, and the next plan acts."""
    stage = unproven(mode=mode)
    too_late = NotSent("not sent, for its time would be over")
    stage.faults.order(Fault(too_late, resource=PODS, times=4))
    before = stage.asked.count("get")
    stage.round()
    assert sorted(stage.reasons()) == ["BudgetExhausted"] * 2 + ["PlanOutdated"] * 2
    assert stage.metric("failed_eviction_attempts_total") == 0
    assert stage.metric("failed_in_place_update_attempts_total") == 0
    assert stage.asked.count("get") == before + 1  # the webhook's Lease
    stage.faults.clear()
    stage.round()
    assert "PlanOutdated" not in stage.reasons()


@cases(
    "fault mode reasons",
    {
        "all fail": (evictions(BROKEN, 4), "Recreate", ["EvictionError"] * 4),
        "one that stood by goes instead": (
            evictions(BROKEN),
            "Recreate",
            ["BudgetExhausted", "Evicted", "Evicted", "EvictionError"],
        ),
        "budget": (evictions(BUDGET), "Recreate", ["PDBBlocked"] * 4),
        "gone": (
            evictions(NotFound("gone", status=404)),
            "Recreate",
            ["BudgetExhausted", "BudgetExhausted", "Evicted", "PodTerminating"],
        ),
        "resizes": (resizes(BROKEN, 4), "InPlaceOrRecreate", ["ResizeError"] * 4),
        "no place left for an eviction instead": (
            resizes(Invalid("never", status=422)),
            "InPlaceOrRecreate",
            ["BudgetExhausted", "ResizeError", "Updated", "Updated"],
        ),
    },
)
def test_decisions_are_told_as_they_came_out(fault: Fault, mode: str, reasons: list[str]) -> None:
    """What is published is not the eviction that was planned, but what became of it."""
    stage = unproven(mode=mode)
    stage.faults.order(fault)
    stage.round()
    assert sorted(stage.reasons()) == reasons
    assert stage.metric("pod_decisions", reason=reasons[0]) == reasons.count(reasons[0])


@pytest.mark.parametrize("is_shown", [True, False])
def test_a_budget_that_refuses(is_shown: bool) -> None:
    """One refusal ends a round for all pods under it, seen or not; pauses grow instead of calls."""
    stage = unproven(replicas=10)
    if is_shown:
        stage.apply(budget(unavailable=5))
        stage.run(5)
    stage.faults.order(evictions(BUDGET, 100_000))
    stage.round()
    assert stage.asked.count("evict") == 1
    stage.run(3600)
    assert stage.asked.count("evict") <= 12
    assert (stage.evicted(), set(stage.reasons())) == ([], {"PDBBlocked"})
    stage.faults.clear()
    stage.run(900)
    assert stage.asked.count("evict") >= 10


def stateful(*flags: str) -> Stage:
    """Return a StatefulSet of four, whose pods keep their names."""
    stage = Stage("--prove=off", *flags)
    found = small() | {"kind": "StatefulSet"}
    found["spec"]["serviceName"] = "web"
    stage.apply(found, vpa(target="StatefulSet/web"))
    stage.run(30)
    stage.recommend("200m/200Mi = =")
    return stage


def test_a_pod_of_the_same_name() -> None:
    """A pod that was created again between plan and call is not even asked about."""
    stage = stateful("--update-concurrency=1")

    def recreate(call: Call) -> None:
        if call.verb == "evict" and len(stage.evicted()) == 1:
            for name in {"web-0", "web-1", "web-2", "web-3"} - set(stage.evicted()):
                stage.sandbox.cluster.delete(Ref(PODS, "default", name))
            stage.sandbox.advance(20)
            stage.run_watch()

    stage.asked.after = recreate
    stage.round()
    assert stage.asked.count("evict") == 1


def test_a_pod_of_the_same_name_that_the_watch_does_not_show() -> None:
    """The API server knows it by its uid; no other pod goes in its place."""
    stage = stateful()
    stage.run_watch()
    stage.watch_lags = True
    uids = stage.uids()
    for name in ("web-0", "web-1", "web-2", "web-3"):
        stage.sandbox.cluster.delete(Ref(PODS, "default", name))
    stage.sandbox.advance(30)
    fresh = stage.uids()
    stage.round()
    assert stage.asked.count("evict") == 2
    assert stage.uids() == fresh != uids


@cases(
    "change evictions reason",
    {
        "deleted": (
            lambda stage: stage.sandbox.cluster.delete(Ref(VPAS, "default", "web")),
            1,
            "PlanOutdated",
        ),
        "off": (lambda stage: stage.apply(vpa(mode="Off")), 1, "PlanOutdated"),
        "status": (lambda stage: stage.recommend("201m/200Mi = ="), 3, "Evicted"),
    },
)
def test_a_vpa_that_changes_between_plan_and_call(
    change: Callable[[Stage], None], evictions: int, reason: str
) -> None:
    """Nothing more is done in its name; what its recommender writes delays nothing."""
    stage = unproven("--update-concurrency=1", replicas=6)

    def come_between(call: Call) -> None:
        if call.verb == "evict":
            change(stage)
            stage.run_watch()

    stage.asked.after = come_between
    stage.round()
    assert len(stage.evicted()) == evictions
    assert stage.reasons().count(reason) >= 2


def test_a_webhook_that_dies_in_the_middle() -> None:
    """Evictions end within a round once its Lease is old; rounds without it are counted."""
    stage = unproven("--update-concurrency=1", "--eviction-rate-limit=0.05", replicas=20)
    stage.webhook_beats = False
    stage.run(70)
    after = len(stage.evicted())
    assert 1 <= after <= 5
    stage.run(600)
    assert len(stage.evicted()) == after
    assert "LeaseStale" in stage.reasons()
    assert stage.metric("admission_controller_status_invalid_total", reason="invalid") >= 5


@pytest.mark.parametrize("is_seen", [True, False])
def test_pods_that_go_between_two_calls(is_seen: bool) -> None:
    """What others take away in the middle of a round is no longer ours to take, once it is seen."""
    stage = unproven("--update-concurrency=1", replicas=6)

    def kill(call: Call) -> None:
        if call.verb == "evict" and len(stage.evicted()) == 1:
            standing = [pod["metadata"]["name"] for pod in stage.pods()]
            for name in standing[-2:]:
                stage.sandbox.cluster.delete(Ref(PODS, "default", name))
            if is_seen:
                stage.run_watch()

    stage.asked.after = kill
    stage.round()
    assert len(stage.evicted()) == (1 if is_seen else 3)
    told = "are not running; only 3 of 6 pods of ReplicaSet/web-"
    assert any(told in item.message for item in stage.parts.decisions.decisions()) is is_seen


def test_a_leader_that_goes_between_plan_and_call() -> None:
    """It makes no further call, and the next leader breaks no budget and evicts no pod twice."""
    stage = unproven("--update-concurrency=1", replicas=6)

    def lose(call: Call) -> None:
        stage.leads = not (call.verb == "evict" and len(stage.evicted()) == 2)

    stage.asked.after = lose
    stage.round()
    first = stage.evicted()
    assert len(first) == 2
    stage.restart()
    stage.leads = True
    stage.round()
    assert len(stage.evicted()) == 1
    stage.run(300)
    assert not set(first) & set(stage.evicted())
    assert stage.requests() == ["200m"] * 6


def test_a_leader_that_goes_during_a_trial() -> None:
    """A trial takes its time; a process that lost the lead meanwhile evicts no pod."""
    stage = unproven("--prove=dry-run")

    def lose(call: Call) -> None:
        stage.leads = stage.leads and call.verb != "create"

    stage.asked.after = lose
    stage.round()
    assert not stage.leads
    assert stage.evicted() == []


@pytest.mark.parametrize(
    ("mode", "reasons"),
    [
        ("Recreate", ["BudgetExhausted", "BudgetExhausted", "Evicted", "EvictionError"]),
        ("InPlaceOrRecreate", ["BudgetExhausted", "BudgetExhausted", "ResizeError", "Updated"]),
    ],
)
def test_an_error_of_ours_ends_no_round(mode: str, reasons: list[str]) -> None:
    """It is one pod's matter, of which it is not told that it was updated."""
    stage = unproven("--update-concurrency=1", mode=mode)

    def fail(call: Call) -> None:
        if call.verb == "evict" or call.subresource == "resize":
            stage.asked.before = lambda _call: None
            raise ZeroDivisionError

    stage.asked.before = fail
    stage.round()
    assert sorted(stage.reasons()) == reasons


@pytest.mark.parametrize("hours", [0, -24, -1, 1, 24])
def test_a_watch_that_lags(hours: int) -> None:
    """What was evicted counts while it is not seen, wherever the clock is set meanwhile."""
    stage = unproven(replicas=6)
    stage.run_watch()
    stage.watch_lags = True
    stage.run(1)
    stage.wall.ahead = timedelta(hours=hours)
    stage.run(109)
    assert len(stage.evicted()) == len(set(stage.evicted())) == 3
    stage.watch_lags = False
    stage.run(300)
    assert stage.requests() == ["200m"] * 6


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_clock_that_is_set_while_tokens_are_waited_for(hours: int) -> None:
    """A round ends in time, and the rate is as before."""
    unchecked = "--use-admission-controller-status=false"
    stage = unproven(unchecked, "--update-concurrency=1", "--eviction-rate-limit=0.05", replicas=6)
    began = stage.clock.monotonic()

    def set_clock(call: Call) -> None:
        if call.verb == "evict" and len(stage.evicted()) == 1:
            stage.wall.ahead = timedelta(hours=hours)

    stage.asked.before = set_clock
    stage.round()
    assert stage.clock.monotonic() - began <= 61
    assert len(stage.evicted()) == 3


def test_a_plan_from_before_another_loop_disturbed_the_owner() -> None:
    """Once the end of a boost took a slot meanwhile, the rest is left to the next plan."""
    stage = unproven(
        "--update-concurrency=1", "--eviction-rate-limit=0.1", replicas=6, restarts=True
    )

    def end_boost() -> None:
        name = stage.pods()[-1]["metadata"]["name"]
        body = {"metadata": {"annotations": {BOOST + "app": "{}"}}}
        stage.sandbox.cluster.patch(Ref(PODS, "default", name), body, kind=PatchKind.MERGE)
        stage.run_watch()
        assert stage.parts.boosts is not None
        stage.parts.boosts.tick(stage.wall.now())

    stage.sandbox.clock.call_later(5, end_boost)
    stage.round()
    assert (len(stage.evicted()), stage.carried.count("patch", "resize")) == (1, 1)
    assert "PlanOutdated" in stage.reasons()


# --- resizes


@cases(
    "error evicted",
    {
        "silence": (SILENCE, False),
        "node": (Refused("node", status=403, causes=(("NodeCapacity", "no"),)), True),
        "422": (Invalid("QOS Class may not change", status=422), True),
    },
)
def test_a_resize_that_fails(error: ClusterError, evicted: bool) -> None:
    """Only a refusal that no waiting can mend leads to an eviction; the rest is tried again."""
    stage = unproven(mode="InPlaceOrRecreate")
    stage.faults.order(resizes(error, 3))
    uids = stage.uids()
    stage.run(30 * 60)
    assert stage.requests() == ["200m"] * 4
    assert bool(stage.evicted()) is evicted
    assert (stage.uids() == uids) is not evicted


def test_what_a_node_has_no_room_for_is_infeasible() -> None:
    """A refusal for the node's capacity is counted as such, also where pods are evicted instead."""
    stage = unproven(mode="InPlaceOrRecreate")
    refused = Refused("node", status=403, causes=(("NodeCapacity", "no"),))
    stage.faults.order(resizes(refused, 1))
    stage.run(2 * 60)
    failed = {
        reason: stage.metric("failed_in_place_update_attempts_total", reason=reason)
        for reason in ("InPlaceUpdateInfeasible", "InPlaceUpdateError")
    }
    assert failed == {"InPlaceUpdateInfeasible": 1, "InPlaceUpdateError": 0}


@pytest.mark.parametrize("prove", ["canary", "dry-run"])
def test_resizes_that_never_work_after_a_start(prove: str) -> None:
    """Nothing is proven yet, and only pods that cannot be resized could prove it."""
    stage = staged(f"--prove={prove}", mode="InPlaceOrRecreate")
    missing = NotFound("the server could not find the requested resource", status=404)
    stage.faults.order(resizes(missing, 1000))
    stage.run(15 * 60)
    assert (stage.requests(), len(stage.evicted())) == (["200m"] * 4, 4)


@pytest.mark.parametrize("error", [SILENCE, BROKEN])
def test_a_resize_without_an_answer(error: ClusterError) -> None:
    """A resize that was carried out all the same counts as done, and restarts are not doubled."""
    stage = unproven(mode="InPlaceOrRecreate", restarts=True)
    stage.faults.order(resizes(error, 100, too_late=True))
    stage.run(900)
    assert stage.requests() == ["200m"] * 4
    assert stage.carried.count("patch", "resize") == 4


@pytest.mark.parametrize("too_late", [False, True], ids=["undone", "done"])
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
def test_an_api_server_that_dies_in_the_middle(mode: str, too_late: bool) -> None:
    """Once it is back the workload goes on, and nothing is done twice."""
    stage = unproven("--update-concurrency=1", mode=mode, restarts=True)
    stage.faults.order(Fault(SILENCE, "", PODS, times=1000))
    if too_late:
        stage.faults.order(Fault(SILENCE, "evict", times=2, too_late=True))
        stage.faults.order(resizes(SILENCE, 2, too_late=True))
    uids = stage.uids()
    stage.round()
    stage.faults.clear()
    began = stage.carried.count("evict") + stage.carried.count("patch", "resize")
    assert began == (2 if too_late else 0)
    stage.run(20)
    stage.round()
    assert stage.carried.count("evict") + stage.carried.count("patch", "resize") == began + 2
    stage.run(300)
    assert stage.requests() == ["200m"] * 4
    evicted = 0 if mode == "InPlaceOrRecreate" else 4
    assert (len(stage.evicted()), len(uids - stage.uids())) == (evicted, evicted)
    assert stage.carried.count("patch", "resize") == 4 - evicted
    assert stage.metric("in_place_updated_pods_total") == 4 - evicted
    assert stage.metric("evicted_pods_total") == evicted


def test_a_pod_that_goes_while_its_resize_is_silent() -> None:
    """It was not resized, so no event says so."""
    stage = unproven("--min-replicas=1", replicas=1, mode="InPlaceOrRecreate")

    def go(call: Call) -> None:
        if call.subresource == "resize":
            stage.asked.before = lambda _call: None
            stage.sandbox.cluster.delete(Ref(PODS, "default", call.name))
            stage.sandbox.advance(60)

    stage.asked.before = go
    stage.faults.order(resizes(SILENCE))
    stage.round()
    assert stage.asked.count("patch", "resize") == 1
    assert stage.metric("in_place_updated_pods_total") == 0


@pytest.mark.parametrize(
    ("mode", "resource"), [("Recreate", None), ("InPlaceOrRecreate", PODS)], ids=["all", "pods"]
)
def test_an_api_server_that_stays_silent(mode: str, resource: Resource | None) -> None:
    """While nothing is answered nothing piles up; later everything goes on."""
    stage = unproven("--update-concurrency=1", mode=mode, restarts=True)
    uids = stage.uids()
    stage.faults.order(Fault(SILENCE, "", resource, times=100_000))
    stage.run(600)
    assert (stage.requests(), stage.uids()) == (["100m"] * 4, uids)
    stage.faults.clear()
    stage.run(900)
    assert stage.requests() == ["200m"] * 4


def test_a_resize_that_says_not_what_to_write_evicts_no_pod() -> None:
    """Only a decision to evict evicts; such a resize is an error of ours."""
    stage = unproven("--update-concurrency=1", mode="InPlaceOrRecreate")
    stage.run_watch()
    snapshot = snapshot_of(stage.sandbox)
    made = plan(snapshot, UpdateRules(), ALL_GATES, Memory(), stage.clock.now())
    (queue,) = made.queues
    steps = [replace(step, decision=replace(step.decision, change=None)) for step in queue.steps]
    queues = [replace(queue, steps=tuple(steps))]
    until = stage.clock.monotonic() + 60
    batch = Batch(queues, snapshot, PlanVersion("rounds", 0), 1, until)
    result = stage.parts.executor.carry_out(batch)
    assert stage.asked.count("evict") == 0
    assert Reason.RESIZE_ERROR in {found.reason for found in result.decisions.values()}


def test_marks_that_cannot_be_written() -> None:
    """An annotation that is refused costs the resize nothing."""
    stage = unproven(mode="InPlaceOrRecreate")

    def refuse(call: Call) -> None:
        if call.verb == "patch" and not call.subresource:
            raise Refused("no right", status=403)

    stage.asked.before = refuse
    stage.run(300)
    assert stage.requests() == ["200m"] * 4
    assert stage.metric("in_place_updated_pods_total") == 4


def test_without_a_connection_nothing_is_tried_in_vain() -> None:
    """An API server that is away costs one call a worker, no pause, and soon all goes on."""
    stage = unproven("--update-concurrency=1", replicas=10)
    stage.restart()
    stage.faults.order(Fault(NotSent("no connection"), "evict", times=1))
    stage.run(0.5)
    assert (stage.asked.count("evict"), stage.metric("failed_eviction_attempts_total")) == (1, 0)
    stage.run(2)
    assert len(stage.evicted()) == 5
