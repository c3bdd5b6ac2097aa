"""A small reader of structural schemas: what an API server would say, less CEL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


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


def problems(schema: Mapping[str, Any], value: object, path: str = "") -> list[str]:
    """What is wrong with `value`, as `path: what`; fields that would be pruned count as wrong."""
    if value is None and schema.get("nullable"):
        return []
    if not _has_type(schema, value):
        return [f"{path}: type"]
    found = [f"{path}: {what}" for what in _own_problems(schema, value)]
    if isinstance(value, dict):
        found += _entry_problems(schema, value, path)
    if isinstance(value, list):
        for index, each in enumerate(value):
            found += problems(schema["items"], each, f"{path}[{index}]")
    return found


def _has_type(schema: Mapping[str, Any], value: object) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    fitting = isinstance(value, _TYPES[schema["type"]])
    return fitting and (not isinstance(value, bool) or schema["type"] == "boolean")


def _own_problems(schema: Mapping[str, Any], value: object) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        yield "enum"
    if isinstance(value, int | float) and value < schema.get("minimum", value):
        yield "minimum"
    if isinstance(value, str):
        if not re.search(schema.get("pattern", ""), value):
            yield "pattern"
        if schema.get("format") == "date-time" and not _is_moment(value):
            yield "format"


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _entry_problems(schema: Mapping[str, Any], value: dict[str, Any], path: str) -> list[str]:
    known = schema.get("properties", {})
    others = schema.get("additionalProperties")
    keeps_all = schema.get("x-kubernetes-preserve-unknown-fields") or path == "metadata"
    found = [f"{path}.{name}: required" for name in schema.get("required", ()) if name not in value]
    for name, each in value.items():
        at = f"{path}.{name}" if path else name
        below = known.get(name, others)
        if below is not None:
            found += problems(below, each, at)
        elif not keeps_all:
            found.append(f"{at}: unknown")
    return found
