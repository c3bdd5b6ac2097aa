"""A namespace in which writes fail rests for a while; a server in trouble is another matter."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.kube.manifests import documents
from app.model.errors import ClusterError, Conflict, NotFound, Refused, Unavailable
from app.model.snapshot import Snapshot
from app.model.vpa import Vpa
from app.ports import EVENTS, VPAS, Json, PatchKind, Ref
from app.sandbox import clock as sandbox_clock
from app.sandbox.sandbox import Sandbox
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.events import Severity, UpdateEvent
from app.updater.notifications import ANNOTATION, EventRecorder, RestingNamespaces, SummaryWriter
from tests import make
from tests.cluster_in_memory import ClusterInMemory, outage
from tests.faults import Fault, Faults
from tests.sandbox.worlds import snapshot_of
from tests.stepped_clock import START, SteppedClock
from tests.updater.set_clock import SetClock
from tests.updater.stage import vpa

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "holds"),
    [(0, True), (29, True), (30, False), (-29, True), (-30, False)],
)
def test_a_namespace_rests_for_half_a_minute(seconds: int, holds: bool) -> None:
    """Nor does it rest for longer when the clock is set back."""
    resting = RestingNamespaces()

    assert resting.begin("shop", Unavailable("failed calling webhook", status=500), NOW)
    assert resting.rests("shop", NOW + timedelta(seconds=seconds)) is holds
    assert not resting.rests("bank", NOW)


@pytest.mark.parametrize("status", [0, 429, 503, 504])
def test_what_is_no_namespace_s_own_lets_none_rest(status: int) -> None:
    """An API server that is down or busy is so for all."""
    resting = RestingNamespaces()

    assert not resting.begin("shop", Unavailable("down", status=status), NOW)
    assert not resting.rests("shop", NOW)


class Recording:
    """A journal before an API server."""

    def __init__(self) -> None:
        self.clock = SetClock(SteppedClock())
        self.cluster = ClusterInMemory(self.clock.now)
        self.recorder = EventRecorder(self.cluster, self.clock)
        self.snapshot = make.snapshot(make.vpa_json("web"))

    def tell(self, *events: UpdateEvent, snapshot: Snapshot | None = None) -> None:
        """Tell something now."""
        self.recorder.record(events, snapshot or self.snapshot, self.clock.now())

    def tick(self) -> float:
        """Send what waits."""
        return self.recorder.tick(self.clock.now())

    def events(self) -> list[Json]:
        """Return what arrived."""
        return list(self.cluster.list(EVENTS).items)


def update_event(
    kind: str = "Pod", name: str = "web-0", uid: str = "uid-web-0", namespace: str = "default"
) -> UpdateEvent:
    """Return something to tell."""
    return UpdateEvent(kind, namespace, name, uid, Severity.NORMAL, "EvictedByVPA", "evicted")


def test_an_event() -> None:
    """It names its object, its reason and who tells, as recorders do."""
    scene = Recording()
    scene.tell(update_event())
    scene.tick()
    (event,) = scene.events()
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "web-0",
        "uid": "uid-web-0",
    }
    assert (event["reason"], event["type"], event["count"]) == ("EvictedByVPA", "Normal", 1)
    assert event["source"] == {"component": "vpa-updater"}
    assert event["firstTimestamp"] == "2026-03-01T12:00:00Z"
    assert event["metadata"]["name"].startswith("web-0.")


def test_a_vpa_is_found_by_its_name() -> None:
    """The uid of a VPA comes from what is known; of one that is gone nothing is told."""
    scene = Recording()
    scene.tell(update_event("VerticalPodAutoscaler", "web", ""))
    scene.tell(update_event("VerticalPodAutoscaler", "gone", ""))
    scene.tick()
    (event,) = scene.events()
    assert event["involvedObject"]["uid"] == "uid-web"
    assert event["involvedObject"]["apiVersion"] == "autoscaling.k8s.io/v1"


def test_one_object_does_not_drown_others() -> None:
    """Of one object 25 are told at once, then one every five minutes, wherever a clock is set."""
    scene = Recording()
    scene.tell(*[update_event() for _ in range(100)], update_event(name="web-1"))
    scene.tick()
    names = [event["involvedObject"]["name"] for event in scene.events()]
    assert (names.count("web-0"), names.count("web-1")) == (25, 1)
    scene.clock.ahead = -timedelta(hours=1)
    scene.clock.wait(timedelta(minutes=5).total_seconds())
    scene.tell(update_event(), update_event())
    scene.tick()
    assert len(scene.events()) == 27


def test_trouble_delays_and_loses_nothing() -> None:
    """While the API server is away events wait; the loop that sends them comes back later."""
    scene = Recording()
    scene.tell(update_event(), update_event(name="web-1"))
    scene.cluster.failures = outage(1)
    with pytest.raises(Unavailable):
        scene.tick()
    assert scene.tick() > 0
    assert [event["involvedObject"]["name"] for event in scene.events()] == ["web-0", "web-1"]


def test_a_namespace_that_takes_no_events_holds_up_no_other() -> None:
    """A webhook of a user may fail for each event there; it is tried again now and then."""
    scene = Recording()
    scene.tell(
        *(update_event(name=name, namespace="kube-system") for name in "abc"), update_event()
    )
    scene.cluster.failures = [Unavailable("failed calling webhook", status=500)]
    scene.tick()
    assert [event["involvedObject"]["name"] for event in scene.events()] == ["web-0"]
    scene.clock.wait(30)
    scene.tick()
    names = [event["involvedObject"]["name"] for event in scene.events()]
    assert sorted(names) == ["b", "c", "web-0"]


@pytest.mark.parametrize("error", [Refused("no right"), NotFound("namespace is gone")])
def test_what_can_never_be_told_is_dropped(error: Refused | NotFound) -> None:
    """One event that is refused does not hold up the next."""
    scene = Recording()
    scene.tell(update_event(), update_event(name="web-1"))
    scene.cluster.failures = [error]
    scene.tick()
    assert len(scene.events()) == 1
    assert scene.clock.now() == START


@pytest.mark.parametrize("name", ["a" * 253, "a" * 229 + "-" + "b" * 23, "a" * 229 + ".b" * 12])
def test_an_event_of_a_long_name_has_a_name(name: str) -> None:
    """A name is cut where a name may end."""
    scene = Recording()
    scene.tell(update_event(name=name))
    scene.tick()
    (event,) = scene.events()
    short, _, suffix = event["metadata"]["name"].rpartition(".")
    assert name.startswith(short)
    assert short[-1].isalnum()
    assert suffix.isalnum()
    assert len(event["metadata"]["name"]) <= 253


class Annotating:
    """Two VPAs in a cluster, and what is offered about them."""

    def __init__(self) -> None:
        self.sandbox = Sandbox(sandbox_clock.SteppedClock())
        self.sandbox.apply(*documents.objects("crd"), vpa("web"), vpa("db"))
        self.faults = Faults()
        self.summaries = SummaryWriter(self.faults.before(self.sandbox.cluster))

    @property
    def vpas(self) -> dict[str, Vpa]:
        """The VPAs as they are known."""
        return dict(snapshot_of(self.sandbox).of("default").vpas)

    def offer(self, *reasons: tuple[str, Reason]) -> None:
        """Offer decisions about pods, each by its VPA and reason."""
        decisions = [
            Decision(f"uid-{number}", "default", f"pod-{number}", name, Action.WAIT, reason, "")
            for number, (name, reason) in enumerate(reasons)
        ]
        self.summaries.offer(self.vpas, decisions)

    def tick(self) -> float:
        """Write what waits."""
        return self.summaries.tick(self.sandbox.clock.now())

    def text(self, name: str = "web") -> str | None:
        """Return what stands on a VPA."""
        return self.vpas[name].annotations.get(ANNOTATION)

    def version(self) -> str:
        """The version of one of them; every write makes it another."""
        return str(
            self.sandbox.cluster.get(Ref(VPAS, "default", "web"))["metadata"]["resourceVersion"]
        )

    def fail(self, error: ClusterError, times: int = 1) -> None:
        """Let the next writes fail."""
        self.faults.order(Fault(error, "patch", VPAS, times=times))


def test_it_sums_up() -> None:
    """Status, most frequent reason, and how many pods have which; nothing without pods."""
    scene = Annotating()
    scene.offer(("web", Reason.TOO_YOUNG), ("web", Reason.TOO_YOUNG), ("web", Reason.PDB_BLOCKED))
    scene.tick()
    assert scene.text() == "False, InRangeTooYoung: 3 pods: 2 InRangeTooYoung, 1 PDBBlocked"
    assert scene.text("db") is None


def test_it_is_written_once() -> None:
    """The same words cost no second write, and pods that went are told of."""
    scene = Annotating()
    for _ in range(3):
        scene.offer(("web", Reason.TOO_YOUNG))
        scene.tick()
    version = scene.version()
    scene.offer(("web", Reason.TOO_YOUNG))
    scene.tick()
    assert scene.version() == version
    scene.offer()
    scene.tick()
    assert scene.text() == "False, NoPods: no pods"


def test_it_is_written_once_though_the_watch_lags() -> None:
    """What was written is believed for two minutes; other words are written at once."""
    scene = Annotating()
    seen = scene.vpas
    decision = Decision("u", "default", "p", "web", Action.WAIT, Reason.TOO_YOUNG, "")

    def written(reason: Reason) -> bool:
        version = scene.version()
        scene.summaries.offer(seen, [replace(decision, reason=reason)])
        scene.tick()
        return scene.version() != version

    assert written(Reason.TOO_YOUNG)
    body = {"metadata": {"annotations": {ANNOTATION: "by another writer"}}}
    scene.sandbox.cluster.patch(Ref(VPAS, "default", "web"), body, kind=PatchKind.MERGE)
    assert not written(Reason.TOO_YOUNG)
    assert written(Reason.PDB_BLOCKED)
    assert written(Reason.TOO_YOUNG)
    scene.sandbox.cluster.patch(Ref(VPAS, "default", "web"), body, kind=PatchKind.MERGE)
    scene.sandbox.advance(121)
    scene.tick()
    assert written(Reason.TOO_YOUNG)


def test_only_the_latest_words_are_written() -> None:
    """What changed back before it was written is not written at all."""
    scene = Annotating()
    scene.offer(("web", Reason.TOO_YOUNG))
    scene.tick()
    version = scene.version()
    scene.offer(("web", Reason.PDB_BLOCKED))
    scene.offer(("web", Reason.TOO_YOUNG))
    scene.tick()
    assert scene.version() == version


@pytest.mark.parametrize("error", [NotFound("gone"), Conflict("another uid")])
def test_one_vpa_holds_up_no_other(error: ClusterError) -> None:
    """A VPA that went or was created again is passed over."""
    scene = Annotating()
    scene.fail(error)
    scene.offer(("web", Reason.TOO_YOUNG), ("db", Reason.TOO_YOUNG))
    scene.tick()
    assert [scene.text(name) is None for name in ("web", "db")].count(True) == 1


def test_trouble_delays() -> None:
    """While the API server is away the words wait."""
    scene = Annotating()
    scene.fail(Unavailable("down"))
    scene.offer(("web", Reason.TOO_YOUNG))
    with pytest.raises(Unavailable):
        scene.tick()
    scene.tick()
    assert scene.text() is not None


def test_a_namespace_that_takes_no_writes_holds_up_no_other() -> None:
    """A webhook of a user may fail for each write there; it is tried again now and then."""
    scene = Annotating()
    other = vpa("other")
    other["metadata"]["namespace"] = "kube-system"
    assert scene.sandbox.apply(other) == []
    found = snapshot_of(scene.sandbox).of("kube-system").vpas
    decision = Decision("uid", "kube-system", "pod", "other", Action.WAIT, Reason.MODE_OFF, "")
    scene.offer(("web", Reason.MODE_OFF), ("db", Reason.MODE_OFF))
    scene.summaries.offer(found, [decision])
    scene.fail(Unavailable("failed calling webhook", status=500))
    scene.tick()
    written = snapshot_of(scene.sandbox).of("kube-system").vpas["other"].annotations.get(ANNOTATION)
    assert (scene.text(), scene.text("db"), written is None) == (None, None, False)
    scene.sandbox.advance(29)
    scene.tick()
    assert scene.text() is None
    scene.sandbox.advance(1)
    scene.tick()
    assert (scene.text() is None, scene.text("db") is None) == (False, False)


def test_without_the_right_nothing_is_tried_for_a_while() -> None:
    """One refusal is enough for ten minutes; then it is tried again."""
    scene = Annotating()
    scene.fail(Refused("forbidden"))
    scene.offer(("web", Reason.TOO_YOUNG), ("db", Reason.TOO_YOUNG))
    scene.tick()
    scene.sandbox.advance(599)
    scene.tick()
    assert scene.text("web") is scene.text("db") is None
    scene.sandbox.advance(1)
    scene.offer(("web", Reason.TOO_YOUNG), ("db", Reason.TOO_YOUNG))
    scene.tick()
    assert None not in (scene.text("web"), scene.text("db"))


def test_another_vpa_of_the_same_name_is_left_alone() -> None:
    """The words belong to the VPA that was looked at."""
    scene = Annotating()
    scene.offer(("web", Reason.TOO_YOUNG))
    scene.sandbox.cluster.delete(Ref(VPAS, "default", "web"))
    scene.sandbox.apply(vpa("web"))
    scene.tick()
    assert scene.text() is None
