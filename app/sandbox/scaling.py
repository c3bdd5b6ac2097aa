"""The scale subresource: replicas, for those who do not know the kind."""

from __future__ import annotations

from app.ports import Json
from app.sandbox.kinds import ScalePaths
from app.sandbox.objects import copied, member, selector_of, set_member

_COPIED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(item: Json, paths: ScalePaths) -> Json:
    """Return the Scale of an object."""
    metadata = item["metadata"]
    status: Json = {"replicas": member(item, paths.status_replicas) or 0}
    selector = _selector_text(item, paths)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _COPIED if key in metadata},
        "spec": {"replicas": member(item, paths.replicas) or 0},
        "status": status,
    }


def scaled(item: Json, paths: ScalePaths, scale: Json) -> Json:
    """Return an object with the replicas that its Scale asks for."""
    found = copied(item)
    set_member(found, paths.replicas, member(scale, "spec.replicas") or 0)
    for key in ("uid", "resourceVersion"):
        if member(scale, f"metadata.{key}"):
            found["metadata"][key] = scale["metadata"][key]
    return found


def _selector_text(item: Json, paths: ScalePaths) -> str:
    if paths.selector:
        return str(member(item, paths.selector) or "")
    if item["kind"] == "ReplicationController":
        selected = item["spec"].get("selector") or {}
        return ",".join(f"{key}={value}" for key, value in sorted(selected.items()))
    return str(selector_of(item))
