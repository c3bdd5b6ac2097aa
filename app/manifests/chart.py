"""The parts of the Helm chart that say what the code says: roles and webhook configurations.

Strategy: they are the manifests' own documents, in which values that a user may set are written
as the template that fills them in. What is a matter of many values, the Deployments above all,
is written by hand in the chart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from app.manifests.rendering import yaml_text
from app.manifests.rights import OPTIONS, RIGHTS, Reach, Right
from app.manifests.webhooks import Registration, mutating, validating
from app.ports import Json

_COMMENT: Final = (
    "{{- /* Written by `make generate`; a change here is lost when it is written anew. */ -}}\n"
)
_KINDS: Final = {Reach.EVERYWHERE: "ClusterRole", Reach.AT_HOME: "Role"}
_NAMESPACE: Final = "RELEASE-NAMESPACE"
_ADMISSION: Final = ".Values.admissionController"
_HOOKS: Final = f"{_ADMISSION}.mutatingWebhookConfiguration"
# By what stands at the end of a line.
_FILLED: Final[Mapping[str, str]] = {
    "- vpa-recommender-lease": '- {{ default "vpa-recommender-lease" '
    ".Values.recommender.leaderElection.resourceName }}",
    "- vpa-updater": '- {{ default "vpa-updater" .Values.updater.leaderElection.resourceName }}',
    "- vpa-webhook-config": '- {{ include "plumbline.fullname" . }}-webhook-config',
    "name: vpa-webhook-config": 'name: {{ include "plumbline.fullname" . }}-webhook-config',
    "name: vpa-webhook": f"name: {{{{ {_ADMISSION}.service.name }}}}",
    "failurePolicy: Ignore": f"failurePolicy: {{{{ {_HOOKS}.failurePolicy }}}}",
    "timeoutSeconds: 5": f"timeoutSeconds: {{{{ {_HOOKS}.timeoutSeconds }}}}",
    "labels: ADMISSION": "labels:\n"
    '    {{- include "plumbline.labels" (list . "admission-controller") | nindent 4 }}\n'
    f"  {{{{- if not {_ADMISSION}.registerWebhook }}}}\n"
    "  annotations:\n"
    "    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/plumbline-webhook\n"
    "  {{- end }}",
}
# When rights that depend on a flag are granted.
_ELECTS: Final = {
    component: f'include "plumbline.elects" .Values.{component}'
    for component in ("recommender", "updater")
}
_NOT_WITH: Final = {
    "--tls-cert-dir": f"not {_ADMISSION}.certManager.enabled",
    "--register-webhook=false": f"{_ADMISSION}.registerWebhook",
}


def templates() -> str:
    """Return the generated templates of the chart."""
    parts = [_COMMENT]
    options = {name: (option.right,) for name, option in OPTIONS.items()}
    for component, rights in {**RIGHTS, **options}.items():
        for reach, kind in _KINDS.items():
            if found := [right for right in rights if right.reach is reach]:
                text = "".join(_rule(right, component) for right in found)
                parts.append(_define(f"rules.{component}.{kind}", text))
    parts.append(_define("registration", "".join(f"---\n{yaml_text(one)}" for one in _webhooks())))
    return "".join(parts)


def _rule(right: Right, component: str) -> str:
    text = yaml_text([right.rule()])
    if right.only_with == "--leader-elect":
        return f"{{{{- if {_ELECTS[component]} }}}}\n{text}{{{{- end }}}}\n"
    if right.not_with:
        return f"{{{{- if {_NOT_WITH[right.not_with]} }}}}\n{text}{{{{- end }}}}\n"
    return text


def _define(name: str, text: str) -> str:
    for plain, template in _FILLED.items():
        text = text.replace(f"{plain}\n", f"{template}\n")
    text = text.replace(_NAMESPACE, "{{ .Release.Namespace }}")
    return f'{{{{- define "plumbline.{name}" -}}}}\n{text}{{{{- end -}}}}\n'


def _webhooks() -> tuple[Json, Json]:
    registration = Registration(namespace=_NAMESPACE)
    mutates, validates = (make(registration, "") for make in (mutating, validating))
    for document in (mutates, validates):
        document["metadata"]["labels"] = "ADMISSION"
    return mutates, validates
