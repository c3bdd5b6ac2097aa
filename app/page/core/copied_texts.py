"""What can be copied from a page: a VPA, and patches that write its targets into the workload.

Strategy: values only; the page writes them as YAML. Amounts are exact: those that a pod gets that
is created now, capped and with its limits, or where the webhook sets none, those of the status.
What replicas are scaled by is left out, as it is everywhere; the pods of a role share their
workload with others, so that a patch of it would be wrong for these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.model.fields import Json
from app.model.kinds import BUILT_IN_KINDS, ObjectKey
from app.model.vpa import VPA_GROUP, VPA_KIND, ContainerRecommendation, Vpa
from app.page.core.creation_lines import CreationLine

_CRON: str = "CronJob"


@dataclass(frozen=True, slots=True)
class CopiedText:
    """An object to be copied, and what it is for."""

    name: str  # what tells it from the others of the page
    title: str
    about: str  # how it is used
    content: Json


def copied_texts(
    vpa: Vpa | None,
    written: Json | None,
    offered: Json | None,
    lines: Sequence[CreationLine] = (),
    *,
    is_role: bool = False,
) -> Sequence[CopiedText]:
    """Return what can be copied: of a VPA as it was written, or one that is offered instead.

    The lines are what a new pod gets.
    """
    if vpa is None:
        if offered is None:
            return ()
        about = "shows recommendations and changes nothing: kubectl apply -f -"
        return (CopiedText("vpa", "VPA in mode Off", about, offered),)
    found: list[CopiedText] = []
    if written is not None:
        about = "as it was written, without its status"
        found.append(CopiedText("vpa", "VPA", about, _shown(vpa, written)))
    if not is_role:
        found += _patches(vpa, lines)
    return found


def _patches(vpa: Vpa, lines: Sequence[CreationLine]) -> Iterator[CopiedText]:
    """Yield what writes the recommendation into the workload."""
    target, gets = vpa.target, {(one.container, one.resource): one for one in lines}
    containers = [
        {"name": one.container, "resources": resources}
        for one in vpa.recommendation or ()
        if (resources := _resources(vpa, one, gets))
    ]
    if target is None or target.key.kind not in BUILT_IN_KINDS or not containers:
        return
    patch = _patch(vpa, target.key, target.api_version, containers)
    command = (
        f"kubectl -n {vpa.namespace} patch {target.kind.lower()} {target.name} --patch-file FILE"
    )
    held = ", ".join(
        f"{name} of {one.container}"
        for one in vpa.recommendation or ()
        for name in one.target
        if vpa.held_by(one.container, name) is not None
    )
    without = f"; without {held}, by which replicas are scaled" if held else ""
    about = f"a file below patches:{without}"
    yield CopiedText("kustomize", "Kustomize patch", about, patch)
    yield CopiedText("merge", "Strategic merge patch", command + without, {"spec": patch["spec"]})


def _resources(
    vpa: Vpa,
    found: ContainerRecommendation,
    lines: Mapping[tuple[str, str], CreationLine],
) -> Json:
    """Return the requests and limits that a container should have."""
    resources: dict[str, dict[str, str]] = {}
    for name, target in found.target.items():
        if vpa.held_by(found.container, name) is not None:
            continue
        line = lines.get((found.container, name))
        gets = line.gets if line is not None and not line.boost else {}
        resources.setdefault("requests", {})[name] = gets.get("request", str(target))
        if "limit" in gets:
            resources.setdefault("limits", {})[name] = gets["limit"]
    return resources


def _shown(vpa: Vpa, written: Json) -> Json:
    """Return a VPA as its author has it."""
    spec = written.get("spec")
    metadata = {"name": vpa.name, "namespace": vpa.namespace}
    return {
        "apiVersion": f"{VPA_GROUP}/v1",
        "kind": VPA_KIND,
        "metadata": metadata,
        "spec": spec if isinstance(spec, dict) else {},
    }


def _patch(vpa: Vpa, key: ObjectKey, api_version: str, containers: Sequence[Json]) -> Json:
    """Return a workload with nothing but the resources of its containers."""
    template: Json = {"template": {"spec": {"containers": list(containers)}}}
    spec = {"jobTemplate": {"spec": template}} if key.kind == _CRON else template
    return {
        "apiVersion": api_version,
        "kind": key.kind,
        "metadata": {"name": key.name, "namespace": vpa.namespace},
        "spec": spec,
    }
