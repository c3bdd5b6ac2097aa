"""What can be copied from a page: a VPA, and patches that write its targets into the workload.

Strategy: values only; the page writes them as YAML. Amounts are exact, as the status has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.model.fields import Json
from app.model.kinds import BUILT_IN_KINDS, ObjectKey
from app.model.vpa import VPA_GROUP, VPA_KIND, Vpa

_CRON: str = "CronJob"


@dataclass(frozen=True, slots=True)
class CopiedText:
    """An object to be copied, and what it is for."""

    name: str  # what tells it from the others of the page
    title: str
    about: str  # how it is used
    content: Json


def copied_texts(
    vpa: Vpa | None, written: Json | None, offered: Json | None
) -> Sequence[CopiedText]:
    """Return what can be copied: of a VPA as it was written, or one that is offered instead."""
    if vpa is None:
        if offered is None:
            return ()
        about = "shows recommendations and changes nothing: kubectl apply -f -"
        return (CopiedText("vpa", "VPA in mode Off", about, offered),)
    about = "as it was written, without its status"
    found = [CopiedText("vpa", "VPA", about, _shown(vpa, written))]
    target = vpa.target
    if vpa.recommendation and target is not None and target.key.kind in BUILT_IN_KINDS:
        patch = _patch(vpa, target.key, target.api_version)
        what = f"{target.kind.lower()} {target.name}"
        command = f"kubectl -n {vpa.namespace} patch {what} --patch-file FILE"
        merge = {"spec": patch["spec"]}
        found.append(CopiedText("kustomize", "Kustomize patch", "a file below patches:", patch))
        found.append(CopiedText("merge", "Strategic merge patch", command, merge))
    return found


def _shown(vpa: Vpa, written: Json | None) -> Json:
    """Return a VPA as its author has it."""
    spec = (written or {}).get("spec")
    metadata = {"name": vpa.name, "namespace": vpa.namespace}
    return {
        "apiVersion": f"{VPA_GROUP}/v1",
        "kind": VPA_KIND,
        "metadata": metadata,
        "spec": spec if isinstance(spec, dict) else {},
    }


def _patch(vpa: Vpa, key: ObjectKey, api_version: str) -> Json:
    """Return a workload with nothing but the requests that are recommended."""
    containers = [
        {
            "name": one.container,
            "resources": {"requests": {name: str(amount) for name, amount in one.target.items()}},
        }
        for one in vpa.recommendation or ()
        if one.target
    ]
    template: Json = {"template": {"spec": {"containers": containers}}}
    spec = {"jobTemplate": {"spec": template}} if key.kind == _CRON else template
    return {
        "apiVersion": api_version,
        "kind": key.kind,
        "metadata": {"name": key.name, "namespace": vpa.namespace},
        "spec": spec,
    }
