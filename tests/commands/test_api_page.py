"""The page of all fields of a VPA."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from app.commands.api_page import api_page
from app.kube.manifests import documents


def described(schema: dict[str, Any]) -> set[str]:
    """Return the names of all fields with a description, however deep."""
    inner = schema.get("items", schema)
    found = set()
    for name, field in inner.get("properties", {}).items():
        found |= {name} | described(field)
    return found


def test_committed_page() -> None:
    """docs/api.md is what the definition says."""
    committed = Path(__file__).parents[2] / "docs/api.md"
    assert committed.read_text("utf-8") == api_page(), "run 'make generate'"


def test_every_field_has_a_row() -> None:
    """No field of spec or status is left out, and none is without a meaning."""
    vpa = next(
        found
        for found in documents.objects("crd")
        if found["metadata"]["name"].startswith("verticalpodautoscalers.")
    )
    served = next(found for found in vpa["spec"]["versions"] if found["served"])
    properties = served["schema"]["openAPIV3Schema"]["properties"]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (.*) \|$", api_page(), re.MULTILINE)
    assert {name for name, _, _ in rows} == set().union(
        *(described(properties[part]) for part in ("spec", "status"))
    )
    assert [name for name, _, meaning in rows if len(meaning) < 10] == []
