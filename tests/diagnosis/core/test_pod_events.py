"""What events tell of the past of a pod."""

from __future__ import annotations

from app.diagnosis.core.pod_events import PodEvents, event_json
from app.model.fields import Json
from tests.cases import cases


def event(**members: object) -> Json:
    """Return an event about the pod web-0."""
    return {
        "metadata": {"namespace": "shop", "creationTimestamp": "2026-01-05T08:00:00Z"},
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web-0", "uid": "old"},
        "reason": "EvictedByVPA",
        "message": "why",
        "source": {"component": "vpa-updater"},
    } | members


ON_VPA = {"kind": "VerticalPodAutoscaler", "name": "web"}
USUAL = {
    "at": "2026-01-05T08:00:00Z",
    "on": "pod/web-0",
    "reason": "EvictedByVPA",
    "message": "why",
    "component": "vpa-updater",
}


@cases(
    "members expected",
    {
        "as it is created": ({}, USUAL),
        "by its latest time": (
            {"lastTimestamp": "2026-01-05T10:00:00Z", "eventTime": "2026-01-05T09:00:00Z"},
            USUAL | {"at": "2026-01-05T10:00:00Z"},
        ),
        "by a newer recorder": (
            {
                "lastTimestamp": None,
                "eventTime": "2026-01-05T09:00:00.5Z",
                "source": {},
                "reportingComponent": "vpa-updater",
            },
            USUAL | {"at": "2026-01-05T09:00:00Z"},
        ),
        "repeated": ({"count": 7}, USUAL | {"count": 7}),
        "without a component": (
            {"source": None},
            {key: value for key, value in USUAL.items() if key != "component"},
        ),
        "on a VPA": (
            {"involvedObject": ON_VPA, "reason": "EvictedPod", "message": "Pod web-0 was evicted"},
            USUAL | {"on": "vpa/web", "reason": "EvictedPod", "message": "Pod web-0 was evicted"},
        ),
        "of a VPA about another pod": (
            {"involvedObject": ON_VPA, "reason": "EvictedPod", "message": "Pod web-01 was evicted"},
            None,
        ),
        "of a VPA about itself": (
            {"involvedObject": ON_VPA, "reason": "SelectorOverlap", "message": "web-0"},
            None,
        ),
        "of another pod": ({"involvedObject": {"kind": "Pod", "name": "web-1"}}, None),
        "of a node": ({"involvedObject": {"kind": "Node", "name": "web-0"}}, None),
        "without a time": ({"metadata": {"namespace": "shop"}}, None),
        "unreadable": ({"message": 7}, None),
        "without an object": ({"involvedObject": None}, None),
    },
)
def test_what_an_event_tells(members: Json, expected: Json | None) -> None:
    """Its time, and who reported what; what is about something else or cannot be read is none."""
    found = PodEvents([event(**members)]).of("shop", "web-0")
    assert [event_json(one) for one in found] == ([] if expected is None else [expected])


def test_namespaces_of_a_name() -> None:
    """A name may be that of pods in several namespaces; each has its own events."""
    other = {"kind": "Pod", "namespace": "bank", "name": "web-0"}
    found = PodEvents([event(), event(involvedObject=other), event()])
    assert found.namespaces("web-0") == ["bank", "shop"]
    assert found.namespaces("web-1") == []
    assert len(found.of("shop", "web-0")) == 1


def test_an_earlier_pod_of_a_name() -> None:
    """Who has the name now is told apart by its uid, where both are known."""
    (found,) = PodEvents([event()]).of("shop", "web-0")
    assert event_json(found, "new") == USUAL | {"earlierPod": True}
    assert event_json(found, "old") == event_json(found) == USUAL
