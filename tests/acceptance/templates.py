"""What kustomize and helm make of the files that are shipped."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from app.model.fields import Json
from tests.cluster.parts import Unavailable, parts

DEPLOY = Path(__file__).parents[2] / "deploy"
KUSTOMIZATIONS = [DEPLOY / "base", DEPLOY / "monitoring", *sorted((DEPLOY / "overlays").iterdir())]
AS_THE_BASE = ("admissionController.replicas=1", "recommender.replicas=1", "updater.replicas=1")
EVERY_VALUE = Path(__file__).with_name("every_value.yaml")
CHARTS: Mapping[str, Sequence[str]] = {
    "default": (),
    "own issuer": ("admissionController.certManager.enabled=true",),
    "registered by others": (
        "admissionController.certManager.enabled=true",
        "admissionController.registerWebhook=false",
    ),
    "no election": (
        *("recommender.leaderElection.enabled=false", "recommender.replicas=1"),
        *("updater.leaderElection.enabled=false", "updater.replicas=1"),
    ),
    "election where it is needed": (
        *("recommender.leaderElection.enabled=null", "recommender.replicas=1"),
        "updater.leaderElection.enabled=null",
    ),
    "definitions go": ("crds.keep=false",),
    "no budgets": tuple(
        f"{process}.podDisruptionBudget.enabled=false"
        for process in ("admissionController", "recommender", "updater")
    ),
    "policies": ("networkPolicies.enabled=true",),
    "policies without Prometheus": (
        "networkPolicies.enabled=true",
        "networkPolicies.monitoringNamespaces=null",
    ),
    "TLS": ("recommender.tlsSecret=vpa-recommender-tls", "updater.tlsSecret=vpa-updater-tls"),
    "recommender only": ("admissionController.enabled=false", "updater.enabled=false"),
}

# Labels and fields that only a chart has, and its note that definitions stay when it goes.
OF_CHARTS = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
    "helm.sh/resource-policy",
    "imagePullPolicy",
    "revisionHistoryLimit",
}


def tool(name: str) -> str:
    """Return where a program lies that works without a cluster."""
    try:
        return parts(only=(name,)).path(name)
    except Unavailable as error:
        pytest.skip(str(error))


def kustomized(folder: Path) -> list[Json]:
    """Return what `kubectl apply -k` would send."""
    command = [tool("kubectl"), "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return list(yaml.safe_load_all(done.stdout))


def joined(folder: Path) -> list[Json]:
    """Return the base with all components, from an overlay that is written into a folder."""
    home = os.path.relpath(DEPLOY, folder)  # kustomize wants no absolute paths
    components = [f"{home}/components/{one.name}" for one in (DEPLOY / "components").iterdir()]
    overlay = {"resources": [f"{home}/base"], "components": sorted(components)}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay), "utf-8")
    return kustomized(folder)


def charted(
    *values: str, files: Sequence[Path] = (), release: str = "vpa", namespace: str = "kube-system"
) -> list[Json]:
    """Return what `helm install` would send, hooks included."""
    words = [word for value in values for word in ("--set", value)]
    words += [f"--values={file}" for file in files]
    done = subprocess.run(
        [
            tool("helm"),
            *("template", release, str(DEPLOY / "chart"), f"--namespace={namespace}"),
            *("--kube-version=1.36.0", *words),
        ],
        capture_output=True,
        check=True,
        text=True,
    )
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def plain(documents: list[Json]) -> Iterator[tuple[tuple[str, str, str], object]]:
    """Yield documents by their names, without what only charts have."""
    for document in documents:
        metadata = document["metadata"]
        if "helm.sh/hook" not in metadata.get("annotations", {}):
            name = (document["kind"], metadata.get("namespace", ""), metadata["name"])
            yield name, without(document, OF_CHARTS)


def without(value: object, keys: set[str]) -> object:
    """Return a copy that lacks some keys wherever they stand."""
    if isinstance(value, Mapping):
        return {key: without(each, keys) for key, each in value.items() if key not in keys}
    return [without(each, keys) for each in value] if isinstance(value, list) else value
