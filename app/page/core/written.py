"""Views as JSON: the same names and values as on the page, exact and without what is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from functools import cache
from typing import Final

import numpy as np

from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.quantity import Quantity
from app.model.times import rfc3339

_NOTHING: Final[tuple[object, ...]] = ("", (), [], {})


def page_json(page: object) -> Json:
    """Return a whole view as a JSON object."""
    return {name: view_json(one) for name, one in _told(page)}


def view_json(value: object) -> object:
    """Return a view as JSON; members that are None or empty are left out."""
    match value:
        case ObjectKey() | Quantity():
            return str(value)
        case datetime():
            return rfc3339(value)
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {str(key): view_json(one) for key, one in value.items()}
        case str() | int() | float() | None:
            return value.name.lower() if isinstance(value, IntEnum) else value
        case Sequence():
            return [view_json(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {name: view_json(one) for name, one in _told(value)}
    return str(value)


def _told(view: object) -> Iterator[tuple[str, object]]:
    """Yield the members of a view that have something to tell."""
    assert is_dataclass(view)
    for one in fields(view):
        value = getattr(view, one.name)
        if isinstance(value, np.ndarray):  # usage over time; NaN is not known
            value = [None if np.isnan(one) else round(one) for one in value.tolist()]
        if value is not None and value not in _NOTHING:
            yield _camel(one.name), value


@cache
def _camel(name: str) -> str:
    first, *others = name.split("_")
    return "".join((first, *(word.capitalize() for word in others)))
