"""Checkpoints: history as objects in the cluster, written and read as version v3.

Strategy: the format is upstream's to the letter, so that either recommender goes on where the
other stopped. A histogram is stored relative to its heaviest bucket, without the peaks of
running intervals. Those, and the kills already counted, stand in annotations that upstream does
not look at. What cannot be read is refused with a sentence, never half used.

Objects are named `<vpa>-<container>`. The first owner of a name keeps it, and names of objects that
were read are taken from the start, so a restart renames nothing. Two containers whose plain names
collide, and names that are too long, get a hash of what they stand for.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import orjson

from app.model import patches
from app.model.errors import BadObject
from app.model.fields import (
    Json,
    Object,
    integer_at,
    object_at,
    text_at,
    time_at,
    wrong_type,
)
from app.model.times import rfc3339
from app.recommender.core.histograms import BUCKETS, EPSILON, Weights
from app.recommender.core.moments import (
    EARLIEST,
    SECOND,
    UNSET,
    bounded,
    moment,
    nanoseconds,
)
from app.recommender.core.targets import VpaKey

VERSION: Final = "v3"
HEAVIEST: Final = 10_000  # what the heaviest bucket is stored as
API_VERSION: Final = "autoscaling.k8s.io/v1"
KIND: Final = "VerticalPodAutoscalerCheckpoint"
WINDOWS_ANNOTATION: Final = "vpa.plumbline/open-windows"
KILLS_ANNOTATION: Final = "vpa.plumbline/oom-kills"
_NOTHING: Final = "[]"

_MOST_TOTAL: Final = 1e60  # far more than a hundred half-lives of samples can weigh
_MOST_COUNT: Final = 2**62
_MOST_BYTES: Final = 2**62
_KILLS_BYTES: Final = 64 * 1024  # open windows take up to 160 KiB, the rest is for others
_KILL_BYTES: Final = 16  # of a kill, beside the name of its pod

_LONGEST: Final = 253
_HASH_DIGITS: Final = 10

Owner = tuple[str, str]  # VPA and container


@dataclass(frozen=True, slots=True)
class StoredHistogram:
    """A histogram as a checkpoint holds it."""

    reference_ns: int = UNSET
    weights: Mapping[int, int] = field(default_factory=dict)  # by bucket, the heaviest is 10000
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """The running interval of one pod's container."""

    pod: str
    end_ns: int
    usage_bytes: int
    oom_bytes: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The history of one container of one VPA."""

    namespace: str
    name: str
    vpa: str
    container: str
    cpu: StoredHistogram = field(default_factory=StoredHistogram)
    memory: StoredHistogram = field(default_factory=StoredHistogram)
    first_ns: int = UNSET  # of the CPU samples
    last_ns: int = UNSET
    count: int = 0
    updated_ns: int = UNSET  # when it was written
    windows: tuple[OpenWindow, ...] = ()
    kills: tuple[tuple[str, int], ...] = ()  # (pod, second), the newest first

    @property
    def vpa_key(self) -> VpaKey:
        """Whose it is."""
        return (self.namespace, self.vpa)


class CheckpointName(NamedTuple):
    """Which checkpoint it is."""

    namespace: str
    name: str
    vpa: str = ""  # whose it is, if that is known
    uid: str = ""  # if it is known

    @property
    def vpa_key(self) -> VpaKey:
        """Whose it is."""
        return (self.namespace, self.vpa)


def encode(weights: Weights, total: float, reference_ns: int) -> StoredHistogram:
    """Store a histogram relative to its heaviest bucket; the lightest drop out."""
    filled = np.flatnonzero(weights >= EPSILON)
    if not len(filled):
        return StoredHistogram(reference_ns, {}, total)
    first, last = int(filled[0]), int(filled[-1])
    kept = weights[first : last + 1]
    counts = np.floor(kept * (HEAVIEST / kept.max()) + 0.5).astype(np.int64)
    found = np.flatnonzero(counts)
    stored = dict(zip((found + first).tolist(), counts[found].tolist(), strict=True))
    return StoredHistogram(reference_ns, stored, total)


def decode(stored: StoredHistogram) -> tuple[Weights, float]:
    """Return the weights of the buckets and their total."""
    weights = np.zeros(BUCKETS)
    parts = sum(stored.weights.values())
    if not parts:
        return weights, 0.0
    for bucket, count in stored.weights.items():
        weights[bucket] += float(count) * (stored.total / float(parts))
    return weights, stored.total


def to_json(checkpoint: Checkpoint) -> Json:
    """Write a checkpoint as an object of the API."""
    annotations = _annotations(checkpoint)
    metadata: Json = {"namespace": checkpoint.namespace, "name": checkpoint.name}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata | ({"annotations": annotations} if annotations else {}),
        "spec": {"vpaObjectName": checkpoint.vpa, "containerName": checkpoint.container},
        "status": {
            "lastUpdateTime": _time(checkpoint.updated_ns),
            "version": VERSION,
            "cpuHistogram": _histogram_json(checkpoint.cpu),
            "memoryHistogram": _histogram_json(checkpoint.memory),
            "firstSampleStart": _time(checkpoint.first_ns),
            "lastSampleStart": _time(checkpoint.last_ns),
        }
        | ({"totalSamplesCount": checkpoint.count} if checkpoint.count else {}),
    }


def own_annotations(item: Json) -> dict[str, str]:
    """Return all that we annotate a checkpoint with, empty lists included."""
    annotations = item["metadata"].get("annotations", {})
    return {key: annotations.get(key, _NOTHING) for key in (WINDOWS_ANNOTATION, KILLS_ANNOTATION)}


def patch_of(item: Json) -> list[Json]:
    """Return the JSON patch that brings a stored checkpoint up to date.

    It fails on an object of the same name that belongs to another container, and on one without
    any annotations; those of others stay.
    """
    spec = item["spec"]
    return [
        patches.test(("spec", "vpaObjectName"), spec["vpaObjectName"]),
        patches.test(("spec", "containerName"), spec["containerName"]),
        *(
            patches.add(("metadata", "annotations", key), text)
            for key, text in own_annotations(item).items()
        ),
        patches.add(("status",), item["status"]),
    ]


def read_checkpoint(item: Object) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        BadObject: it is of another version, or something in it cannot be.
    """
    metadata, spec, status = (object_at(item, key, "") for key in ("metadata", "spec", "status"))
    version = text_at(status, "version", "status")
    if version != VERSION:
        raise BadObject("status.version", f'"{version[:40]}" is not "{VERSION}"')
    annotations = object_at(metadata, "annotations", "metadata")
    count = integer_at(status, "totalSamplesCount", "status", least=0, most=_MOST_COUNT)
    return Checkpoint(
        namespace=text_at(metadata, "namespace", "metadata"),
        name=text_at(metadata, "name", "metadata"),
        vpa=_needed_text(spec, "vpaObjectName"),
        container=_needed_text(spec, "containerName"),
        cpu=_read_histogram(status, "cpuHistogram"),
        memory=_read_histogram(status, "memoryHistogram"),
        first_ns=_read_time(status, "firstSampleStart", "status"),
        last_ns=_read_time(status, "lastSampleStart", "status"),
        count=count or 0,
        updated_ns=_read_time(status, "lastUpdateTime", "status"),
        windows=_read_windows(annotations),
        kills=_read_kills(annotations),
    )


def _fitting(kills: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
    """Return as many kills as there is room for, in an object that takes no more than 256 KiB."""
    sizes = accumulate(len(pod) + _KILL_BYTES for pod, _ in kills)
    return [kill for kill, size in zip(kills, sizes, strict=True) if size <= _KILLS_BYTES]


def _annotations(checkpoint: Checkpoint) -> dict[str, str]:
    found: dict[str, Sequence[Sequence[object]]] = {
        WINDOWS_ANNOTATION: [
            (one.pod, one.end_ns // SECOND, one.usage_bytes, one.oom_bytes)
            for one in checkpoint.windows
        ],
        KILLS_ANNOTATION: _fitting(checkpoint.kills),
    }
    return {key: orjson.dumps(entries).decode() for key, entries in found.items() if entries}


def _histogram_json(stored: StoredHistogram) -> Json:
    item: Json = {"referenceTimestamp": _time(stored.reference_ns)}
    if stored.weights:
        item["bucketWeights"] = {str(bucket): count for bucket, count in stored.weights.items()}
    if stored.total:
        item["totalWeight"] = int(stored.total) if stored.total.is_integer() else stored.total
    return item


def _time(time_ns: int) -> str | None:
    """Write a time as RFC 3339 in whole seconds."""
    if time_ns == UNSET:
        return None
    return rfc3339(moment(time_ns // SECOND * SECOND))


def _needed_text(spec: Object, key: str) -> str:
    found = text_at(spec, key, "spec")
    if not found:
        raise BadObject(f"spec.{key}", "is missing")
    return found


def _read_time(parent: Object, key: str, path: str) -> int:
    """Read a time; none, and Go's zero time, are UNSET."""
    found = time_at(parent, key, path)
    time_ns = EARLIEST if found is None else nanoseconds(found)
    return UNSET if time_ns == EARLIEST else time_ns


def _read_histogram(status: Object, key: str) -> StoredHistogram:
    path = f"status.{key}"
    item = object_at(status, key, "status")
    weights = _read_weights(object_at(item, "bucketWeights", path), f"{path}.bucketWeights")
    total = _read_total(item, path)
    reference_ns = _read_time(item, "referenceTimestamp", path)
    if weights and reference_ns == UNSET:
        raise BadObject(f"{path}.referenceTimestamp", "is missing, so weights mean nothing")
    return StoredHistogram(reference_ns, weights, total)


def _read_weights(item: Object, path: str) -> dict[int, int]:
    weights = {}
    for text in item:
        if not (text.isascii() and text.isdigit() and len(text) <= 3 and int(text) < BUCKETS):
            raise BadObject(path, f'"{text[:40]}" is no bucket from 0 to {BUCKETS - 1}')
        weights[int(text)] = integer_at(item, text, path, least=0, most=2**32 - 1) or 0
    return weights


def _read_total(item: Object, path: str) -> float:
    found = item.get("totalWeight")
    if found is None:
        return 0.0
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise wrong_type(f"{path}.totalWeight", found, "a number")
    if not (math.isfinite(found) and 0 <= found <= _MOST_TOTAL):
        raise BadObject(f"{path}.totalWeight", f"{found:.6g} is no weight")
    return float(found)


def _read_windows(annotations: Object) -> tuple[OpenWindow, ...]:
    """Read the open windows; senseless ones are left out, for they are worth a day at most."""
    return tuple(
        OpenWindow(pod, bounded(end_s * SECOND), usage_bytes, oom_bytes)
        for pod, end_s, usage_bytes, oom_bytes in _entries(annotations, WINDOWS_ANNOTATION, 4)
        if max(usage_bytes, oom_bytes) <= _MOST_BYTES
    )


def _read_kills(annotations: Object) -> tuple[tuple[str, int], ...]:
    return tuple((pod, second) for pod, second in _entries(annotations, KILLS_ANNOTATION, 2))


def _entries(annotations: Object, key: str, length: int) -> list[list[Any]]:
    """Read a list of lists, each a name and numbers."""
    text = annotations.get(key)
    try:
        found = orjson.loads(text) if isinstance(text, str) else []
    except orjson.JSONDecodeError:
        return []
    return [entry for entry in found if _is_entry(entry, length)] if isinstance(found, list) else []


def _is_entry(entry: object, length: int) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == length
        and isinstance(entry[0], str)
        and all(type(number) is int and number >= 0 for number in entry[1:])
    )


def orphans(
    checkpoints: Iterable[CheckpointName],
    vpas: Collection[VpaKey],
    *,
    kept_namespaces: Collection[str],
) -> list[CheckpointName]:
    """Return the checkpoints whose VPA does not exist, under any recommender.

    `vpas` must be a complete list of all VPAs; checkpoints in kept namespaces stay.
    """
    return [
        found
        for found in checkpoints
        if found.vpa_key not in vpas and found.namespace not in kept_namespaces
    ]


class CheckpointNames:
    """Who holds which name, by namespace."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], Owner] = {}
        self._names: dict[tuple[str, Owner], str] = {}

    def take(self, namespace: str, name: str, owner: Owner) -> None:
        """Note that an object of this name exists; a second object of an owner is ignored."""
        if self._owners.setdefault((namespace, name), owner) == owner:
            self._names.setdefault((namespace, owner), name)

    def of(self, namespace: str, owner: Owner) -> str:
        """Return the name for a container's checkpoint, always the same one."""
        if (namespace, owner) not in self._names:
            plain = "-".join(owner)
            fits = len(plain) <= _LONGEST
            if not fits or self._owners.get((namespace, plain), owner) != owner:
                plain = _hashed(plain, owner)
            self.take(namespace, plain, owner)
        return self._names[namespace, owner]

    def is_free(self, namespace: str, name: str) -> bool:
        """Whether a name is free, as far as is known."""
        return (namespace, name) not in self._owners

    def release(self, namespace: str, owner: Owner) -> str | None:
        """Forget an owner, and return the name it had."""
        name = self._names.pop((namespace, owner), None)
        if name is not None:
            del self._owners[namespace, name]
        return name


def _hashed(plain: str, owner: Owner) -> str:
    digest = hashlib.sha256("/".join(owner).encode()).hexdigest()[:_HASH_DIGITS]
    return f"{plain[: _LONGEST - _HASH_DIGITS - 1].rstrip('-.')}-{digest}"
