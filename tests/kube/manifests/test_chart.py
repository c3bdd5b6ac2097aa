"""The chart's roles and webhook configurations say what rights and manifests say.

Strategy: without helm, so only these two files are read, with the plainest reading of templates
that they need. The acceptance tests compare all of what helm makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
import yaml

from app.kube.manifests.documents import objects
from app.kube.manifests.rights import OPTIONS, RIGHTS, Right, RightScope
from app.ports import Json

CHART = Path(__file__).parents[3] / "deploy/chart"
TEMPLATES = CHART / "templates"
EVERY_VALUE = Path(__file__).parents[2] / "acceptance/every_value.yaml"
KINDS: Final = {"ClusterRole": RightScope.EVERYWHERE, "Role": RightScope.AT_HOME}
# When rules are granted that depend on a flag, by what the chart sets the flag for.
CONDITIONS: Final[Mapping[str, str]] = {
    "--leader-elect": 'include "plumbline.elects" .Values.{0}',
    "--tls-cert-dir": "not .Values.admissionController.certManager.enabled",
    "--register-webhook=false": ".Values.admissionController.registerWebhook",
    "--horizontal=ignore": 'eq .Values.horizontal "hold"',
}
# What values stand for where nothing is set, in a release of the manifests' names.
USUAL: Final[Mapping[str, str]] = {
    'include "plumbline.fullname" .': "vpa",
    ".Release.Namespace": "kube-system",
    ".Values.admissionController.service.name": "vpa-webhook",
    ".Values.admissionController.mutatingWebhookConfiguration.failurePolicy": "Ignore",
    ".Values.admissionController.mutatingWebhookConfiguration.timeoutSeconds": "5",
}


def defined(file: str) -> Mapping[str, str]:
    """Return what a file defines, by name."""
    text = (TEMPLATES / file).read_text("utf-8")
    found = re.findall(
        r'\{\{- define "plumbline\.(.*?)" -\}\}\n(.*?)\{\{- end -\}\}', text, re.DOTALL
    )
    return dict(found)


def filled(text: str) -> str:
    """Return a template with the usual values."""
    text = re.sub(r'\{\{ default "(.*?)" .*? \}\}', r"\1", text)
    return re.sub(r"\{\{ (.*?) \}\}", lambda found: USUAL[found[1]], text)


def granted(text: str) -> Iterator[tuple[Json, str]]:
    """Yield the rules of a template, each with the condition under which it is granted."""
    for condition, inside, outside in re.findall(
        r"\{\{- if (.*?) \}\}\n(.*?)\{\{- end \}\}\n|((?:[^{]+\n)+)", text, re.DOTALL
    ):
        for rule in yaml.safe_load(filled(inside or outside)):
            yield rule, condition


def condition(right: Right, component: str) -> str:
    """Return under which condition a right is granted, empty for always."""
    flag = right.only_with or right.not_with
    return CONDITIONS[flag].format(component) if flag else ""


TEXTS = defined("_rights.tpl")
ALL = {**RIGHTS, **{name: (option.right,) for name, option in OPTIONS.items()}}


@pytest.mark.parametrize("name", TEXTS)
def test_rules(name: str) -> None:
    """A role has the rules of the rights that its process needs, under the flags' conditions."""
    _, component, kind = name.split(".")
    wanted = [
        (right.rule(), condition(right, component))
        for right in ALL[component]
        if right.reach is KINDS[kind]
    ]
    assert list(granted(TEXTS[name])) == wanted


def test_every_right_has_a_role() -> None:
    """No rights of a process are left out."""
    kinds = {reach: kind for kind, reach in KINDS.items()}

    assert set(TEXTS) == {
        f"rules.{component}.{kinds[right.reach]}"
        for component, rights in ALL.items()
        for right in rights
    }


def test_registration() -> None:
    """The webhook configurations are those of the manifests."""
    text = defined("_registration.tpl")["registration"]
    text = re.sub(r"^ *\{\{- if .*?^ *\{\{- end \}\}\n", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^ *\{\{- include .*\n", "", text, flags=re.MULTILINE)
    found = list(yaml.safe_load_all(filled(text)))
    wanted = [item for item in objects("admission") if "webhooks" in item]
    for item in (*found, *wanted):
        item["metadata"].pop("labels")

    assert found == wanted


def test_every_value_has_another_one() -> None:
    """The values with which the chart is applied to a real API server leave none at its default."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    others = yaml.safe_load(EVERY_VALUE.read_text("utf-8"))
    left = [
        path
        for path, value in leaves(defaults)
        if value is not True and value_at(others, path) in (value, None)
    ]

    assert left == []


def leaves(values: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield each value that can be set, with its path; an empty mapping is one as well."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def value_at(values: Json, path: Sequence[str]) -> object:
    """Return what stands at a path, None if nothing does."""
    found: object = values
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found
