"""Words for writing the structural schema of a custom resource.

Strategy: one function per kind of field, each asks for the field's description first, so that
no field can be left without one. Keys stand in the order in which a reader wants them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

Schema = dict[str, Any]

# What an API server accepts as a quantity: a number with an SI or binary suffix, or an exponent.
QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def prose(text: str) -> str:
    """Join wrapped lines; a blank line ends a paragraph, a dash begins a line of its own."""
    paragraphs: list[str] = []
    joining = False
    for line in map(str.strip, text.strip().splitlines()):
        if joining and line and not line.startswith("- "):
            paragraphs[-1] += f" {line}"
        elif line:
            paragraphs.append(line)
        joining = bool(line)
    return "\n".join(paragraphs)


def string(about: str, *, choices: Iterable[StrEnum] = (), pattern: str = "") -> Schema:
    """A string, free or one of `choices`."""
    schema: Schema = {"description": prose(about), "type": "string"}
    if words := [choice.value for choice in choices]:
        schema["enum"] = words
    if pattern:
        schema["pattern"] = pattern
    return schema


def integer(about: str, *, bits: int, minimum: int | None = None) -> Schema:
    """A whole number of 32 or 64 bits."""
    schema: Schema = {"description": prose(about), "type": "integer", "format": f"int{bits}"}
    if minimum is not None:
        schema["minimum"] = minimum
    return schema


def moment(about: str, *, nullable: bool = False) -> Schema:
    """A point in time in RFC 3339."""
    schema: Schema = {"description": prose(about), "type": "string", "format": "date-time"}
    return schema | {"nullable": True} if nullable else schema


def quantity(about: str) -> Schema:
    """An amount such as `250m`, `1.5`, `2` or `512Mi`."""
    return {"description": prose(about)} | _bare_quantity()


def quantities(about: str) -> Schema:
    """A map from resource name to amount."""
    return {
        "description": prose(about),
        "type": "object",
        "additionalProperties": _bare_quantity(),
    }


def listing(about: str, items: Schema) -> Schema:
    """A list of `items`."""
    return {"description": prose(about), "type": "array", "items": items}


def record(
    about: str,
    fields: Mapping[str, Schema],
    *,
    required: Sequence[str] = (),
    rules: Sequence[tuple[str, str]] = (),
) -> Schema:
    """An object with named fields; `rules` are pairs of a CEL expression and its message."""
    schema: Schema = {"description": prose(about), "type": "object"}
    if required:
        schema["required"] = list(required)
    if rules:
        schema["x-kubernetes-validations"] = [
            {"rule": rule, "message": message} for rule, message in rules
        ]
    return schema | {"properties": dict(fields)}


def top_level(about: str, fields: Mapping[str, Schema], *, required: Sequence[str] = ()) -> Schema:
    """The schema of a whole object, with the three fields every Kubernetes object has."""
    common: dict[str, Schema] = {
        "apiVersion": string(
            """API group and version this object is written in, such as autoscaling.k8s.io/v1."""
        ),
        "kind": string("""Kind of this object. It follows from the URL and never changes."""),
        # An API server refuses a description here: it brings its own for object metadata.
        "metadata": {"type": "object"},
    }
    return record(about, common | dict(fields), required=required)


def without(schema: Schema, *paths: str) -> Schema:
    """Copy `schema` less the fields at `paths`, such as `spec.policies[].mode`."""
    for path in paths:
        schema = _without_one(schema, path.split("."))
    return schema


def _without_one(schema: Schema, steps: list[str]) -> Schema:
    name = steps[0].removesuffix("[]")
    fields: dict[str, Schema] = dict(schema["properties"])
    if len(steps) == 1:
        del fields[name]
    elif steps[0].endswith("[]"):
        fields[name] = fields[name] | {"items": _without_one(fields[name]["items"], steps[1:])}
    else:
        fields[name] = _without_one(fields[name], steps[1:])
    return schema | {"properties": fields}


def _bare_quantity() -> Schema:
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "pattern": QUANTITY_PATTERN,
    }
