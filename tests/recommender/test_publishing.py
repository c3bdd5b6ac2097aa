"""Writes have an end, and what is urgent does not wait for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from threading import Event

import pytest

from app.model.errors import TooLate, Unavailable
from app.model.quantity import Quantity
from app.model.vpa import Vpa
from app.ports import CHECKPOINTS, VPAS, Json, Ref
from app.recommender.configuration import RoundRules
from app.recommender.core.model import RecommenderModel
from app.recommender.core.rules import RecommenderRules
from app.recommender.publishing import Fate, QueuedWrite, WriteQueue
from app.recommender.upstream.variant import UPSTREAM
from app.recommender.variants import OURS, Variant
from app.sandbox.stepped_clock import SteppedClock
from tests.faults import Fault
from tests.flows.recommending import eviction, vpa
from tests.flows.test_recommender_rows import orphan
from tests.recommender.scenes import LOAD, Scene
from tests.sandbox.worlds import container, deployment
from tests.sandbox_objects import pods_in
from tests.updater.stage import Call
from tests.waiting import eventually

A, B = ("Kind", "default", "a"), ("Kind", "default", "b")

CROWD = 120  # several pieces
VARIANTS = [pytest.param(OURS, id="ours"), pytest.param(UPSTREAM, id="as upstream")]


def nothing(_fate: Fate = Fate.WRITTEN) -> None:
    """Do nothing."""


def finish(pen: WriteQueue) -> None:
    """Make all writes."""
    while pen.is_busy:
        pen.step()
    pen.rest()


def test_an_object_is_written_once_at_a_time() -> None:
    """What is newer waits for what is under way; others overtake both."""
    pen, other = WriteQueue(SteppedClock(), 3, lambda: True), Event()
    order = list[str]()

    def slow() -> None:
        assert other.wait(20)
        order.append("older")

    def quick() -> None:
        order.append("other")
        other.set()

    pen.add([QueuedWrite(A, slow, nothing)])
    pen.step()
    pen.add(
        [QueuedWrite(A, lambda: order.append("newer"), nothing), QueuedWrite(B, quick, nothing)]
    )
    finish(pen)

    assert order == ["other", "older", "newer"]


def test_what_is_newer_takes_the_place_of_what_waits() -> None:
    """Only the newest is written; what is urgent goes first."""
    pen, order = WriteQueue(SteppedClock(), 1, lambda: True), list[str]()
    pen.add(
        [
            QueuedWrite(A, lambda: order.append("old"), nothing),
            QueuedWrite(B, lambda: order.append("b"), nothing),
        ]
    )
    pen.add([QueuedWrite(A, lambda: order.append("new"), nothing)], urgent=True)
    finish(pen)

    assert order == ["new", "b"]


@pytest.mark.parametrize("error", [Unavailable("503"), Unavailable(""), ValueError("a defect")])
def test_what_fails_is_told_once(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """However a write fails, the others are made, and one line counts those that failed."""
    pen, fates = WriteQueue(SteppedClock(), 2, lambda: True), list[tuple[str, Fate]]()

    def fail() -> None:
        raise error

    pen.add([QueuedWrite(A, fail, lambda fate: fates.append(("a", fate)))])
    pen.add([QueuedWrite(B, nothing, lambda fate: fates.append(("b", fate)))])
    finish(pen)

    assert sorted(fates) == [("a", Fate.FAILED), ("b", Fate.WRITTEN)]
    lines = [one.__dict__ for one in caplog.records if one.message == "not everything was written"]
    assert [line["failed"] for line in lines] == [1]
    assert lines[0]["error"]


def test_without_the_right_to_write_nothing_is_begun() -> None:
    """A write that is not allowed any more is put off."""
    pen, fates, made = WriteQueue(SteppedClock(), 2, lambda: False), list[Fate](), list[int]()
    pen.add([QueuedWrite(A, lambda: made.append(1), fates.append)])
    finish(pen)

    assert (fates, made) == ([Fate.PUT_OFF], [])


def test_without_time_until_its_turn_a_write_is_put_off(caplog: pytest.LogCaptureFixture) -> None:
    """A write whose call would have to wait until another replica may lead has not failed."""
    pen, fates = WriteQueue(SteppedClock(), 2, lambda: True), list[Fate]()

    def refuse() -> None:
        raise TooLate("not sent, for its time would be over")

    pen.add([QueuedWrite(A, refuse, fates.append)])
    finish(pen)

    assert (fates, caplog.records) == ([Fate.PUT_OFF], [])


def crowded() -> Scene:
    """Return a scene in which many have something to write; `zoo` comes last, with its own pod."""
    scene = Scene()
    scene.apply(*(vpa(f"vpa-{number:03}", target="Deployment/web") for number in range(CROWD)))
    scene.apply(deployment("zoo", load=LOAD), vpa("zoo"))
    scene.sandbox.advance(60)
    return scene


def starve(scene: Scene, after: Callable[[Call], bool]) -> None:
    """Let the pod of `zoo` be evicted for memory before a call."""
    (pod,) = pods_in(scene.sandbox, "default", "app=zoo")
    stamp = f"{scene.clock.now():%Y-%m-%dT%H:%M:%SZ}"

    def before(call: Call) -> None:
        if after(call):
            scene.watched.before = lambda _call: None
            scene.heard.events.append(eviction(pod, "2Gi", creationTimestamp=stamp))

    scene.watched.before = before


def delay(scene: Scene, seconds: float, is_slow: Callable[[Call], bool]) -> None:
    """Let some calls take their time."""

    def before(call: Call) -> None:
        if is_slow(call):
            scene.sandbox.advance(seconds)

    scene.watched.before = before


def statuses(scene: Scene) -> list[str]:
    """Return whose statuses were written, in order."""
    return [call.name for call in scene.watched.calls if call.subresource == "status"]


def test_a_kill_overtakes_statuses() -> None:
    """What a kill asks for is written next, in place of what it puts out of date."""
    scene = crowded()
    starve(scene, lambda call: call.subresource == "status")
    scene.rounds(1)

    written = statuses(scene)
    assert written.index("zoo") < CROWD // 2 + 1
    assert len(written) == len(set(written)) == CROWD + 2
    assert scene.amount("memory", name="zoo") > Quantity.parse("2Gi")


def test_a_kill_overtakes_checkpoints() -> None:
    """What a kill asks for is published before the last checkpoint is stored."""
    scene = crowded()
    starve(scene, lambda call: call.verb == "create")
    scene.rounds(1)

    calls = scene.watched.calls
    last = max(index for index, call in enumerate(calls) if call.subresource == "status")
    assert calls[last].name == "zoo"
    assert {call.verb for call in calls[last + 1 :]} == {"patch", "create"}
    assert scene.amount("memory", name="zoo") > Quantity.parse("2Gi")
    assert len(scene.checkpoints()) == CROWD + 2


def count(scene: Scene, fate: str, kind: str) -> float | None:
    """Return how many writes of a kind a metric tells of."""
    name = f"vpa_recommender_{fate}_writes_total"
    return scene.registry.get_sample_value(name, {"object": kind})


def test_a_slow_write_holds_nobody_up() -> None:
    """While one status hangs, every other one is written, and every checkpoint."""
    scene, others = crowded(), Event()
    was_released = list[bool]()

    def before(call: Call) -> None:
        if (call.name, call.subresource) == ("vpa-003", "status"):
            was_released.append(others.wait(20))

    def after(call: Call) -> None:
        if len(scene.watched.calls) >= 3 * (CROWD + 2) and call.verb == "create":
            others.set()

    scene.watched.before, scene.watched.after = before, after
    scene.rounds(1)

    assert was_released == [True]
    assert len(scene.checkpoints()) == CROWD + 2
    assert len(set(statuses(scene))) == CROWD + 2


class BrokenOnce:
    """A report that fails the first time."""

    def __init__(self) -> None:
        self._defects = [ZeroDivisionError()]

    def show(self, model: RecommenderModel) -> None:
        """Fail, or do nothing."""
        del model
        if self._defects:
            raise self._defects.pop()

    def count(self, model: RecommenderModel, vpas: Iterable[Vpa]) -> None:
        """Do nothing."""

    def refuse(self, problem: str) -> None:
        """Do nothing."""


def test_the_vpa_of_a_write_may_be_gone_when_it_ends() -> None:
    """A round that a defect ended leaves writes to the next one, which goes through."""
    scene = Scene()
    scene.around = replace(scene.around, report=BrokenOnce())
    recommender = scene.started()
    with pytest.raises(ZeroDivisionError):
        recommender.round(scene.clock.now())
    assert eventually(lambda: bool(scene.status()))
    scene.sandbox.cluster.delete(Ref(VPAS, "default", "web"))

    scene.rounds(1, recommender)
    assert recommender.finished is not None


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_there_was_no_time_for_comes_first(
    variant: Variant, caplog: pytest.LogCaptureFixture
) -> None:
    """It is put off, which is no failure; a line says how much, and the next round begins there."""
    caplog.set_level("INFO")
    scene = crowded()
    delay(scene, 7, lambda call: call.subresource == "status")
    rules = RoundRules(
        variant.adjust_rules(RecommenderRules()), variant, threads=1, checkpoint_seconds=0
    )
    slow = scene.started(rules=rules)
    slow.round(scene.sandbox.clock.now())
    scene.watched.before = lambda _call: None
    done, every = statuses(scene), {"web", "zoo", *(f"vpa-{n:03}" for n in range(CROWD))}
    (line,) = (one.__dict__ for one in caplog.records if one.message == "round finished")
    assert 0 < len(done) < CROWD
    assert (line["published"], line["checkpoints"]) == (len(done), 1)
    assert line["put_off"] == CROWD + 2 - len(done) + CROWD + 1
    assert line["not_published"] == line["not_stored"] == 0
    assert count(scene, "put_off", "status") == CROWD + 2 - len(done)
    assert count(scene, "failed", "status") == count(scene, "failed", "checkpoint") == 0

    scene.rounds(1, slow)
    assert set(statuses(scene)[len(done) : len(every)]) == every - set(done)


def test_nobody_waits_for_ever() -> None:
    """However slow writes are, a status is not put off again for one that waits less long."""
    scene = crowded()
    delay(scene, 25, lambda call: call.subresource == "status")
    slow = scene.started(rules=RoundRules(RecommenderRules(), threads=1))
    for _ in range(CROWD):
        slow.round(scene.sandbox.clock.now())
    first = statuses(scene)[: CROWD + 2]
    assert len(set(first)) == CROWD + 2


@pytest.mark.parametrize("variant", VARIANTS)
def test_some_checkpoints_are_written_in_any_case(variant: Variant) -> None:
    """However little time there is, as many VPAs as there are workers come a step further."""
    scene = Scene()
    both = (container("app"), container("log"))
    for number in range(5):
        scene.apply(deployment(f"d-{number}", *both, load=LOAD), vpa(f"d-{number}"))
    scene.sandbox.cluster.delete(Ref(VPAS, "default", "web"))
    scene.sandbox.advance(60)
    rules = variant.adjust_rules(RecommenderRules())
    rounds = RoundRules(rules, variant, threads=2, checkpoint_seconds=0)
    recommender = scene.started(rules=rounds)
    scene.rounds(1, recommender)
    assert len(scene.checkpoints()) == 4
    assert len({name.rpartition("-")[0] for name in scene.checkpoints()}) == 2

    scene.rounds(2, recommender)
    assert len(scene.checkpoints()) == 10


def test_failed_checkpoints_come_again() -> None:
    """A checkpoint that an API server did not take is counted, and written by the next round."""
    scene = crowded()
    error = Unavailable("503")
    scene.faults.order(Fault(error, "patch", CHECKPOINTS, "zoo-app", times=1))
    scene.rounds(1)
    assert "zoo-app" not in scene.checkpoints()
    assert count(scene, "failed", "checkpoint") == 1

    scene.rounds(1)
    assert "zoo-app" in scene.checkpoints()


def stored(labels: Json, annotations: Json, container: str = "app") -> Json:
    """Return a checkpoint of the VPA web as somebody else may have left it."""
    found = orphan("web-app", owner="web")
    found["metadata"] |= {"labels": labels, "annotations": annotations}
    found["spec"]["containerName"] = container
    return found


@pytest.mark.parametrize("annotations", [{}, {"team": "web"}])
def test_what_others_noted_on_a_checkpoint_stays(annotations: Json) -> None:
    """Labels and annotations of others are left alone, whether or not there are any."""
    scene = Scene()
    scene.apply(stored({"backup": "daily"}, annotations))
    scene.rounds(2)

    found = scene.sandbox.cluster.get(Ref(CHECKPOINTS, "default", "web-app"))
    ours = {"vpa.plumbline/open-windows", "vpa.plumbline/oom-kills"}
    assert found["metadata"]["annotations"].keys() == annotations.keys() | ours
    assert annotations.items() <= found["metadata"]["annotations"].items()
    assert found["metadata"]["labels"] == {"backup": "daily"}
    assert found["status"]["totalSamplesCount"] == 1
    assert count(scene, "failed", "checkpoint") == 0


@pytest.mark.parametrize("annotations", [{}, {"team": "web"}])
def test_the_checkpoint_of_another_container_stays(
    annotations: Json, caplog: pytest.LogCaptureFixture
) -> None:
    """What appeared under our name later is not touched; a line says whose it is not."""
    scene = Scene()
    scene.recommender.tick(scene.sandbox.clock.now())
    scene.sandbox.cluster.delete(Ref(CHECKPOINTS, "default", "web-app"))
    scene.apply(stored({}, annotations, "other"))
    before = scene.sandbox.cluster.get(Ref(CHECKPOINTS, "default", "web-app"))
    scene.sandbox.advance(3600)
    scene.rounds(1)

    assert scene.sandbox.cluster.get(Ref(CHECKPOINTS, "default", "web-app")) == before
    assert count(scene, "failed", "checkpoint") == 1
    sentence = (
        "checkpoint default/web-app cannot be written for container app of VPA web: "
        "it belongs to another one"
    )
    assert [one.__dict__["error"] for one in caplog.records if "error" in one.__dict__] == [
        sentence
    ]


def test_orphans_go_although_writing_took_all_its_time() -> None:
    """Deleting them has a time of its own."""
    scene = Scene()
    for number in range(5):
        scene.apply(orphan(f"gone-{number}"))
    scene.sandbox.advance(60)
    delay(scene, 61, lambda call: call.verb == "create")
    rounds = RoundRules(RecommenderRules(), orphans_seconds=0)
    scene.rounds(1, scene.started(rules=rounds))
    assert set(scene.checkpoints()) == {"web-app"}


def test_waiting_for_checkpoints_is_timed_as_writing_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Deleting checkpoints, where there are none to delete, takes no time."""
    caplog.set_level("INFO")
    scene = Scene()
    delay(scene, 7, lambda call: call.verb == "create")
    scene.rounds(1)
    (line,) = (one.__dict__ for one in caplog.records if one.message == "round finished")
    assert (line["steps"]["MaintainCheckpoints"], line["steps"]["GarbageCollect"]) == (7, 0)
