"""Objects become changes, if they play a part."""

from __future__ import annotations

import pytest

from app.commands.replaying.changes import RecordedChange, RecordedKind, read_change, removal_of
from app.model.errors import BadObject
from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.recommender.core.checkpoints import Checkpoint, to_json
from tests import make
from tests.cases import cases

CHECKPOINT = Checkpoint("default", "web-app", "web", "app")
EVENT = {"kind": "Event", "metadata": {"name": "e"}, "reason": "Evicted"}
CUSTOM = {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "web"}}


@cases(
    "item subject key",
    {
        "a VPA": (make.vpa_json("web"), RecordedKind.VPA, "web"),
        "a pod": (make.pod_json(), RecordedKind.POD, "web-0"),
        "a pod without apiVersion": (
            {"kind": "Pod", "metadata": {"name": "web-0"}},
            RecordedKind.POD,
            "web-0",
        ),
        "an owner": (
            make.workload_json("Job/load"),
            RecordedKind.WORKLOAD,
            ObjectKey("", "Job", "load"),
        ),
        "a checkpoint": (to_json(CHECKPOINT), RecordedKind.CHECKPOINT, "web-app"),
        "an eviction": (EVENT, RecordedKind.EVENT, "e"),
        "an eviction without a name": (EVENT | {"metadata": {}}, RecordedKind.EVENT, ""),
        "a custom object": (CUSTOM, RecordedKind.CUSTOM, ("Shop", "web")),
    },
)
def test_what_plays_a_part(item: Json, subject: RecordedKind, key: object) -> None:
    """An object is known by kind, namespace and name; no namespace is `default`."""
    found, left_out = read_change(item)
    assert found is not None
    assert (found.subject, found.namespace, found.key, left_out) == (subject, "default", key, "")


@cases(
    "item",
    {
        "a node": (make.node_json(),),
        "a LimitRange": (make.limit_range_json(),),
        "settings": ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},),
        "another event": (EVENT | {"reason": "Killing"},),
    },
)
def test_what_plays_none(item: Json) -> None:
    """Whatever a recommender never looks at is no change."""
    assert read_change(item) == (None, "")


@cases(
    "item sentence",
    {
        "nothing": ({}, "kind: is missing"),
        "a kind nobody knows": ({"kind": "Shop"}, "apiVersion: is missing"),
        "no name": ({"kind": "Pod"}, "metadata.name: is missing"),
        "a checkpoint of another version": (
            make.with_value(to_json(CHECKPOINT), "status.version", "v2"),
            'status.version: "v2" is not "v3"',
        ),
        "a broken event": (
            EVENT | {"involvedObject": "web-0"},
            'involvedObject: expected an object, found the string "web-0"',
        ),
    },
)
def test_what_cannot_be_read(item: Json, sentence: str) -> None:
    """The sentence names the field."""
    with pytest.raises(BadObject) as caught:
        read_change(item)
    assert str(caught.value) == sentence


@cases(
    "item expected",
    {
        "a pod": (
            {"kind": "Pod", "namespace": "shop", "name": "web-0"},
            RecordedChange(RecordedKind.POD, "shop", "web-0", None),
        ),
        "a whole object": (
            make.vpa_json("web"),
            RecordedChange(RecordedKind.VPA, "default", "web", None),
        ),
        "event": (
            {"kind": "Event", "name": "e"},
            RecordedChange(RecordedKind.EVENT, "default", "e", None),
        ),
        "a checkpoint": (
            {"kind": "VerticalPodAutoscalerCheckpoint", "name": "web-app"},
            RecordedChange(RecordedKind.CHECKPOINT, "default", "web-app", None),
        ),
        "a custom object": (
            {"kind": "Shop", "name": "web"},
            RecordedChange(RecordedKind.CUSTOM, "default", ("Shop", "web"), None),
        ),
        "a node": ({"kind": "Node", "apiVersion": "v1", "name": "n"}, None),
    },
)
def test_what_goes(item: Json, expected: RecordedChange | None) -> None:
    """Kind, namespace and name tell which object goes."""
    assert removal_of(item) == expected
