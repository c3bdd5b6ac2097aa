"""Reads fields of JSON objects, with errors that name the field.

Strategy: absent and null are the same, as for an API server. What is there must have the right
type; a wrong one raises `BadObject` with its path. Callers hand in the parent's path as text so
that the happy path builds no strings. Texts that repeat in every pod are kept in memory once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

from app.model.errors import BadObject, BadQuantity
from app.model.quantity import MAX_INT64, Quantity

Object = Mapping[str, Any]
Json = dict[str, Any]  # an object that is made here

_NONE: Object = {}
_TOO_LONG = 10**20
_UNQUOTED = 'YAML takes Off, On, Yes and No for booleans: quote them, as in "Off"'


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def wrong_type(path: str, value: object, wanted: str) -> BadObject:
    """The error for a value that is not `wanted`."""
    return BadObject(path, f"expected {wanted}, found {_kind(value)}")


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return f"the number {_digits(value)}"
        case str():
            shown = value if len(value) <= 40 else value[:40] + "..."
            return f'the string "{shown}"'
        case list():
            return "a list"
        case _:
            return "an object"


def _digits(value: float) -> str:
    """Print a number, a very long one with an exponent; Python refuses thousands of digits."""
    return str(value) if abs(value) < _TOO_LONG else f"{Decimal(value):.6e}"


def as_object(value: object, path: str) -> Object:
    """Return an object as it is, absent as empty."""
    if value is None:
        return _NONE
    if not isinstance(value, dict):
        raise wrong_type(path, value, "an object")
    return value


def object_at(parent: Object, key: str, path: str) -> Object:
    """Return the object at a key, absent as empty."""
    value = parent.get(key)
    return _NONE if value is None else as_object(value, _join(path, key))


def optional_object(parent: Object, key: str, path: str) -> Object | None:
    """Return the object at a key, or None if absent."""
    value = parent.get(key)
    return None if value is None else as_object(value, _join(path, key))


def objects_at(parent: Object, key: str, path: str) -> list[Object]:
    """Return the list of objects at a key, absent as empty."""
    value = parent.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_type(_join(path, key), value, "a list")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise wrong_type(f"{_join(path, key)}[{index}]", item, "an object")
    return value


def items_at(parent: Object, key: str, path: str) -> list[tuple[Object, str]]:
    """Return the list of objects at a key, each with its path, absent as empty."""
    items = enumerate(objects_at(parent, key, path))
    return [(item, f"{_join(path, key)}[{index}]") for index, item in items]


def text_at(parent: Object, key: str, path: str) -> str:
    """Return the string at a key, absent as empty."""
    value = parent.get(key)
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    error = wrong_type(_join(path, key), value, "a string")
    if isinstance(value, bool):
        raise BadObject(error.path, f"{error.message}; {_UNQUOTED}")
    raise error


def optional_text(parent: Object, key: str, path: str) -> str | None:
    """Return the string at a key, or None if absent."""
    return None if parent.get(key) is None else text_at(parent, key, path)


def texts_at(parent: Object, key: str, path: str) -> tuple[str, ...] | None:
    """Return the list of strings at a key, or None if absent."""
    value = parent.get(key)
    if value is None:
        return None
    if not isinstance(value, list):
        raise wrong_type(_join(path, key), value, "a list")
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise wrong_type(f"{_join(path, key)}[{index}]", item, "a string")
    return tuple(value)


def labels_at(parent: Object, key: str, path: str) -> Mapping[str, str]:
    """Return the map of strings at a key, absent as empty; a null value counts as empty text."""
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong_type(_join(path, key), value, "an object")
    for name, item in value.items():
        if not isinstance(item, str) and item is not None:
            raise wrong_type(f"{_join(path, key)}[{name}]", item, "a string")
    if None in value.values():
        return {name: item or "" for name, item in value.items()}
    return value


def integer_at(
    parent: Object, key: str, path: str, *, least: int = -(2**31), most: int = 2**31 - 1
) -> int | None:
    """Return the whole number at a key, or None if absent."""
    value = parent.get(key)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(_join(path, key), value, "a whole number")
    if not least <= value <= most:
        raise BadObject(_join(path, key), f"the number {_digits(value)} is out of range")
    return value


def int64_at(parent: Object, key: str, path: str) -> int | None:
    """Return the whole number of 64 bits at a key, or None if absent."""
    return integer_at(parent, key, path, least=-MAX_INT64 - 1, most=MAX_INT64)


def flag_at(parent: Object, key: str, path: str) -> bool:
    """Return the boolean at a key, absent as false."""
    value = parent.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise wrong_type(_join(path, key), value, "a boolean")
    return value


def time_at(parent: Object, key: str, path: str) -> datetime | None:
    """Return the RFC 3339 time at a key, in UTC, or None if absent."""
    value = parent.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise wrong_type(_join(path, key), value, "a time")
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except (ValueError, OverflowError):  # the latter at both ends of the calendar
        raise BadObject(_join(path, key), f'"{value[:40]}" is no RFC 3339 time') from None


def quantity_at(parent: Object, key: str, path: str) -> Quantity | None:
    """Return the quantity at a key, or None if absent."""
    value = parent.get(key)
    return None if value is None else _quantity(value, path, key)


def quantities_at(parent: Object, key: str, path: str) -> dict[str, Quantity] | None:
    """Return the map of quantities at a key, or None if absent."""
    value = parent.get(key)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise wrong_type(_join(path, key), value, "an object")
    return {name: _quantity(item, path, key, name) for name, item in value.items()}


def _quantity(value: object, path: str, key: str, name: str | None = None) -> Quantity:
    try:
        return Quantity.read(value)
    except BadQuantity as error:
        at = _join(path, key) if name is None else f"{_join(path, key)}[{name}]"
        raise BadQuantity(at, error.message) from None


T = TypeVar("T", bound=Hashable)

_REMEMBERED = 16_384
_LONGEST = 64  # characters; longer texts hardly ever repeat


@lru_cache(_REMEMBERED, typed=True)
def shared(value: T) -> T:
    """Return one object for all equal values, which must be small: many are kept."""
    return value


def shared_text(text: str) -> str:
    """Return one object for all equal short texts."""
    return shared(text) if len(text) <= _LONGEST else text
