"""What can be copied from a page: a VPA, and patches that write its numbers into the workload.

Strategy: values only; the page writes them as YAML. The numbers are those that a new pod would get
without a boost, after all caps, so that no patch says what the webhook would not. What an HPA
scales by stays as it is, and no patch gives the numbers of one role to all pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.model.fields import Json
from app.model.kinds import BUILT_IN_KINDS, ObjectKey
from app.model.limits import NamespaceLimits
from app.model.pods import CONTAINERS, INIT_CONTAINERS, Container, Pod
from app.model.quantity import Quantities
from app.model.vpa import VPA_GROUP, VPA_KIND, Vpa
from app.sizing.sizing import capped, held_notes, sizes

_CRON: Final = "CronJob"
_NO_TEMPLATE: Final = "its template is not known"
_NOTHING: Final = "nothing would be changed"


@dataclass(frozen=True, slots=True)
class CopiedText:
    """An object to be copied, and what it is for."""

    name: str  # what tells it from the others of the page
    title: str
    about: str  # how it is used, or why there is none
    content: Json | None
    comments: Sequence[str] = ()  # what it leaves out, and why


@dataclass(frozen=True, slots=True)
class PatchedTemplate:
    """Whose requests a patch would write."""

    pod: Pod | None  # as it would be created, before the webhook; None: not known
    limits: NamespaceLimits
    rivals: Sequence[str] = ()  # other VPAs of the same workload


def copied_texts(
    vpa: Vpa | None, written: Json | None, offered: Json | None, template: PatchedTemplate
) -> Sequence[CopiedText]:
    """Return what can be copied: of a VPA as it was written, or one that is offered instead."""
    if vpa is None:
        if offered is None:
            return ()
        about = "shows recommendations and changes nothing: kubectl apply -f -"
        return (CopiedText("vpa", "VPA in mode Off", about, offered),)
    found = [*_patches(vpa, template)]
    if written is not None:
        about = "as it was written, without its status"
        found.insert(0, CopiedText("vpa", "VPA", about, _shown(vpa, written)))
    return found


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


def _patches(vpa: Vpa, template: PatchedTemplate) -> Iterator[CopiedText]:
    """Yield the patches of a workload, or why there are none."""
    target = vpa.target
    if not vpa.recommendation or target is None or target.key.kind not in BUILT_IN_KINDS:
        return
    containers, held = _containers(vpa, template)
    why = _why_none(vpa, template) or (None if containers else "; ".join((_NOTHING, *held)))
    if why is not None:
        yield CopiedText("patch", f"No patch of {target.key}", f"There is none: {why}.", None)
        return
    patch = _patch(vpa.namespace, target.key, target.api_version, containers)
    what = f"{target.kind.lower()} {target.name}"
    command = f"kubectl -n {vpa.namespace} patch {what} --patch-file FILE"
    merge = {"spec": patch["spec"]}
    yield CopiedText("kustomize", "Kustomize patch", "a file below patches:", patch, held)
    yield CopiedText("merge", "Strategic merge patch", command, merge, held)


def _why_none(vpa: Vpa, template: PatchedTemplate) -> str | None:
    """Return why the numbers of a VPA are not for its workload as a whole."""
    if vpa.selector is not None or template.rivals:
        others = f", others are of VPA {', '.join(template.rivals)}" if template.rivals else ""
        return f"the numbers are for some pods of it{others}, but all share one template"
    return None if template.pod is not None else _NO_TEMPLATE


def _containers(vpa: Vpa, template: PatchedTemplate) -> tuple[Json, list[str]]:
    """Return the containers of a patch by their list, and what is left out."""
    pod, found, held = template.pod, dict[str, list[Json]](), list[str]()
    if pod is None:
        return {}, []
    current = {one.name: one.resources for one in pod.containers}
    amounts = capped(pod, vpa, template.limits, current, with_bounds=False)
    for one in pod.containers:
        if one.name not in amounts:
            continue
        notes = held_notes(amounts[one.name], vpa)
        held += [f"left out of {one.name}: {note}" for note in notes]
        granted = sizes(amounts[one.name], one.resources, vpa, template.limits)
        if granted.requests:
            where = INIT_CONTAINERS if one.place.is_init else CONTAINERS
            told = _container(one, granted.requests, granted.limits)
            found.setdefault(where, []).append(told)
    return found, held


def _container(container: Container, requests: Quantities, limits: Quantities) -> Json:
    words = {"requests": requests, "limits": limits}
    resources = {
        word: {name: str(amount) for name, amount in amounts.items()}
        for word, amounts in words.items()
        if amounts
    }
    return {"name": container.name, "resources": resources}


def _patch(namespace: str, key: ObjectKey, api_version: str, containers: Json) -> Json:
    """Return a workload with nothing but what its containers should have."""
    template: Json = {"template": {"spec": containers}}
    spec = {"jobTemplate": {"spec": template}} if key.kind == _CRON else template
    return {
        "apiVersion": api_version,
        "kind": key.kind,
        "metadata": {"name": key.name, "namespace": namespace},
        "spec": spec,
    }
