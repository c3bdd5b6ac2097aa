"""Reads what Prometheus answers: series of points, and labels.

Strategy: what cannot be read costs itself alone, one series or one point, and is counted. Amounts
that cannot be - not a number, infinite, below zero - are no points. Strictly read, as upstream
does, one bad series makes the whole answer worthless, and amounts are bent until they can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.core.recommendation.estimators import MOST
from app.core.recommendation.grid import Amounts
from app.core.recommendation.observations import ABSENT
from app.model.errors import BadObject
from app.model.fields import Object, labels_at, object_at, objects_at, text_at, texts_at

_MOST_TOLD: Final = 5  # sentences

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Series:
    """Points with the labels they share; thousands of them are laid out in arrays together."""

    labels: Mapping[str, str]
    times: list[float]  # seconds
    values: list[float]


@dataclass(slots=True)
class Flaws:
    """What could not be read; numbers only grow."""

    series: int = 0
    points: int = 0
    told: list[str] = field(default_factory=list)  # the first few, as sentences

    def tell(self, sentence: str) -> None:
        """Keep a sentence, if there are few."""
        if len(self.told) < _MOST_TOLD:
            self.told.append(sentence)


def read_series(body: Object, flaws: Flaws, *, is_strict: bool) -> Iterator[Series]:
    """Yield the series of an answer, whatever else is in it.

    Raises:
        BadObject: it is no answer, or strictly read not a good one.
    """
    data = object_at(body, "data", "")
    kind = text_at(data, "resultType", "data")
    if kind != "matrix" and (is_strict or kind != "vector"):
        raise BadObject("data.resultType", f'expected "matrix", found "{kind[:40]}"')
    for warning in texts_at(body, "warnings", "") or ():
        flaws.tell(f"Prometheus warns: {warning}")
    for index, item in enumerate(objects_at(data, "result", "data")):
        try:
            yield _series(item, kind, f"data.result[{index}]")
        except BadObject as error:
            if is_strict:
                raise
            flaws.series += 1
            flaws.tell(str(error))


def label(series: Series, name: str) -> str:
    """Return a label that a series must have.

    Raises:
        BadObject: it has none.
    """
    found = series.labels.get(name)
    if found is None:
        shown = ", ".join(f"{key}={text}" for key, text in sorted(series.labels.items())[:5])
        raise BadObject("", f"a series has no label {name}: {shown[:200] or 'no labels at all'}")
    return found


def amounts(values: Numbers, scale: float, *, is_strict: bool) -> Amounts:
    """Return values as whole amounts, cut off; ABSENT for those that cannot be."""
    can_be = ~np.isnan(values) if is_strict else np.isfinite(values) & (values >= 0.0)
    bent = np.clip(np.clip(np.where(can_be, values, 0.0), 0.0, MOST) * scale, 0.0, MOST)
    return np.where(can_be, bent.astype(np.int64), ABSENT)


def _series(item: Object, kind: str, path: str) -> Series:
    labels = labels_at(item, "metric", path)
    points: Any = item.get("values") if kind == "matrix" else [item.get("value")]
    try:
        times = [float(point[0]) for point in points]
        values = [float(point[1]) for point in points]
    except (TypeError, ValueError, LookupError, OverflowError):
        raise BadObject(path, "has points that cannot be read") from None
    return Series(labels, times, values)
