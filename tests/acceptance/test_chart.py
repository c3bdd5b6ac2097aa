"""Overlays and chart, as they are made: what they grant, what they are called, what they refuse."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.kube.manifests.rights import RightScope, needed, rules
from app.model.fields import Json
from tests.acceptance.templates import (
    AS_THE_BASE,
    CHARTS,
    DEPLOY,
    EVERY_VALUE,
    KUSTOMIZATIONS,
    charted,
    joined,
    kustomized,
    plain,
)
from tests.cases import cases

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
CLUSTER_WIDE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
}


def test_chart_is_the_base(tmp_path: Path) -> None:
    """With one replica of each the chart gives what base and page give, to the last field."""
    wanted = dict(plain(watched(tmp_path, "page")))
    given = [f"monitoring.{what}=true" for what in ("alerts", "dashboards", "serviceMonitors")]
    chart = dict(plain(charted(*AS_THE_BASE, *given, "page.enabled=true")))

    assert set(chart) == set(wanted)
    assert [name for name, document in chart.items() if document != wanted[name]] == []


def test_chart_has_no_page_unless_told() -> None:
    """By default nothing is there of the page: no account, no Service, no policy."""
    found = charted(*AS_THE_BASE, "networkPolicies.enabled=true", "monitoring.serviceMonitors=true")
    labels = [item["metadata"].get("labels", {}) for item in found]

    assert "page" not in {each.get("app.kubernetes.io/component") for each in labels}


def watched(folder: Path, *components: str) -> list[Json]:
    """Return base and monitoring with some components."""
    home = os.path.relpath(DEPLOY, folder)  # kustomize wants no absolute paths
    overlay = {
        "resources": [f"{home}/base", f"{home}/monitoring"],
        "components": [f"{home}/components/{component}" for component in components],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(overlay), "utf-8")
    return kustomized(folder)


@cases(
    "component values made",
    {
        "policies": ("network-policies", CHARTS["policies"], {"NetworkPolicy"}),
        "TLS": ("tls", CHARTS["TLS"], {"Deployment", "ServiceMonitor"}),
    },
)
def test_chart_is_the_component(
    tmp_path: Path, component: str, values: tuple[str, ...], made: set[str]
) -> None:
    """What a component adds to the base the chart gives where its values ask for it."""
    given = (*AS_THE_BASE, "monitoring.serviceMonitors=true", "page.enabled=true", *values)
    wanted, chart = (
        {name: item for name, item in plain(found) if name[0] in made}
        for found in (watched(tmp_path, "page", component), charted(*given))
    )

    assert {kind for kind, _, _ in wanted} == made
    assert chart == wanted


def test_namespace_may_be_chosen(tmp_path: Path) -> None:
    """The overlay of the page moves everything: webhook, roles, certificates and conditions."""
    text = (DEPLOY.parent / "docs/installing.md").read_text("utf-8")
    overlay = text.partition("```yaml\n# kustomization.yaml\n")[2].partition("```")[0]
    (tmp_path / "kustomization.yaml").write_text(overlay, "utf-8")
    shutil.copytree(DEPLOY, tmp_path / "plumbline/deploy")
    found = kustomized(tmp_path)
    places = [item["metadata"].get("namespace", "autoscaling") for item in found]
    (certificate,) = (item for item in found if item["metadata"]["name"] == "plumbline-webhook")

    assert set(places) == {"autoscaling"}
    assert "kube-system" not in json.dumps(found)
    assert "vpa-webhook.autoscaling.svc" in certificate["spec"]["dnsNames"]


def test_what_goes_by_its_label(tmp_path: Path) -> None:
    """All but the definitions carries the label by which it is taken away."""
    unlabelled = {
        item["kind"]
        for item in joined(tmp_path)
        if item["metadata"].get("labels", {}).get("app.kubernetes.io/name") != "plumbline"
    }
    assert unlabelled == {"CustomResourceDefinition"}


def test_components_grant_what_flags_need(tmp_path: Path) -> None:
    """All components can be joined, and still an account may do what its process needs."""
    assert list(wrongly_granted(joined(tmp_path))) == []


@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=lambda folder: folder.name)
def test_overlays_grant_what_flags_need(folder: Path) -> None:
    """An account of an overlay may do what its process needs with these flags, and nothing else."""
    assert list(wrongly_granted(kustomized(folder))) == []


@pytest.mark.parametrize(
    "arguments",
    [
        *({"values": each} for each in CHARTS.values()),
        {"release": "blue"},
        {"files": [EVERY_VALUE]},
    ],
    ids=[*CHARTS, "another release", "every value"],
)
def test_chart_grants_what_flags_need(arguments: Mapping[str, Any]) -> None:
    """So does the chart, whatever is switched on or off."""
    told = dict(arguments)
    assert list(wrongly_granted(charted(*told.pop("values", ()), **told))) == []


def wrongly_granted(documents: list[Json]) -> Iterator[str]:
    """Yield the processes whose roles are not what their command lines need."""
    roles = {(item["kind"], item["metadata"]["name"]): item for item in documents}
    for deployment in (item for item in documents if item["kind"] == "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        component = deployment["metadata"]["labels"]["app.kubernetes.io/component"]
        wanted = needed(component, pod["containers"][0]["args"])
        for kind, reach in (("ClusterRole", RightScope.EVERYWHERE), ("Role", RightScope.AT_HOME)):
            granted = [
                rule
                for item in documents
                if item["kind"] == f"{kind}Binding"
                and pod["serviceAccountName"] in [each["name"] for each in item["subjects"]]
                for rule in roles[kind, item["roleRef"]["name"]]["rules"]
            ]
            if in_order(granted) != in_order(rules(wanted, reach)):
                yield f"{component}: {kind}"


def in_order(found: list[Json]) -> list[Json]:
    """Return rules in an order of their own, because that of roles says nothing."""
    return sorted(found, key=json.dumps)


def test_registered_by_others() -> None:
    """Without registration the webhook has no say in who is asked; cert-manager brings its CA."""
    found = charted(*CHARTS["registered by others"])
    rules = [rule for item in found for rule in item.get("rules", ())]
    hooks = [item for item in found if "webhooks" in item]
    (certificate,) = (item for item in found if item["metadata"]["name"] == "plumbline-webhook")

    assert [each for each in rules if "admissionregistration.k8s.io" in each["apiGroups"]] == []
    assert {
        item["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] for item in hooks
    } == {f"{certificate['metadata']['namespace']}/{certificate['metadata']['name']}"}


def test_releases_leave_each_other_alone() -> None:
    """No object of the whole cluster belongs to two releases; each webhook knows its own."""
    first, second = charted(), charted(release="blue", namespace="autoscaling")
    names = [
        {(item["kind"], item["metadata"]["name"]) for item in found if item["kind"] in CLUSTER_WIDE}
        for found in (first, second)
    ]
    kinds = {item["kind"] for item in first if "namespace" not in item["metadata"]}

    assert kinds == {*CLUSTER_WIDE, "CustomResourceDefinition"}
    assert len(names[0]) == len(names[1]) > 0
    assert names[0] & names[1] == set()
    deployments = [item for item in second if item["kind"] == "Deployment"]
    pods = [item["spec"]["template"]["spec"] for item in deployments]
    words = [word for pod in pods for word in pod["containers"][0]["args"]]
    (flag,) = (word for word in words if word.startswith("--webhook-config-name="))
    assert ("MutatingWebhookConfiguration", flag.partition("=")[2]) in names[1]


def test_a_second_recommender_fits_in() -> None:
    """Beside a release a recommender of another name can be installed, in the same namespace."""
    second = charted(
        "admissionController.enabled=false",
        "crds.enabled=false",
        "recommender.leaderElection.resourceName=blue",
        "updater.enabled=false",
        release="blue",
    )
    assert second
    assert {name for name, _ in plain(second)} & {name for name, _ in plain(charted())} == set()


@cases(
    "value words",
    {
        "misspelt": ("recommender.replica=2", "'replica' not allowed"),
        "not ours": ("admissionController.certGen.enabled=true", "'certGen'"),
        "no metric named": ("recommender.externalMetrics.enabled=true", "Metric"),
        "two leaders": ("updater.leaderElection.enabled=false", "replicas must be 1"),
        "no CA": ("admissionController.registerWebhook=false", "certManager"),
        "no toleration": ("recommender.tolerations[0]=x", "tolerations"),
        "no resources": ("recommender.resources.memory=1Gi", "'memory'"),
        "no name": ("fullnameOverride=A_b", "fullnameOverride"),
        "no duration": ("updater.leaderElection.leaseDuration=5x", "leaseDuration"),
    },
)
def test_chart_refuses(value: str, words: str) -> None:
    """A value that means nothing here is named; it is never left out silently."""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        charted(value)
    assert words in caught.value.stderr


@cases(
    "values image",
    {
        "the usual one": ((), "plumbline:0.1.0"),
        "by digest": ((f"image.digest={DIGEST}",), f"plumbline:0.1.0@{DIGEST}"),
        "of this process": (("updater.image.tag=v2",), "plumbline:v2"),
        "of this process, not by the digest of all": (
            (f"image.digest={DIGEST}", "updater.image.tag=v2"),
            "plumbline:v2",
        ),
        "of this process by digest": (
            (f"updater.image.digest={DIGEST}",),
            f"plumbline:0.1.0@{DIGEST}",
        ),
    },
)
def test_the_image_of_a_process(values: tuple[str, ...], image: str) -> None:
    """It is that of all unless the process has one; a digest belongs to what it was given for."""
    (found,) = (
        item["spec"]["template"]["spec"]["containers"][0]["image"]
        for item in charted(*values)
        if item["kind"] == "Deployment" and item["metadata"]["name"] == "vpa-updater"
    )
    assert found == image
