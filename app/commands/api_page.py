"""docs/api.md: every field of a VerticalPodAutoscaler, as the CustomResourceDefinition says it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from app.kube.manifests import documents

_HEADER: Final = """\
# VerticalPodAutoscaler, field by field

Generated from the CustomResourceDefinition, version `autoscaling.k8s.io/v1`;
in a cluster `kubectl explain vpa.spec --recursive` prints the same.
[Writing a VerticalPodAutoscaler](vpas.md) shows what to use which field for.
"""
_NAME: Final = "verticalpodautoscalers.autoscaling.k8s.io"
_PARTS: Final = ("spec", "status")
_LIMITS: Final = (("minimum", "at least"), ("maximum", "at most"))

Schema = dict[str, Any]


def api_page() -> str:
    """Return the page."""
    (definition,) = (
        found for found in documents.objects("crd") if found["metadata"]["name"] == _NAME
    )
    (version,) = (found for found in definition["spec"]["versions"] if found["served"])
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    lines = [_HEADER]
    for part in _PARTS:
        lines += _lines(part, properties[part])
    return "\n".join(lines)


def _lines(path: str, schema: Schema) -> Iterator[str]:
    """Yield a heading for each object with fields, with a row for each field, outer ones first."""
    yield f"## {path}\n"
    if described := schema.get("description"):
        yield f"{described.strip()}\n"
    fields: Schema = _inner(schema).get("properties", {})
    yield "| Field | Type | Meaning |\n|---|---|---|"
    for name, field in fields.items():
        yield f"| `{name}` | {_type(field)} | {_cell(field)} |"
    yield ""
    for name, field in fields.items():
        if _inner(field).get("properties"):
            is_list = field.get("type") == "array"
            yield from _lines(f"{path}.{name}{'[]' if is_list else ''}", field)


def _inner(schema: Schema) -> Schema:
    found: Schema = schema.get("items", schema)
    return found


def _type(field: Schema) -> str:
    if "x-kubernetes-int-or-string" in field:
        return "quantity"
    kind = str(field["type"])
    if kind == "array":
        return f"list of {_type(field['items'])}s"
    if kind == "object" and "additionalProperties" in field:
        kind = _type(field["additionalProperties"])
        return f"map of {kind.removesuffix('y') + 'ies' if kind.endswith('y') else kind + 's'}"
    return kind


def _cell(field: Schema) -> str:
    """Return what a field means, with the values that it takes."""
    told = [" ".join(field.get("description", "").replace("\n- ", "<br>• ").split())]
    if values := field.get("enum") or _inner(field).get("enum"):
        told.append(f"One of {', '.join(f'`{value}`' for value in values)}.")
    bounds = [f"{words} {field[name]}" for name, words in _LIMITS if name in field]
    if bounds:
        told.append(f"Takes {' and '.join(bounds)}.")
    return " ".join(told).replace("|", "\\|")
