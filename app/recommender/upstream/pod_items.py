"""Usage from external metrics as upstream reads it: a pod is one item, dated as its last answer."""

from __future__ import annotations

from collections.abc import Sequence

from app.model.fields import Json, Object, objects_at
from app.recommender.core.usage import (
    ExternalQuestion,
    ExternalRules,
    named_values,
    usage_item,
)


def pod_items(
    answers: Sequence[tuple[ExternalQuestion, Object]], rules: ExternalRules
) -> list[Json]:
    """Return one item for each pod, at the time of the first value of its last answer."""
    found: dict[tuple[str, str], Json] = {}
    for question, answer in answers:
        containers = found.get((question.namespace, question.pod), {}).get("containers", [])
        usage = {one["name"]: one["usage"] for one in containers}
        for name, value in named_values(answer, rules):
            usage.setdefault(name, {})[question.resource] = value.get("value")
        values = objects_at(answer, "items", "")
        if values:
            told = [{"name": name, "usage": used} for name, used in usage.items()]
            found[question.namespace, question.pod] = usage_item(question, told, values[0])
    return list(found.values())
