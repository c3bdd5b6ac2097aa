"""Bring a webhook configuration in line with what is wanted, and say what differed.

Strategy: the wanted document names every field of our webhooks, defaults included, so what
differs is a change and not a default. Everything else on the object stays: labels and
annotations of others, webhooks of other names, fields that this program does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.model.fields import Json, Object
from app.model.times import rfc3339


@dataclass(frozen=True, slots=True)
class Alignment:
    """The object to be written, and the paths at which the live one differs from it."""

    body: Json
    differences: tuple[str, ...]


def align(live: Json, wanted: Json) -> Alignment:
    """Return the live object with our fields as wanted."""
    labels, differences = _labels(_mapping(live, "metadata"), _mapping(wanted, "metadata"))
    webhooks, more = _webhooks(live.get("webhooks"), wanted["webhooks"])
    metadata = {**_mapping(live, "metadata"), **({"labels": labels} if labels else {})}
    return Alignment({**live, "metadata": metadata, "webhooks": webhooks}, (*differences, *more))


def drift_event(live: Json, differences: Sequence[str], now: datetime, reporter: str) -> Json:
    """Return the Event about a configuration that was changed from outside."""
    metadata = _mapping(live, "metadata")
    micros = int(now.timestamp() * 1_000_000)
    stamp = rfc3339(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            # As client-go does it, the moment in hexadecimal, but with the kind: both
            # configurations have one name, and may be put back at the same moment.
            "name": f"{metadata['name']}.{live['kind'].lower()}.{micros:x}",
            "namespace": "default",
        },
        "involvedObject": {
            "apiVersion": live["apiVersion"],
            "kind": live["kind"],
            "name": metadata["name"],
            "uid": metadata.get("uid", ""),
            "resourceVersion": metadata.get("resourceVersion", ""),
        },
        "type": "Warning",
        "reason": "RegistrationDrift",
        "message": f"Changed by another client and put back: {', '.join(differences)}"[:1024],
        "source": {"component": reporter},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


def _mapping(holder: Object, key: str) -> Json:
    value = holder.get(key)
    return value if isinstance(value, dict) else {}


def _labels(live: Json, wanted: Json) -> tuple[Json, list[str]]:
    have, want = _mapping(live, "labels"), _mapping(wanted, "labels")
    differences = [
        f"metadata.labels[{key}]" for key, value in want.items() if have.get(key) != value
    ]
    return {**have, **want}, differences


def _webhooks(live: object, wanted: Sequence[Json]) -> tuple[list[Any], list[str]]:
    """Replace ours where they stand, add those that are missing, keep the others."""
    entries = live if isinstance(live, list) else []
    missing = {hook["name"]: hook for hook in wanted}
    merged: list[Any] = []
    differences: list[str] = []
    for entry in entries:
        ours = missing.pop(entry.get("name"), None) if isinstance(entry, dict) else None
        merged.append({**entry, **ours} if ours else entry)
        differences += _differences(entry, ours) if ours else []
    differences += [f"webhooks[{name}]" for name in missing]
    return [*merged, *missing.values()], differences


def _differences(live: Json, wanted: Json) -> list[str]:
    prefix = f"webhooks[{wanted['name']}]"
    differences = []
    for key, value in wanted.items():
        have = live.get(key)
        if key == "clientConfig":
            differences += _client_differences(f"{prefix}.clientConfig", have, value)
        # An API server leaves out what is empty.
        elif (have or None) != (value or None):
            differences.append(f"{prefix}.{key}")
    return differences


def _client_differences(prefix: str, live: object, wanted: Json) -> list[str]:
    have = live if isinstance(live, dict) else {}
    keys = dict.fromkeys([*wanted, *have])
    return [f"{prefix}.{key}" for key in keys if have.get(key) != wanted.get(key)]
