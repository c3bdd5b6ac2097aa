"""What an API server would hold, and for how long."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from app.commands.replaying.changes import RecordedChange, RecordedKind, read_change, removal_of
from app.model.fields import Json
from app.recommender.core.checkpoints import Checkpoint, to_json
from tests import make
from tests.cases import cases
from tests.commands.replaying.story import START, objects_of, pod_json

EVENT: Json = {"kind": "Event", "metadata": {"name": "e"}, "reason": "Evicted"}
CHECKPOINT = Checkpoint("default", "web-app", "web", "app", count=1)
OTHERS = replace(CHECKPOINT, vpa="web-app", container="x", count=2)


def change(item: Json) -> RecordedChange:
    """Return the change that an object is."""
    found, _ = read_change(item)
    assert found is not None
    return found


@cases(
    "status recommended",
    {
        "none is told": (None, "300m"),
        "an empty one": ({}, "300m"),
        "another one": ({"observedGeneration": 2}, None),
    },
)
def test_status_of_a_vpa(status: Json | None, recommended: str | None) -> None:
    """Who applies a VPA leaves the status alone, unless one is told; its age stays."""
    cluster = objects_of([make.vpa_json("web", cpu="300m", created="2026-01-01T00:00:00Z")])
    cluster.take(change(make.vpa_json("web", created=None, status=status)), START)
    vpa = cluster.views["default"].vpas["web"]
    found = vpa.recommended("app")
    assert (found and str(found.target["cpu"])) == recommended
    assert make.time(vpa.created) == "2026-01-01T00:00:00Z"


def test_lives_of_a_pod() -> None:
    """A pod that comes again is another one, though it does not say so."""
    nameless = pod_json(metadata={"uid": None})
    cluster = objects_of([nameless])
    uids = []
    for step in (change(nameless), removal_of(nameless), change(nameless)):
        assert step is not None
        cluster.take(step, START)
        uids += [pod.uid for pod in cluster.views["default"].pods.values()]
    assert uids == ["life-1", "life-2"]


@cases(
    "steps new left",
    {
        "one": ([EVENT], [True], 1),
        "the same one": ([EVENT, EVENT], [True, False], 1),
        "without names": ([EVENT | {"metadata": {}}] * 2, [True, True], 2),
    },
)
def test_events(steps: list[Json], new: list[bool], left: int) -> None:
    """An event that changes is no new one; an API server keeps it for an hour."""
    cluster = objects_of([])
    assert [cluster.take(change(step), START) for step in steps] == new
    assert len(list(cluster.events(START + timedelta(minutes=59)))) == left
    assert list(cluster.events(START + timedelta(hours=1))) == []


def test_events_that_are_deleted() -> None:
    """What is deleted is told to nobody; what was there from the start is."""
    cluster = objects_of([EVENT])
    assert len(list(cluster.events(START))) == 1
    cluster.take(RecordedChange(RecordedKind.EVENT, "default", "e", None), START)
    assert list(cluster.events(START)) == []


@cases(
    "by_name is_stored expected",
    {
        "ours refuses": (False, False, OTHERS),
        "upstream overwrites": (True, True, replace(OTHERS, count=1)),
    },
)
def test_checkpoints_of_others(by_name: bool, is_stored: bool, expected: Checkpoint) -> None:
    """An object of the same name stays whose it is."""
    cluster = objects_of([to_json(OTHERS)])
    assert cluster.store(CHECKPOINT, by_name=by_name) is is_stored
    found = cluster.checkpoints["default", "web-app"]
    assert (found.vpa, found.container, found.count) == (
        expected.vpa,
        expected.container,
        expected.count,
    )
    assert bool(cluster.written) is is_stored


def test_checkpoints_that_go() -> None:
    """What was written, and then deleted or replaced by somebody else, is not shown as written."""
    cluster = objects_of([])
    cluster.store(CHECKPOINT, by_name=False)
    cluster.take(change(to_json(OTHERS)), START)
    assert (len(cluster.checkpoints), cluster.written) == (1, set())
    cluster.store(OTHERS, by_name=False)
    cluster.drop_checkpoints([("default", "web-app")])
    assert (cluster.checkpoints, cluster.written) == ({}, set())
