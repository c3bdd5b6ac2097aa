"""Startup boosts end when they are due, within the budget, and whatever happens."""

from __future__ import annotations

import pytest

from app.model.errors import ClusterError, Conflict, Invalid, Refused, TooMany, Unavailable
from app.model.fields import Json
from app.ports import PODS, VPAS, PatchKind, Ref
from tests.cases import cases
from tests.faults import Fault
from tests.updater.stage import Call, Stage, in_other, small, vpa

SILENCE = Unavailable("no answer in time")
BROKEN = Unavailable("internal error", status=500)


def boost(seconds: int, factor: int = 3) -> Json:
    """Return a boost for some seconds."""
    return {"cpu": {"type": "Factor", "factor": factor, "durationSeconds": seconds}}


def boosting(*flags: str, replicas: int = 4, seconds: int = 30) -> Stage:
    """Return a cluster whose pods begin with three times their cpu; they got ready just now."""
    stage = Stage("--prove=off", *flags)
    stage.apply(vpa(spec={"startupBoost": boost(seconds)}))
    stage.recommend("100m/100Mi = =")
    stage.apply(small(replicas=replicas))
    stage.run(3)
    assert stage.requests() == ["300m"] * replicas
    return stage


def change(stage: Stage, spec: Json) -> None:
    """Change the VPA."""
    stage.sandbox.cluster.patch(Ref(VPAS, "default", "web"), {"spec": spec}, kind=PatchKind.MERGE)


@cases("seconds by", {"shorter": (5, 8), "longer": (90, 95)})
def test_another_duration_counts_at_once(seconds: int, by: int) -> None:
    """The VPA as it is now decides."""
    stage = boosting(seconds=30)
    change(stage, {"startupBoost": boost(seconds)})
    stage.run(by - 10 if by > 30 else 1)
    assert stage.requests() == ["300m"] * 4
    stage.run(by - 3)
    assert stage.requests() == ["100m"] * 4


def test_a_vpa_that_comes_late() -> None:
    """Boosted pods without a VPA wait for one, however long."""
    stage = boosting(seconds=10)
    found = stage.sandbox.cluster.get(Ref(VPAS, "default", "web"))
    stage.sandbox.cluster.delete(Ref(VPAS, "default", "web"))
    stage.run(600)
    assert stage.requests() == ["300m"] * 4
    stage.apply({key: found[key] for key in ("apiVersion", "kind", "spec")}
                | {"metadata": {"name": "web", "namespace": "default"}})  # fmt: skip
    stage.recommend("100m/100Mi = =")
    stage.run(3)
    assert stage.requests() == ["100m"] * 4


def test_the_rate_holds_for_ends_of_boosts() -> None:
    """They draw from the same bucket as resizes."""
    stage = boosting("--eviction-rate-limit=0.1", "--update-concurrency=1", replicas=6)
    stage.run(26)
    began = stage.clock.monotonic()
    stage.run(4)
    passed = stage.clock.monotonic() - began
    assert 1 <= stage.requests().count("100m") <= 1 + passed * 0.1
    stage.run(120)
    assert stage.requests() == ["100m"] * 6


@pytest.mark.parametrize("is_new", [False, True])
def test_no_boost_ends_without_leading(is_new: bool) -> None:
    """A standby keeps its queue for the day it leads; a new process finds what was not ended."""
    stage = boosting()
    stage.leads = False
    stage.run(120)
    assert stage.requests() == ["300m"] * 4
    if is_new:
        stage.restart()
    stage.leads = True
    stage.run(5)
    assert stage.requests() == ["100m"] * 4


def test_a_rate_that_is_used_up_holds_up_no_other_namespace() -> None:
    """While some wait for the tokens of their namespace, others end in time; none is lost."""
    rate = ("--namespace-eviction-rate-limit=0.1", "--update-concurrency=1")
    stage = boosting(*rate, replicas=4, seconds=30)
    stage.apply(in_other(vpa(spec={"startupBoost": boost(40)})), in_other(small(replicas=1)))
    began, moments = stage.clock.monotonic(), list[int]()

    def look(call: Call) -> None:
        if call.subresource == "resize":
            moments.append(round(stage.clock.monotonic() - began))

    stage.asked.before = look
    stage.run(90)
    first, second, other, third, fourth = moments
    assert [second, third, fourth] == [first + 10, first + 20, first + 30]
    assert 40 <= other <= 42
    assert stage.requests() == ["100m"] * 4


def test_a_lead_that_comes_and_goes_delays_no_boost() -> None:
    """A look that the lead did not outlast has not failed, so no pause grows from it."""
    stage = boosting(seconds=30)
    assert stage.parts.boosts is not None
    stage.before_look = lambda: setattr(stage, "leads", False)
    for _ in range(8):
        stage.leads = True
        stage.clock.advance(60)
        stage.parts.boosts.tick(stage.clock.now())
        assert not stage.leads
    assert stage.asked.count("patch", "resize") == 0
    stage.before_look, stage.leads = (lambda: None), True
    stage.clock.advance(1)
    stage.parts.boosts.tick(stage.clock.now())
    assert stage.asked.count("patch", "resize") == 4


@pytest.mark.parametrize("is_gone", [False, True], ids=["unmarked", "gone"])
def test_what_is_not_boosted_any_more_leaves_the_queue(is_gone: bool) -> None:
    """No look is due again for a pod that is gone or without its marks."""
    stage = boosting(replicas=1)
    name = stage.pods()[0]["metadata"]["name"]
    if is_gone:
        stage.apply(small(replicas=0))
    else:
        body = {"metadata": {"annotations": {"vpaCpuStartupBoost/app": None}}}
        stage.sandbox.cluster.patch(Ref(PODS, "default", name), body, kind=PatchKind.MERGE)
    stage.clock.advance(60)
    stage.run_watch()
    boosts = stage.parts.boosts
    assert boosts is not None
    idle = 0.25  # seconds, while no entry is due before
    for _ in range(300):
        assert boosts.tick(stage.clock.now()) == idle
        stage.clock.advance(0.2)


@pytest.mark.parametrize("number", [1, 2], ids=["before pods are taken", "after"])
@pytest.mark.parametrize("due", ["by the clock", "by a change"])
def test_an_error_of_ours_loses_nothing(number: int, due: str) -> None:
    """What was to be looked at when something broke is looked at again, VPAs and pods alike."""
    stage = boosting(seconds=30)
    if due == "by the clock":
        stage.clock.advance(40)
    else:
        change(stage, {"startupBoost": boost(1)})
        stage.run_watch()
    looks = iter(range(1, 10))

    def fail() -> None:
        if next(looks) == number:
            raise ZeroDivisionError

    assert stage.parts.boosts is not None
    stage.before_look = fail
    with pytest.raises(ZeroDivisionError):
        stage.parts.boosts.tick(stage.clock.now())
    stage.before_look = lambda: None
    stage.run(3)
    assert stage.requests() == ["100m"] * 4


def test_a_refused_end_is_not_planned_before_its_pause_is_over() -> None:
    """After 1, 2, 3 refusals it rests 10, 20, 40 s: one look then, one call, and none between."""
    stage = boosting(seconds=5, replicas=1)
    stage.clock.advance(30)
    stage.run_watch()
    boosts = stage.parts.boosts
    assert boosts is not None
    stage.faults.order(Fault(Conflict("no"), "patch", PODS, subresource="resize", times=9))
    looks, calls, began = list[float](), list[float](), stage.clock.monotonic()

    def call(made: Call) -> None:
        if made.subresource == "resize":
            calls.append(round(stage.clock.monotonic() - began, 1))

    stage.asked.before = call
    while stage.clock.monotonic() - began < 75:
        seconds = boosts.tick(stage.clock.now())
        if seconds < 0.25:  # an entry is due sooner than it would idle
            looks.append(round(stage.clock.monotonic() + seconds - began, 1))
        stage.clock.advance(seconds)
    assert calls == [0.0, 10.0, 30.0, 70.0]
    assert set(looks) <= set(calls)


@pytest.mark.parametrize(
    "error", [SILENCE, BROKEN, Conflict("no"), Invalid("no"), Refused("no"), TooMany("slow down")]
)
def test_an_end_that_fails(error: ClusterError) -> None:
    """It is tried again, with growing pauses, and no pod is evicted for it."""
    stage = boosting(seconds=5)
    stage.faults.order(Fault(error, "patch", PODS, subresource="resize", times=12))
    stage.run(400)
    assert stage.requests() == ["100m"] * 4
    assert stage.evicted() == []
    assert stage.metric("failed_in_place_update_attempts_total", reason="UnboostError") > 0
