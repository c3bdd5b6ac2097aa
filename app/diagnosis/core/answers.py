"""What a recommender's API tells, as the objects and histories that a cluster would tell.

Strategy: an answer becomes the VPA that it speaks of, so that everything behind it is one way,
wherever recommendations come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from app.diagnosis.core.comparisons import ContainerKey, LearnedHistory
from app.model.errors import BadObject
from app.model.fields import Json, Object, integer_at, object_at, objects_at, text_at, time_at
from app.model.vpa import VPA_GROUP

_AMOUNTS = ("target", "lowerBound", "upperBound", "uncappedTarget")
_MOST_SAMPLES = 2**63 - 1


def vpa_object(answer: Object) -> Json:
    """Return the VPA that an answer speaks of.

    Raises:
        BadObject: something in it cannot be read.
    """
    recommended = [
        {"containerName": one["container"], **{word: one.get(word) for word in _AMOUNTS}}
        for one in objects_at(answer, "containers", "")
        if one.get("container") and one.get("target")
    ]
    status: Json = {"conditions": objects_at(answer, "conditions", "")}
    if recommended:
        status["recommendation"] = {"containerRecommendations": recommended}
    return {
        "apiVersion": f"{VPA_GROUP}/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {
            "namespace": text_at(answer, "namespace", ""),
            "name": text_at(answer, "name", ""),
        },
        "spec": {
            "targetRef": answer.get("target"),
            "updatePolicy": {"updateMode": answer.get("updateMode")},
        },
        "status": status,
    }


def answered_histories(answer: Object) -> Iterator[tuple[ContainerKey, LearnedHistory]]:
    """Yield on what the amounts of each container rest; garbage tells nothing."""
    with suppress(BadObject):
        yield from _histories(answer)


def _histories(answer: Object) -> Iterator[tuple[ContainerKey, LearnedHistory]]:
    place = text_at(answer, "namespace", ""), text_at(answer, "name", "")
    computed = time_at(answer, "computedAt", "")
    for one in objects_at(answer, "containers", ""):
        evidence = object_at(one, "evidence", "containers")
        if not evidence:
            continue
        path = "containers.evidence"
        days = [
            float(value)
            for value in object_at(evidence, "confidence", path).values()
            if isinstance(value, int | float)
        ]
        yield (
            (*place, text_at(one, "container", "containers")),
            LearnedHistory(
                integer_at(evidence, "samples", path, most=_MOST_SAMPLES) or 0,
                computed,
                min(days, default=0.0),
            ),
        )
