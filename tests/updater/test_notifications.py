"""What is written to the cluster: events and summaries, whatever a namespace or server answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.model.errors import ClusterError, Conflict, NotFound, Refused, Unavailable
from app.model.vpa import Vpa
from app.ports import VPAS, Json, PatchKind, Ref
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.events import Severity, UpdateEvent, outcome_events
from app.updater.core.outcomes import Outcome
from app.updater.metrics import UpdaterLimit
from app.updater.notifications import ANNOTATION, RestingNamespaces
from tests import make
from tests.faults import Fault
from tests.sandbox.worlds import snapshot_of
from tests.sandbox_objects import events_in
from tests.updater.core.scenes import (
    UNPROVEN,
    Scene,
    container,
    named,
    recommended,
    running,
)
from tests.updater.stage import Stage, vpa

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)
BROKEN_WEBHOOK = Unavailable("failed calling webhook", status=500)
YOUNG, BLOCKED = Reason.TOO_YOUNG, Reason.PDB_BLOCKED


@pytest.mark.parametrize(
    ("seconds", "holds"),
    [(0, True), (29, True), (30, False), (-29, True), (-30, False)],
)
def test_a_namespace_rests_for_half_a_minute(seconds: int, holds: bool) -> None:
    """Nor does it rest for longer when the clock is set back."""
    resting = RestingNamespaces()

    assert resting.begin("shop", BROKEN_WEBHOOK, NOW)
    assert resting.rests("shop", NOW + timedelta(seconds=seconds)) is holds
    assert not resting.rests("bank", NOW)


@pytest.mark.parametrize("status", [0, 429, 503, 504])
def test_what_is_no_namespace_s_own_lets_none_rest(status: int) -> None:
    """An API server that is down or busy is so for all."""
    resting = RestingNamespaces()

    assert not resting.begin("shop", Unavailable("down", status=status), NOW)
    assert not resting.rests("shop", NOW)


# --- events


def tell(stage: Stage, *events: UpdateEvent) -> None:
    """Tell something now, where a VPA called web is known."""
    assert stage.parts.recorder is not None
    snapshot = make.snapshot(make.vpa_json("web"))
    stage.parts.recorder.record(events, snapshot, stage.wall.now())


def send(stage: Stage) -> float:
    """Send the events that wait."""
    assert stage.parts.recorder is not None
    return stage.parts.recorder.tick(stage.wall.now())


def sent(stage: Stage, *events: UpdateEvent) -> Sequence[Json]:
    """Return what arrives of events that are told."""
    tell(stage, *events)
    send(stage)
    return events_in(stage.sandbox)


def names(stage: Stage) -> list[str]:
    """Return what the events that arrived are about."""
    return [event["involvedObject"]["name"] for event in events_in(stage.sandbox)]


def fail(stage: Stage, error: ClusterError) -> None:
    """Let the next event or annotation fail."""
    stage.faults.order(Fault(error))


def update_event(
    kind: str = "Pod", name: str = "web-0", uid: str = "uid-web-0", namespace: str = "default"
) -> UpdateEvent:
    """Return something to tell."""
    return UpdateEvent(kind, namespace, name, uid, Severity.NORMAL, "EvictedByVPA", "evicted")


def test_an_event() -> None:
    """It names its object, its reason and who tells, as recorders do."""
    (event,) = sent(Stage(), update_event())
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "web-0",
        "uid": "uid-web-0",
    }
    assert (event["reason"], event["type"], event["count"]) == ("EvictedByVPA", "Normal", 1)
    assert event["source"] == {"component": "vpa-updater"}
    assert event["firstTimestamp"] == "2026-01-05T10:00:00Z"
    assert event["metadata"]["name"].startswith("web-0.")


def test_a_vpa_is_found_by_its_name() -> None:
    """The uid of a VPA comes from what is known; of one that is gone nothing is told."""
    kind = "VerticalPodAutoscaler"
    (event,) = sent(Stage(), update_event(kind, "web", ""), update_event(kind, "gone", ""))
    assert event["involvedObject"]["uid"] == "uid-web"
    assert event["involvedObject"]["apiVersion"] == "autoscaling.k8s.io/v1"


def test_one_object_does_not_drown_others() -> None:
    """Of one object 25 are told at once, then one every five minutes, wherever a clock is set."""
    stage = Stage()
    sent(stage, *[update_event() for _ in range(100)], update_event(name="web-1"))
    assert (names(stage).count("web-0"), names(stage).count("web-1")) == (25, 1)
    assert stage.reached.counts == {UpdaterLimit.OBJECT_EVENTS: 75}
    stage.wall.ahead = -timedelta(hours=1)
    stage.clock.advance(timedelta(minutes=5).total_seconds())
    assert len(sent(stage, update_event(), update_event())) == 27


def test_events_do_not_fill_the_memory() -> None:
    """Of events that wait while the API server is away the oldest go."""
    stage = Stage()
    told = [update_event(name=f"web-{number}") for number in range(10_005)]
    (first, *_) = [event["involvedObject"]["name"] for event in sent(stage, *told)]
    assert (first, stage.reached.counts) == ("web-5", {UpdaterLimit.WAITING_EVENTS: 5})


def test_trouble_delays_events_and_loses_none() -> None:
    """While the API server is away events wait; the loop that sends them comes back later."""
    stage = Stage()
    tell(stage, update_event(), update_event(name="web-1"))
    fail(stage, Unavailable("down"))
    with pytest.raises(Unavailable):
        send(stage)
    assert send(stage) > 0
    assert names(stage) == ["web-0", "web-1"]


def test_a_namespace_that_takes_no_events_holds_up_no_other() -> None:
    """A webhook of a user may fail for each event there; it is tried again now and then."""
    stage = Stage()
    tell(stage, *(update_event(name=name, namespace="kube-system") for name in "abc"))
    fail(stage, BROKEN_WEBHOOK)
    sent(stage, update_event())
    assert names(stage) == ["web-0"]
    stage.clock.advance(30)
    send(stage)
    assert sorted(names(stage)) == ["b", "c", "web-0"]


@pytest.mark.parametrize("error", [Refused("no right"), NotFound("namespace is gone")])
def test_what_can_never_be_told_is_dropped(error: ClusterError) -> None:
    """One event that is refused does not hold up the next."""
    stage = Stage()
    fail(stage, error)
    assert len(sent(stage, update_event(), update_event(name="web-1"))) == 1


@pytest.mark.parametrize("name", ["a" * 253, "a" * 229 + "-" + "b" * 23, "a" * 229 + ".b" * 12])
def test_an_event_of_a_long_name_has_a_name(name: str) -> None:
    """A name is cut where a name may end."""
    (event,) = sent(Stage(), update_event(name=name))
    short, _, suffix = event["metadata"]["name"].rpartition(".")
    assert name.startswith(short)
    assert short[-1].isalnum()
    assert suffix.isalnum()
    assert len(event["metadata"]["name"]) <= 253


# --- summaries


@pytest.fixture
def stage() -> Stage:
    """A cluster with two VPAs."""
    found = Stage("--vpa-summaries")
    found.apply(vpa("web"), vpa("db"))
    return found


def vpas(stage: Stage, namespace: str = "default") -> dict[str, Vpa]:
    """Return the VPAs as they are known."""
    return dict(snapshot_of(stage.sandbox).of(namespace).vpas)


def offer(stage: Stage, *reasons: tuple[str, Reason], seen: dict[str, Vpa] | None = None) -> None:
    """Offer decisions about pods, each by its VPA and reason."""
    assert stage.parts.summaries is not None
    decisions = [
        Decision(f"uid-{number}", "default", f"pod-{number}", name, Action.WAIT, reason, "")
        for number, (name, reason) in enumerate(reasons)
    ]
    stage.parts.summaries.offer(vpas(stage) if seen is None else seen, decisions)


def write(stage: Stage) -> bool:
    """Write the annotations that wait; return whether that of web was written."""

    def version() -> object:
        return stage.sandbox.cluster.get(Ref(VPAS, "default", "web"))["metadata"]["resourceVersion"]

    assert stage.parts.summaries is not None
    before = version()
    stage.parts.summaries.tick(stage.wall.now())
    return version() != before


def texts(stage: Stage) -> list[str | None]:
    """Return what stands on both VPAs."""
    return [vpas(stage)[name].annotations.get(ANNOTATION) for name in ("web", "db")]


def test_it_sums_up(stage: Stage) -> None:
    """Status, most frequent reason, and how many pods have which; nothing without pods."""
    offer(stage, ("web", YOUNG), ("web", YOUNG), ("web", BLOCKED))
    write(stage)
    text = "False, InRangeTooYoung: 3 pods: 2 InRangeTooYoung, 1 PDBBlocked"
    assert texts(stage) == [text, None]


def test_it_is_written_once(stage: Stage) -> None:
    """The same words cost no second write, and pods that went are told of."""
    writes = []
    for _ in range(3):
        offer(stage, ("web", YOUNG))
        writes.append(write(stage))
    assert writes == [True, False, False]
    offer(stage)
    write(stage)
    assert texts(stage)[0] == "False, NoPods: no pods"


def test_it_is_written_once_though_the_watch_lags(stage: Stage) -> None:
    """What was written is believed for two minutes; other words are written at once."""
    seen = vpas(stage)

    def written(reason: Reason) -> bool:
        offer(stage, ("web", reason), seen=seen)
        return write(stage)

    assert written(YOUNG)
    body = {"metadata": {"annotations": {ANNOTATION: "by another writer"}}}
    stage.sandbox.cluster.patch(Ref(VPAS, "default", "web"), body, kind=PatchKind.MERGE)
    assert [written(YOUNG), written(BLOCKED), written(YOUNG)] == [False, True, True]
    stage.sandbox.cluster.patch(Ref(VPAS, "default", "web"), body, kind=PatchKind.MERGE)
    stage.clock.advance(121)
    write(stage)
    assert written(YOUNG)


def test_only_the_latest_words_are_written(stage: Stage) -> None:
    """What changed back before it was written is not written at all."""
    offer(stage, ("web", YOUNG))
    write(stage)
    offer(stage, ("web", BLOCKED))
    offer(stage, ("web", YOUNG))
    assert not write(stage)


@pytest.mark.parametrize("error", [NotFound("gone"), Conflict("another uid")])
def test_one_vpa_holds_up_no_other(stage: Stage, error: ClusterError) -> None:
    """A VPA that went or was created again is passed over."""
    fail(stage, error)
    offer(stage, ("web", YOUNG), ("db", YOUNG))
    write(stage)
    assert texts(stage).count(None) == 1


def test_trouble_delays_summaries(stage: Stage) -> None:
    """While the API server is away the words wait."""
    fail(stage, Unavailable("down"))
    offer(stage, ("web", YOUNG))
    with pytest.raises(Unavailable):
        write(stage)
    assert write(stage)


def test_a_namespace_that_takes_no_writes_holds_up_no_other(stage: Stage) -> None:
    """A webhook of a user may fail for each write there; it is tried again now and then."""
    other = vpa("other")
    other["metadata"]["namespace"] = "kube-system"
    stage.apply(other)
    offer(stage, ("web", YOUNG), ("db", YOUNG))
    offer(stage, ("other", YOUNG), seen=vpas(stage, "kube-system"))
    fail(stage, BROKEN_WEBHOOK)
    write(stage)
    assert texts(stage) == [None, None]
    assert ANNOTATION in vpas(stage, "kube-system")["other"].annotations
    stage.clock.advance(29)
    assert not write(stage)
    stage.clock.advance(1)
    write(stage)
    assert None not in texts(stage)


def test_without_the_right_nothing_is_tried_for_a_while(stage: Stage) -> None:
    """One refusal is enough for ten minutes; then it is tried again."""
    fail(stage, Refused("forbidden"))
    offer(stage, ("web", YOUNG), ("db", YOUNG))
    write(stage)
    stage.clock.advance(599)
    write(stage)
    assert texts(stage) == [None, None]
    stage.clock.advance(1)
    offer(stage, ("web", YOUNG), ("db", YOUNG))
    write(stage)
    assert None not in texts(stage)


def test_another_vpa_of_the_same_name_is_left_alone(stage: Stage) -> None:
    """The words belong to the VPA that was looked at."""
    offer(stage, ("web", YOUNG))
    stage.sandbox.cluster.delete(Ref(VPAS, "default", "web"))
    stage.apply(vpa("web"))
    assert not write(stage)


LONG_NAME = "n" * 253
MANY = tuple(f"container-{number:03}-" + "c" * 49 for number in range(40))


def test_a_pod_with_many_containers_fits_an_event() -> None:
    """With the longest names there are, nothing is cut: what finds no room is counted."""
    pods = [named(running(*(container(name, "100m/100Mi") for name in MANY)), LONG_NAME)]
    wanted = [recommended("200m/200Mi = =", name) for name in MANY]
    scene = Scene(pods, wanted, rules=UNPROVEN, min_replicas=1)
    (queue,) = scene.plan().queues
    step = queue.steps[0]
    step = replace(step, decision=replace(step.decision, vpa=LONG_NAME))
    messages = [event.message for event in outcome_events(Outcome(queue, step, NOW))]
    assert len(messages) == 2
    for message in messages:
        assert len(message.encode()) <= 1024
        assert f"{MANY[0]} cpu 100m is below its lower bound 200m: 100m -> 200m; " in message
        assert re.search(r"; and \d\d more$", message)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("\u20ac" * 500, "\u20ac" * 340 + " ..."),
    ],
    ids=["as long as may be", "longer", "of several bytes each"],
)
def test_a_message_that_is_cut_says_so(message: str, expected: str) -> None:
    """What nodes and API servers say may be of any length; an event holds 1024 bytes."""
    stage = Stage()
    event = UpdateEvent("Pod", "default", "web-0", "u", Severity.WARNING, "ResizeError", message)
    (found,) = sent(stage, event)
    assert found["message"] == expected
