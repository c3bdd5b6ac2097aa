"""The subresources `resize` of pods and `scale`: what of a change is taken, and what is refused.

Strategy: of a resize only the resources and resize policies of containers that are there are
taken; all else in the body is dropped without a word, as an API server does.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.model.quantity import Quantity
from app.ports import Json
from app.sandbox.objects import Key, containers_of, copied, member, selector_of, set_member
from app.sandbox.refusals import FieldProblem, forbidden, forbidden_field, invalid, wrong
from app.sandbox.resources import (
    SIZED,
    problems_of,
    qos_class,
    quantities,
    removed,
    sum_of,
)
from app.sandbox.served_kinds import ScaleFields
from app.sandbox.store import Store
from app.sandbox.validation import fill_pod
from app.sandbox.writes import AdmissionPlugin, Attempt, Operation

_MIRROR = "kubernetes.io/config.mirror"  # the annotation of static pods
_TAKEN = ("resources", "resizePolicy")
_COPIED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def resized(old: Json, wanted: Json) -> Json:
    """Return a pod with the resources that a changed pod asks for.

    Raises:
        Invalid: a pod cannot be resized so.
    """
    new = copied(old)
    for key in ("containers", "initContainers"):
        found = {item.get("name"): item for item in member(wanted, f"spec.{key}") or ()}
        for container in new["spec"].get(key) or ():
            asked = found.get(container["name"], container)
            for part in _TAKEN:
                container[part] = asked.get(part)
    for key in ("uid", "resourceVersion"):
        new["metadata"][key] = member(wanted, f"metadata.{key}") or old["metadata"][key]
    fill_pod(new)
    problems = list(_problems(old, new))
    if problems:
        raise invalid("Pod", old["metadata"]["name"], problems)
    return new


class NodeRoom(AdmissionPlugin):
    """Refuses resizes that no state of the pod's node could ever take in."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check(self, attempt: Attempt) -> None:
        """Refuse what is more than the node can give to all its pods together."""
        if attempt.subresource != "resize" or attempt.operation is not Operation.UPDATE:
            return
        pod = attempt.item or {}
        node = self._store.read("nodes", Key("", member(pod, "spec.nodeName") or ""))
        if node is None:
            return
        room = quantities(member(node, "status.allocatable"))
        wanted = sum_of(pod["spec"], "requests")
        for name in SIZED:
            if name in room and name in wanted and wanted[name] > room[name]:
                why = (
                    f"node didn't have enough allocatable resources: {name}, requested: "
                    f"{counted(name, wanted[name])}, allocatable: {counted(name, room[name])}"
                )
                raise forbidden("pods", attempt.name, why, (("NodeCapacity", why),))


def counted(resource: str, amount: Quantity) -> int:
    """Return an amount as kubelets count it: millicores or bytes."""
    return amount.milli if resource == "cpu" else amount.units


def _problems(old: Json, new: Json) -> Iterator[FieldProblem]:
    if _MIRROR in (old["metadata"].get("annotations") or {}):
        yield forbidden_field("spec", "static pods cannot be resized")
    after = qos_class(new["spec"])
    if after != qos_class(old["spec"]):
        yield wrong("spec", after, "Pod QOS Class may not change as a result of resizing")
    pairs = zip(containers_of(old["spec"]), containers_of(new["spec"]), strict=True)
    for (place, before), (_, container) in pairs:
        yield from problems_of(container, f"spec.{place}")
        yield from removed(before, container, f"spec.{place}")
        if _others(before) != _others(container):
            yield forbidden_field("spec", "only cpu and memory resources are mutable")


def _others(container: Json) -> Json:
    """Return the resources of a container less those that can be resized."""
    return {
        side: {name: amount for name, amount in found.items() if name not in SIZED}
        if isinstance(found, dict)
        else found
        for side, found in (container.get("resources") or {}).items()
        if not isinstance(found, dict) or found.keys() - set(SIZED)
    }


def scale_of(item: Json, paths: ScaleFields) -> Json:
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


def scaled(item: Json, paths: ScaleFields, scale: Json) -> Json:
    """Return an object with the replicas that its Scale asks for."""
    found = copied(item)
    set_member(found, paths.replicas, member(scale, "spec.replicas") or 0)
    for key in ("uid", "resourceVersion"):
        if member(scale, f"metadata.{key}"):
            found["metadata"][key] = scale["metadata"][key]
    return found


def _selector_text(item: Json, paths: ScaleFields) -> str:
    if paths.selector:
        return str(member(item, paths.selector) or "")
    return str(selector_of(item))
