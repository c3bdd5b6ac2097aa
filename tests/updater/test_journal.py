"""Events go out, in order and not too many, and hold nobody up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.model.errors import NotFound, Refused, Unavailable
from app.model.snapshot import Snapshot
from app.ports import EVENTS, Json
from app.updater.core.events import Severity, UpdateEvent
from app.updater.journal import Journal
from tests import make
from tests.cluster_in_memory import ClusterInMemory, outage
from tests.stepped_clock import START, SteppedClock
from tests.updater.set_clock import SetClock


class Scene:
    """A journal before an API server."""

    def __init__(self) -> None:
        self.clock = SetClock(SteppedClock())
        self.cluster = ClusterInMemory(self.clock.now)
        self.journal = Journal(self.cluster, self.clock)
        self.snapshot = make.snapshot(make.vpa_json("web"))

    def tell(self, *notices: UpdateEvent, snapshot: Snapshot | None = None) -> None:
        """Tell something now."""
        self.journal.tell(notices, snapshot or self.snapshot, self.clock.now())

    def tick(self) -> float:
        """Send what waits."""
        return self.journal.tick(self.clock.now())

    def events(self) -> list[Json]:
        """Return what arrived."""
        return list(self.cluster.list(EVENTS).items)


def notice(
    kind: str = "Pod", name: str = "web-0", uid: str = "uid-web-0", namespace: str = "default"
) -> UpdateEvent:
    """Return something to tell."""
    return UpdateEvent(kind, namespace, name, uid, Severity.NORMAL, "EvictedByVPA", "evicted")


def test_an_event() -> None:
    """It names its object, its reason and who tells, as recorders do."""
    scene = Scene()
    scene.tell(notice())
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
    scene = Scene()
    scene.tell(notice("VerticalPodAutoscaler", "web", ""))
    scene.tell(notice("VerticalPodAutoscaler", "gone", ""))
    scene.tick()
    (event,) = scene.events()
    assert event["involvedObject"]["uid"] == "uid-web"
    assert event["involvedObject"]["apiVersion"] == "autoscaling.k8s.io/v1"


def test_one_object_does_not_drown_others() -> None:
    """Of one object 25 are told at once, then one every five minutes, wherever a clock is set."""
    scene = Scene()
    scene.tell(*[notice() for _ in range(100)], notice(name="web-1"))
    scene.tick()
    names = [event["involvedObject"]["name"] for event in scene.events()]
    assert (names.count("web-0"), names.count("web-1")) == (25, 1)
    scene.clock.ahead = -timedelta(hours=1)
    scene.clock.wait(timedelta(minutes=5).total_seconds())
    scene.tell(notice(), notice())
    scene.tick()
    assert len(scene.events()) == 27


def test_trouble_delays_and_loses_nothing() -> None:
    """While the API server is away events wait; the loop that sends them comes back later."""
    scene = Scene()
    scene.tell(notice(), notice(name="web-1"))
    scene.cluster.failures = outage(1)
    with pytest.raises(Unavailable):
        scene.tick()
    assert scene.tick() > 0
    assert [event["involvedObject"]["name"] for event in scene.events()] == ["web-0", "web-1"]


def test_a_namespace_that_takes_no_events_holds_up_no_other() -> None:
    """A webhook of somebody's may fail for each event there; it is tried again now and then."""
    scene = Scene()
    scene.tell(*(notice(name=name, namespace="kube-system") for name in "abc"), notice())
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
    scene = Scene()
    scene.tell(notice(), notice(name="web-1"))
    scene.cluster.failures = [error]
    scene.tick()
    assert len(scene.events()) == 1
    assert scene.clock.now() == START


@pytest.mark.parametrize("name", ["a" * 253, "a" * 229 + "-" + "b" * 23, "a" * 229 + ".b" * 12])
def test_an_event_of_a_long_name_has_a_name(name: str) -> None:
    """A name is cut where a name may end."""
    scene = Scene()
    scene.tell(notice(name=name))
    scene.tick()
    (event,) = scene.events()
    short, _, suffix = event["metadata"]["name"].rpartition(".")
    assert name.startswith(short)
    assert short[-1].isalnum()
    assert suffix.isalnum()
    assert len(event["metadata"]["name"]) <= 253
