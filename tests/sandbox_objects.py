"""What is in a sandbox now."""

from __future__ import annotations

from collections.abc import Sequence

from app.ports import EVENTS, PODS, Json
from app.sandbox.sandbox import Sandbox


def pods_in(sandbox: Sandbox, namespace: str = "", selector: str = "") -> Sequence[Json]:
    """Return the pods that a label selector selects."""
    return sandbox.cluster.list(PODS, namespace, label_selector=selector).items


def events_in(sandbox: Sandbox, namespace: str = "", reason: str = "") -> Sequence[Json]:
    """Return the events of the last hour, in the order of time."""
    fields = f"reason={reason}" if reason else ""
    found = sandbox.cluster.list(EVENTS, namespace, field_selector=fields).items
    return sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))
