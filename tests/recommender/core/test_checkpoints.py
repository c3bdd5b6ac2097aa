"""Checkpoints and their names."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model import patches
from app.model.errors import BadObject, Invalid
from app.recommender.core.checkpoints import (
    Checkpoint,
    CheckpointName,
    CheckpointNames,
    OpenWindow,
    StoredHistogram,
    decode,
    encode,
    orphans,
    patch_of,
    read_checkpoint,
    to_json,
)
from app.recommender.core.histograms import EMPTY, Bank
from app.recommender.core.moments import DAY, LATEST, SECOND, UNSET, nanoseconds
from tests.cases import cases

NOON = nanoseconds(datetime(2026, 1, 5, 12, tzinfo=UTC))
ROW = np.array([0])

WEIGHTS = [
    pytest.param({11: 1.33483985417, 14: 2.66967970834}, {11: 5000, 14: 10000}, id="two peaks"),
    pytest.param({1: 1, 2: 100_000}, {2: 10000}, id="the light one drops out"),
    pytest.param({1: 1, 2: 10_000, 3: 50}, {1: 1, 2: 10000, 3: 50}, id="one in ten thousand stays"),
    pytest.param({0: 20_000, 1: 1.0, 2: 0.9999}, {0: 10000, 1: 1}, id="half rounds up"),
    pytest.param({1: 0.0001, 2: 0.9999}, {1: 1, 2: 10000}, id="as light as epsilon"),
    pytest.param({}, {}, id="empty"),
    pytest.param({1: 0.00001}, {}, id="dust"),
]


def weights_of(buckets: dict[int, float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return weights of all buckets."""
    weights = np.zeros(176)
    for bucket, weight in buckets.items():
        weights[bucket] = weight
    return weights


@pytest.mark.parametrize(("buckets", "expected"), WEIGHTS)
def test_encode(buckets: dict[int, float], expected: dict[int, int]) -> None:
    """Weights are stored relative to the heaviest, the total exactly."""
    weights = weights_of(buckets)

    stored = encode(weights, float(weights.sum()), NOON)

    assert stored == StoredHistogram(NOON, expected, float(weights.sum()))


@cases(
    "stored expected",
    {
        "total 6": ({0: 1, 1: 2}, {0: 2.0, 1: 4.0}),
        "nothing": ({}, {}),
        "nothing but zeros": ({3: 0}, {}),
    },
)
def test_decode(stored: dict[int, int], expected: dict[int, float]) -> None:
    """The total is spread as the stored parts say."""
    weights, total = decode(StoredHistogram(NOON, stored, 6.0))

    assert weights.tolist() == weights_of(expected).tolist()
    assert total == (6.0 if expected else 0.0)


def loaded(stored: StoredHistogram) -> Bank:
    """Return a bank of one row with a stored histogram in it."""
    bank = Bank(DAY, 1)
    bank.absorb(0, *decode(stored), stored.reference_ns)
    return bank


@given(st.dictionaries(st.integers(0, 175), st.floats(1.0, 1000.0), min_size=1, max_size=20))
def test_round_trip_keeps_percentiles(buckets: dict[int, float]) -> None:
    """Storing and loading moves no percentile by more than one filled bucket."""
    weights = weights_of(buckets)
    total = float(weights.sum())
    bank = Bank(DAY, 1)
    bank.absorb(0, weights, total, NOON)
    filled = sorted(buckets)

    found = loaded(encode(weights, total, NOON)).percentiles(ROW, (0.5, 0.9, 0.95))[0]

    before = bank.percentiles(ROW, (0.5, 0.9, 0.95))[0]
    assert EMPTY not in found
    for one, other in zip(found.tolist(), before.tolist(), strict=True):
        assert abs(filled.index(one) - filled.index(other)) <= 1


CHECKPOINT = Checkpoint(
    namespace="default",
    name="hamster-vpa-hamster",
    vpa="hamster-vpa",
    container="hamster",
    cpu=StoredHistogram(NOON, {8: 10000, 32: 1751}, 207.89808989927872),
    memory=StoredHistogram(NOON + DAY // 2, {27: 10000}, 1.0),
    first_ns=NOON - DAY // 2,
    last_ns=NOON + DAY // 2,
    count=1441,
    updated_ns=NOON + DAY // 2 + 3 * SECOND,
    windows=(OpenWindow("hamster-0", 1767700800 * SECOND, 314572800, 0),),
    kills=(("hamster-0", 1767690000),),
)


def test_json() -> None:
    """The object holds what upstream's would, field by field."""
    found = to_json(CHECKPOINT)

    assert found == {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {
            "namespace": "default",
            "name": "hamster-vpa-hamster",
            "annotations": {
                "vpa.plumbline/open-windows": '[["hamster-0",1767700800,314572800,0]]',
                "vpa.plumbline/oom-kills": '[["hamster-0",1767690000]]',
            },
        },
        "spec": {"vpaObjectName": "hamster-vpa", "containerName": "hamster"},
        "status": {
            "lastUpdateTime": "2026-01-06T00:00:03Z",
            "version": "v3",
            "cpuHistogram": {
                "referenceTimestamp": "2026-01-05T12:00:00Z",
                "bucketWeights": {"8": 10000, "32": 1751},
                "totalWeight": 207.89808989927872,
            },
            "memoryHistogram": {
                "referenceTimestamp": "2026-01-06T00:00:00Z",
                "bucketWeights": {"27": 10000},
                "totalWeight": 1,
            },
            "firstSampleStart": "2026-01-05T00:00:00Z",
            "lastSampleStart": "2026-01-06T00:00:00Z",
            "totalSamplesCount": 1441,
        },
    }


@pytest.mark.parametrize(("length", "least"), [(253, 240), (40, 1100)])
def test_kills_leave_room_for_windows(length: int, least: int) -> None:
    """However many pods were killed, an API server takes the annotations; the newest stay."""
    pods = [f"{number:0{length}d}" for number in range(6000)]
    windows = tuple(OpenWindow(pod, 2**62, 2**47, 2**47) for pod in pods[:512])
    kills = tuple((pod, 1767690000) for pod in pods)
    item = to_json(replace(CHECKPOINT, windows=windows, kills=kills))
    found = read_checkpoint(item)

    annotations = item["metadata"]["annotations"]
    assert sum(len(key) + len(text) for key, text in annotations.items()) < 256 * 1024
    assert len(found.windows) == 512
    assert least < len(found.kills) < 6000
    assert found.kills == kills[: len(found.kills)]


def test_json_of_nothing() -> None:
    """What is not known is null or left out, as upstream does."""
    found = to_json(Checkpoint("default", "a-b", "a", "b", updated_ns=NOON))

    assert found["status"] == {
        "lastUpdateTime": "2026-01-05T12:00:00Z",
        "version": "v3",
        "cpuHistogram": {"referenceTimestamp": None},
        "memoryHistogram": {"referenceTimestamp": None},
        "firstSampleStart": None,
        "lastSampleStart": None,
    }
    assert "annotations" not in found["metadata"]


@pytest.mark.parametrize(
    "checkpoint", [CHECKPOINT, Checkpoint("default", "a-b", "a", "b")], ids=["full", "empty"]
)
def test_read_gives_back_what_was_written(checkpoint: Checkpoint) -> None:
    """Nothing is lost on the way through JSON."""
    text = orjson.dumps(to_json(checkpoint))

    assert read_checkpoint(orjson.loads(text)) == checkpoint


def altered(path: str, value: object) -> dict[str, Any]:
    """Return the checkpoint with another value at a path; None takes it out."""
    item: dict[str, Any] = orjson.loads(orjson.dumps(to_json(CHECKPOINT)))
    *parents, last = path.split(".")
    parent = item
    for key in parents:
        parent = parent[key]
    parent[last] = value
    return item


CPU_WEIGHTS = "status.cpuHistogram.bucketWeights"
TOTAL = "status.memoryHistogram.totalWeight"
REFERENCE = "status.memoryHistogram.referenceTimestamp"
COUNT, FIRST = "status.totalSamplesCount", "status.firstSampleStart"
NO_NUMBER = 'expected a whole number, found the string "many"'


@cases(
    "path value sentence",
    {
        "version": ("status.version", "v2", 'status.version: "v2" is not "v3"'),
        "no status": ("status", None, 'status.version: "" is not "v3"'),
        "whose it is": ("spec.vpaObjectName", None, "spec.vpaObjectName: is missing"),
        "bucket above": (
            f"{CPU_WEIGHTS}.176",
            1,
            f'{CPU_WEIGHTS}: "176" is no bucket from 0 to 175',
        ),
        "bucket below": (f"{CPU_WEIGHTS}.-1", 1, f'{CPU_WEIGHTS}: "-1" is no bucket from 0 to 175'),
        "negative weight": (
            f"{CPU_WEIGHTS}.8",
            -1,
            f"{CPU_WEIGHTS}.8: the number -1 is out of range",
        ),
        "weight in words": (f"{CPU_WEIGHTS}.8", "many", f"{CPU_WEIGHTS}.8: {NO_NUMBER}"),
        "negative total": (TOTAL, -1, f"{TOTAL}: -1 is no weight"),
        "absurd total": (TOTAL, 1e300, f"{TOTAL}: 1e+300 is no weight"),
        "undefined total": (TOTAL, float("nan"), f"{TOTAL}: nan is no weight"),
        "total in words": (TOTAL, "1", f'{TOTAL}: expected a number, found the string "1"'),
        "total as truth": (TOTAL, True, f"{TOTAL}: expected a number, found a boolean"),
        "no reference": (REFERENCE, None, f"{REFERENCE}: is missing, so weights mean nothing"),
        "negative count": (COUNT, -5, f"{COUNT}: the number -5 is out of range"),
        "time in words": (FIRST, "yesterday", f'{FIRST}: "yesterday" is no RFC 3339 time'),
    },
)
def test_garbage_is_refused(path: str, value: object, sentence: str) -> None:
    """What cannot be is named with its field."""
    with pytest.raises(BadObject) as caught:
        read_checkpoint(altered(path, value))

    assert str(caught.value) == sentence


@cases(
    "text",
    {
        "no json": ("no json",),
        "no list": ("{}",),
        "no entries": ('[["a",1,2],["b",1,2,-3],[1,2,3,4],["c",1,2,3.5],7]',),
        "no text": (7,),
        "absurd": ('[["a",1,9000000000000000000,0]]',),
    },
)
def test_senseless_windows_are_left_out(text: object) -> None:
    """A damaged annotation costs the windows it should have told, nothing else."""
    item = altered("metadata.annotations", {"vpa.plumbline/open-windows": text})

    assert read_checkpoint(item).windows == ()


def test_go_zero_time_is_no_time() -> None:
    """Year 1 is how Go writes "never"; times beyond reach are cut off."""
    never = read_checkpoint(altered(FIRST, "0001-01-01T00:00:00Z"))
    late = read_checkpoint(altered("status.lastSampleStart", "9999-01-01T00:00:00Z"))

    assert (never.first_ns, late.last_ns) == (UNSET, LATEST)


ALIEN = {"vpa.plumbline/oom-kills": '[["gone",1]]', "team": "web"}


@cases(
    "checkpoint kills",
    {
        "as it is now": (CHECKPOINT, '[["hamster-0",1767690000]]'),
        "nothing to tell any more": (replace(CHECKPOINT, kills=()), "[]"),
    },
)
def test_patch(checkpoint: Checkpoint, kills: str) -> None:
    """A patch changes what is ours, and leaves the annotations and labels of others alone."""
    item = to_json(checkpoint)
    stored = {**item, "metadata": {"labels": {"a": "b"}, "annotations": ALIEN}, "status": {"a": 1}}

    found = patches.apply(stored, patch_of(item))

    windows = '[["hamster-0",1767700800,314572800,0]]'
    assert found["metadata"] == {
        "labels": {"a": "b"},
        "annotations": {
            "team": "web",
            "vpa.plumbline/oom-kills": kills,
            "vpa.plumbline/open-windows": windows,
        },
    }
    assert found["status"] == item["status"]
    assert read_checkpoint({**found, "metadata": item["metadata"]}) == checkpoint


def test_patch_of_another_container() -> None:
    """A patch fails on the object of another container."""
    item = to_json(CHECKPOINT)
    other = {**item, "spec": {**item["spec"], "containerName": "other"}}
    with pytest.raises(Invalid):
        patches.apply(other, patch_of(item))


def test_collision() -> None:
    """The second of two containers with one plain name gets a hash, in its namespace only."""
    names = CheckpointNames()

    found = [
        names.of("default", ("web-app", "x")),
        names.of("default", ("web", "app-x")),
        names.of("other", ("web", "app-x")),
        names.of("default", ("web", "app-x")),
    ]

    assert found[0] == found[2] == "web-app-x"
    assert found[1] == found[3] != "web-app-x"
    assert found[1].startswith("web-app-x-")


def test_long_names() -> None:
    """Names beyond what an API server takes are cut and told apart by a hash."""
    names = CheckpointNames()

    one = names.of("default", ("a" * 241 + "-b", "c" * 63))
    other = names.of("default", ("a" * 241 + "-b", "d" * 63))

    assert (len(one), len(other)) == (252, 252)
    assert one != other


def test_taken_names() -> None:
    """An object that exists keeps its name, whatever came first this time."""
    names = CheckpointNames()
    names.take("default", "web-app-x", ("web", "app-x"))
    names.take("default", "web-app-x-old", ("web", "app-x"))
    names.take("default", "web-app-x", ("web-app", "x"))

    assert names.of("default", ("web", "app-x")) == "web-app-x"
    assert names.of("default", ("web-app", "x")) != "web-app-x"


def test_release() -> None:
    """A released name is free for others."""
    names = CheckpointNames()
    names.of("default", ("web", "app-x"))

    assert names.release("default", ("web", "app-x")) == "web-app-x"
    assert names.release("default", ("web", "app-x")) is None
    assert names.of("default", ("web-app", "x")) == "web-app-x"


@cases(
    "namespace vpa expected",
    {
        "its VPA is gone": ("a", "gone", True),
        "its VPA is there, under any recommender": ("a", "web", False),
        "its namespace is not ours": ("kept", "gone", False),
        "a VPA of that name in another namespace": ("b", "web", True),
    },
)
def test_orphans(namespace: str, vpa: str, expected: bool) -> None:
    """A checkpoint is an orphan if its VPA does not exist in a namespace that is ours."""
    name = CheckpointName(namespace, "x", vpa)

    found = orphans([name], {("a", "web"), ("kept", "web")}, kept_namespaces={"kept"})

    assert found == ([name] if expected else [])
