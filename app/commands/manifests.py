"""Documents that are applied to a cluster, as a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.model.fields import Json
from app.model.kinds import group_of
from app.output import Piece, Report, Table

_COLUMNS: Final = ("KIND", "NAMESPACE", "NAME")


def manifests_report(items: Sequence[Json]) -> Report:
    """Return a row, an object and a name for each document."""
    rows = [
        (
            Piece(item["kind"]),
            Piece(item["metadata"].get("namespace", "-")),
            Piece(item["metadata"]["name"]),
        )
        for item in items
    ]
    return Report(Table(_COLUMNS, rows), items, list(map(_name, items)))


def _name(item: Json) -> str:
    """Return what kubectl calls it."""
    kind = ".".join(filter(None, (item["kind"].lower(), group_of(item["apiVersion"]))))
    return f"{kind}/{item['metadata']['name']}"
