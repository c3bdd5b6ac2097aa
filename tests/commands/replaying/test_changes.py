"""Objects become changes, if they play a part."""

from __future__ import annotations

import pytest

from app.commands.replaying.changes import RecordedChange, RecordedKind, read_change, removal_of
from app.model.errors import BadObject
from app.model.kinds import ObjectKey
from app.recommender.core.checkpoints import Checkpoint, to_json
from tests import make

CHECKPOINT = Checkpoint("default", "web-app", "web", "app")
EVENT = {"kind": "Event", "metadata": {"name": "e"}, "reason": "Evicted"}
CUSTOM = {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "web"}}


@pytest.mark.parametrize(
    ("item", "subject", "key"),
    [
        pytest.param(make.vpa_json("web"), RecordedKind.VPA, "web", id="a VPA"),
        pytest.param(make.pod_json(), RecordedKind.POD, "web-0", id="a pod"),
        pytest.param(
            {"kind": "Pod", "metadata": {"name": "web-0"}},
            RecordedKind.POD,
            "web-0",
            id="a pod without apiVersion",
        ),
        pytest.param(
            make.workload_json("Job/load"),
            RecordedKind.WORKLOAD,
            ObjectKey("", "Job", "load"),
            id="an owner",
        ),
        pytest.param(to_json(CHECKPOINT), RecordedKind.CHECKPOINT, "web-app", id="a checkpoint"),
        pytest.param(EVENT, RecordedKind.EVENT, "e", id="an eviction"),
        pytest.param(
            EVENT | {"metadata": {}}, RecordedKind.EVENT, "", id="an eviction without a name"
        ),
        pytest.param(CUSTOM, RecordedKind.CUSTOM, ("Shop", "web"), id="a custom object"),
    ],
)
def test_what_plays_a_part(item: make.Json, subject: RecordedKind, key: object) -> None:
    """An object is known by kind, namespace and name; no namespace is `default`."""
    found, left_out = read_change(item)
    assert found is not None
    assert (found.subject, found.namespace, found.key, left_out) == (subject, "default", key, "")


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(make.node_json(), id="a node"),
        pytest.param(make.limit_range_json(), id="a LimitRange"),
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}, id="settings"
        ),
        pytest.param(EVENT | {"reason": "Killing"}, id="another event"),
    ],
)
def test_what_plays_none(item: make.Json) -> None:
    """Whatever a recommender never looks at is no change."""
    assert read_change(item) == (None, "")


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        pytest.param({}, "kind: is missing", id="nothing"),
        pytest.param({"kind": "Shop"}, "apiVersion: is missing", id="a kind nobody knows"),
        pytest.param({"kind": "Pod"}, "metadata.name: is missing", id="no name"),
        pytest.param(
            make.with_value(to_json(CHECKPOINT), "status.version", "v2"),
            'status.version: "v2" is not "v3"',
            id="a checkpoint of another version",
        ),
        pytest.param(
            EVENT | {"involvedObject": "web-0"},
            'involvedObject: expected an object, found the string "web-0"',
            id="a broken event",
        ),
    ],
)
def test_what_cannot_be_read(item: make.Json, sentence: str) -> None:
    """The sentence names the field."""
    with pytest.raises(BadObject) as caught:
        read_change(item)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(
            {"kind": "Pod", "namespace": "shop", "name": "web-0"},
            RecordedChange(RecordedKind.POD, "shop", "web-0", None),
            id="a pod",
        ),
        pytest.param(
            make.vpa_json("web"),
            RecordedChange(RecordedKind.VPA, "default", "web", None),
            id="a whole object",
        ),
        pytest.param(
            {"kind": "Event", "name": "e"},
            RecordedChange(RecordedKind.EVENT, "default", "e", None),
            id="event",
        ),
        pytest.param(
            {"kind": "VerticalPodAutoscalerCheckpoint", "name": "web-app"},
            RecordedChange(RecordedKind.CHECKPOINT, "default", "web-app", None),
            id="a checkpoint",
        ),
        pytest.param(
            {"kind": "Shop", "name": "web"},
            RecordedChange(RecordedKind.CUSTOM, "default", ("Shop", "web"), None),
            id="a custom object",
        ),
        pytest.param({"kind": "Node", "apiVersion": "v1", "name": "n"}, None, id="a node"),
    ],
)
def test_what_goes(item: make.Json, expected: RecordedChange | None) -> None:
    """Kind, namespace and name tell which object goes."""
    assert removal_of(item) == expected
