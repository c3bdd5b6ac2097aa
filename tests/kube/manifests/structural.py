"""What structural schemas say, and what the sandbox finds wrong with a value by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from app.ports import Json
from app.sandbox.objects import JsonValue
from app.sandbox.schema import prune, schema_problems


def fields(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every field below `schema` with its path, such as `spec.rules[].name` or `spec.map{}`."""
    for name, below in schema.get("properties", {}).items():
        at = f"{path}.{name}" if path else name
        yield at, below
        yield from fields(below, at)
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            yield path + mark, schema[key]
            yield from fields(schema[key], path + mark)


def facts(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    """What `key` says, by path, wherever it is said."""
    return {path: below[key] for path, below in fields(schema) if key in below}


WORDS = {
    "FieldValueRequired": "required",
    "FieldValueTypeInvalid": "type",
    "FieldValueNotSupported": "enum",
    "FieldValueInvalid": "invalid",
}


def problems(schema: Json, value: JsonValue) -> list[str]:
    """What is wrong with `value`, as `path: what`; a field that would be pruned is `unknown`."""
    pruned = deepcopy(value)
    prune(schema, pruned)
    return [
        *(f"{each.field}: {WORDS[each.reason]}" for each in schema_problems(schema, value, None)),
        *(f"{path}: unknown" for path in _pruned(value, pruned)),
    ]


def _pruned(value: JsonValue, left: JsonValue, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and isinstance(left, dict):
        for name, item in value.items():
            at = f"{path}.{name}".lstrip(".")
            if name in left:
                yield from _pruned(item, left[name], at)
            else:
                yield at
