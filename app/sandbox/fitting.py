"""Which nodes suit a pod, leaving their room aside."""

from __future__ import annotations

from app.model.selectors import Selector
from app.ports import Json
from app.sandbox.objects import labels_of, member

_TERMS = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def suits(spec: Json, node: Json) -> bool:
    """Whether a pod of this spec may run on a node."""
    if not Selector.of_labels(spec.get("nodeSelector") or {}).matches(labels_of(node)):
        return False
    bound = _pinned_to(spec)
    return not bound or bound == node["metadata"]["name"]


def pinned(template: Json, node: str) -> Json:
    """Return a template whose pods go to one node, as those of DaemonSets do."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {**template, "spec": {**template["spec"], "affinity": affinity}}


def node_bound_to(pod: Json) -> str:
    """Return the node that a pod is on or can alone be on."""
    return str(pod["spec"].get("nodeName") or _pinned_to(pod["spec"]))


def _pinned_to(spec: Json) -> str:
    for term in member(spec, _TERMS) or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""
