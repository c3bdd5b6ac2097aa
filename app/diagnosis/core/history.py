"""On how much a recommendation rests, as checkpoints tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from app.model.errors import BadObject
from app.model.fields import Object
from app.recommender.core.checkpoints import Checkpoint, read_checkpoint
from app.recommender.core.estimation import confidence
from app.recommender.core.moments import moment_or_none

ContainerKey = tuple[str, str, str]  # namespace, VPA, container

_FULL: Final = timedelta(days=1)  # of history is a confidence of one, unless a flag says else


@dataclass(frozen=True, slots=True)
class LearnedHistory:
    """What was learned of a container, and when."""

    samples: int
    updated: datetime | None
    confidence: float  # days of history, by age and by number of samples


def histories(items: Iterable[Object]) -> Mapping[ContainerKey, LearnedHistory]:
    """Return the history of each container; a checkpoint that cannot be read tells nothing."""
    found = {}
    for item in items:
        try:
            checkpoint = read_checkpoint(item)
        except BadObject:
            continue
        key = checkpoint.namespace, checkpoint.vpa, checkpoint.container
        found[key] = _history(checkpoint)
    return found


def _history(checkpoint: Checkpoint) -> LearnedHistory:
    first, last, count = (
        np.array([value], dtype=np.int64)
        for value in (checkpoint.first_ns, checkpoint.last_ns, checkpoint.count)
    )
    return LearnedHistory(
        checkpoint.count,
        moment_or_none(checkpoint.updated_ns),
        float(confidence(first, last, count, _FULL)[0]),
    )
