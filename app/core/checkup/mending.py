"""Commands that change an installation in the way in which it was installed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from app.core.checkup.components import ADMISSION, place_of
from app.core.checkup.components import ours as ours_of
from app.core.checkup.facts import Facts
from app.model.fields import Json

_HOME: Final = "kube-system"  # that the documents name
_CHART: Final = "deploy/chart"
_ARGUMENTS: Final = "/spec/template/spec/containers/0/args/-"


def with_rights(component: str, namespace: str, documents: Iterable[str], facts: Facts) -> str:
    """Return what grants a process the rights of some documents, and leaves the rest alone."""
    for item in ours_of(component, facts):
        if item["metadata"].get("namespace") == namespace and (release := _release(item)):
            return f"helm upgrade {release} {_CHART} -n {namespace} --reset-then-reuse-values"
    elsewhere = f" | sed 's/namespace: {_HOME}/namespace: {namespace}/'"
    moved = "" if namespace == _HOME else elsewhere
    printed = "; ".join(f"plumbline manifests {name}" for name in documents)
    printed = f"({printed})" if ";" in printed else printed
    return f"{printed}{moved} | kubectl auth reconcile -f -"


def with_flag(flag: str, value: str, facts: Facts) -> str:
    """Return what tells the webhook a flag, which in the chart is a value."""
    namespace, about = place_of(ADMISSION, facts)
    found = ours_of(ADMISSION, facts)
    if not found:
        return f"plumbline admission {flag}"  # started by hand, wherever it is
    if release := _release(found[0]):
        told = f"helm upgrade {release} {_CHART} -n {namespace} --reset-then-reuse-values"
        return f"{told} --set admissionController.{value}"
    operation = {"op": "add", "path": _ARGUMENTS, "value": flag}
    return f"kubectl -n {namespace} patch {about} --type=json -p '{json.dumps([operation])}'"


def _release(item: Json) -> str:
    """Return the release of a chart that an object belongs to, empty without one."""
    labels = item.get("metadata", {}).get("labels") or {}
    is_charted = labels.get("app.kubernetes.io/managed-by") == "Helm"
    return str(labels.get("app.kubernetes.io/instance")) if is_charted else ""
