"""The structural schema of a custom resource: what is pruned, filled in and refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Final

from app.ports import Json
from app.sandbox.cel import CelError, compile_cel
from app.sandbox.objects import JsonValue
from app.sandbox.refusals import FieldProblem, required, shown, unsupported, wrong, wrong_kind

_TYPES: Final[dict[str, Callable[[object], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_INT_BITS: Final = {"int32": 31, "int64": 63}
_ROOT: Final = ("apiVersion", "kind", "metadata")


def prune(schema: Json, value: JsonValue, *, is_root: bool = True) -> None:
    """Take out what the schema does not know, in place."""
    if isinstance(value, list):
        for item in value:
            prune(schema.get("items", {}), item, is_root=False)
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name in list(value):
        if is_root and name in _ROOT:
            continue
        below = known.get(name, others)
        if below is None:
            del value[name]
        elif isinstance(below, dict):
            prune(below, value[name], is_root=False)


def fill(schema: Json, value: JsonValue) -> None:
    """Fill in defaults, in place; null where it is not allowed is as good as absent."""
    if isinstance(value, list):
        for item in value:
            fill(schema.get("items", {}), item)
    if not isinstance(value, dict):
        return
    for name, below in schema.get("properties", {}).items():
        if "default" in below and (
            name not in value or (value[name] is None and not below.get("nullable"))
        ):
            value[name] = below["default"]
    for name, item in value.items():
        below = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
        if isinstance(below, dict):
            fill(below, item)


def check_rules(schema: JsonValue) -> None:
    """Compile every rule of a schema.

    Raises:
        NotUnderstood: one of them is more than the sandbox knows of CEL.
    """
    if isinstance(schema, dict):
        for entry in schema.get("x-kubernetes-validations") or ():
            compile_cel(entry["rule"])
        for below in schema.values():
            check_rules(below)
    elif isinstance(schema, list):
        for below in schema:
            check_rules(below)


def schema_problems(
    schema: Json, value: JsonValue, old: JsonValue, path: str = ""
) -> Iterator[FieldProblem]:
    """Yield what is wrong with a value, and with how it changed if there was an old one."""
    if value is None and schema.get("nullable"):
        return
    if not _has_type(schema, value):
        yield wrong_kind(path, value, schema.get("type") or "integer,string")
        return
    yield from _own_problems(schema, value, path)
    if isinstance(value, dict):
        yield from _member_problems(schema, value, old if isinstance(old, dict) else {}, path)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from schema_problems(schema.get("items", {}), item, None, f"{path}[{index}]")
    yield from _rule_problems(schema, value, old, path)


def _has_type(schema: Json, value: object) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    is_type = _TYPES.get(schema.get("type", ""))
    return is_type is None or is_type(value)


def _own_problems(schema: Json, value: JsonValue, path: str) -> Iterator[FieldProblem]:
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported(path, value, schema["enum"])
    if isinstance(value, str):
        yield from _text_problems(schema, value, path)
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_problems(schema, value, path)
    if isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            yield wrong(path, len(value), f"must have at most {schema['maxItems']} items")
        if len(value) < schema.get("minItems", 0):
            least = schema["minItems"]
            yield wrong(path, len(value), f"{path} in body should have at least {least} items")


def _text_problems(schema: Json, value: str, path: str) -> Iterator[FieldProblem]:
    pattern = schema.get("pattern")
    if pattern and not _pattern(pattern).search(value):
        yield wrong(path, value, f"{path} in body should match '{pattern}'")
    if len(value) < schema.get("minLength", 0):
        least = schema["minLength"]
        yield wrong(path, value, f"{path} in body should be at least {least} chars long")
    if len(value) > schema.get("maxLength", len(value)):
        yield wrong(path, value, f"may not be more than {schema['maxLength']} bytes")
    if schema.get("format") == "date-time" and not _is_moment(value):
        detail = f"{path} in body must be of type date-time: {shown(value)}"
        yield wrong(path, value, detail)


def _number_problems(schema: Json, value: float, path: str) -> Iterator[FieldProblem]:
    if value < schema.get("minimum", value):
        detail = f"{path} in body should be greater than or equal to {schema['minimum']}"
        yield wrong(path, value, detail)
    if value > schema.get("maximum", value):
        detail = f"{path} in body should be less than or equal to {schema['maximum']}"
        yield wrong(path, value, detail)
    bits = _INT_BITS.get(schema.get("format", ""))
    if bits and not -(2**bits) <= value < 2**bits:
        yield wrong(path, value, f"{path} in body must be of type {schema['format']}")


def _member_problems(schema: Json, value: Json, old: Json, path: str) -> Iterator[FieldProblem]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name in schema.get("required") or ():
        if name not in value:
            yield required(f"{path}.{name}" if path else name)
    for name, item in value.items():
        below = known.get(name, others)
        if isinstance(below, dict) and (path or name not in _ROOT):
            at = f"{path}.{name}" if path else name
            yield from schema_problems(below, item, old.get(name), at)


def _rule_problems(
    schema: Json, value: JsonValue, old: JsonValue, path: str
) -> Iterator[FieldProblem]:
    for entry in schema.get("x-kubernetes-validations") or ():
        compares = "oldSelf" in entry["rule"]
        if compares and old is None:
            continue
        try:
            holds = compile_cel(entry["rule"])({"self": value, "oldSelf": old})
            message = entry.get("message") or f"failed rule: {entry['rule']}"
        except CelError as error:
            holds, message = False, f"rule evaluation error: {error}"
        if holds is not True:
            yield wrong(path, "object" if isinstance(value, dict) else value, message)


@lru_cache(256)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
