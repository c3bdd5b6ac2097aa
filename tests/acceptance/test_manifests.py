"""What is shipped for installing, on a real API server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from app.manifests.install import DOCUMENTS
from app.ports import CUSTOM_RESOURCE_DEFINITIONS
from tests.acceptance.cluster import Cluster
from tests.acceptance.definitions import install
from tests.cluster.api import Api, Json, Refusal, place
from tests.cluster.foreign import foreign
from tests.cluster.parts import Unavailable, parts

DEPLOY = Path(__file__).parents[2] / "deploy"
KUSTOMIZATIONS = [DEPLOY / "base", DEPLOY / "monitoring", *sorted((DEPLOY / "overlays").iterdir())]
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
AS_THE_BASE = ("admissionController.replicas=1", "recommender.replicas=1", "updater.replicas=1")
ALL_VALUES = (
    "admissionController.certManager.enabled=true",
    "admissionController.mutatingWebhookConfiguration.failurePolicy=Fail",
    "commonLabels.team=web",
    "fullnameOverride=",
    "monitoring.alerts=true",
    "monitoring.dashboards=true",
    "monitoring.labels.release=prometheus",
    "monitoring.serviceMonitors=true",
    "recommender.externalMetrics.cpuMetric=cpu",
    "recommender.externalMetrics.enabled=true",
    "recommender.leaderElection.resourceName=other",
    "updater.podDisruptionBudget.minAvailable=1",
    "updater.proveByTrial=true",
)


def kustomized(kubectl: str, folder: Path) -> list[Json]:
    """Return what `kubectl apply -k` would send."""
    command = [kubectl, "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return list(yaml.safe_load_all(done.stdout))


def charted(*values: str, files: Sequence[Path] = ()) -> list[Json]:
    """Return what `helm install` would send, hooks included."""
    words = [word for value in values for word in ("--set", value)]
    words += [f"--values={file}" for file in files]
    done = subprocess.run(
        [
            parts().path("helm"),
            *("template", "plumbline", str(DEPLOY / "chart"), "--namespace=kube-system"),
            *("--kube-version=1.36.0", *words),
        ],
        capture_output=True,
        check=True,
        text=True,
    )
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def warnings(admin: Api, documents: list[Json]) -> list[str]:
    """Return what the API server says of documents that it is asked to apply on trial."""
    query = {"fieldManager": "t", "force": "true", "fieldValidation": "Strict", "dryRun": "All"}
    found: list[str] = []
    for document in documents:
        resource, namespace, name = place(document)
        path = resource.path(namespace, name)
        kind = "application/apply-patch+yaml"
        found += admin.call("PATCH", path, document, query=query, content_type=kind).warnings
    return found


@pytest.fixture(scope="module")
def with_others(admin: Api) -> Iterator[Api]:
    """A cluster that knows what cert-manager and the Prometheus operator define."""
    try:
        definitions = foreign()
    except Unavailable as error:
        pytest.skip(str(error))
    names = [definition["metadata"]["name"] for definition in definitions]
    lacking = [name for name in names if admin.find(CUSTOM_RESOURCE_DEFINITIONS, "", name) is None]
    install(admin, [item for item in definitions if item["metadata"]["name"] in lacking])
    yield admin
    for name in lacking:
        admin.delete(CUSTOM_RESOURCE_DEFINITIONS, "", name)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_apply(admin: Api, name: str) -> None:
    """Whatever `plumbline manifests` prints is taken with strict fields, without a warning."""
    assert warnings(admin, list(yaml.safe_load_all(DOCUMENTS[name]()))) == []


@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=lambda folder: folder.name)
def test_kustomizations_apply(cluster: Cluster, with_others: Api, folder: Path) -> None:
    """Base and overlays are built and taken with strict fields, without a warning."""
    found = kustomized(cluster.kubectl, folder)

    assert found
    assert warnings(with_others, found) == []


@pytest.mark.parametrize("values", [(), ALL_VALUES], ids=["default", "all"])
def test_chart_applies(with_others: Api, values: tuple[str, ...]) -> None:
    """The chart is taken with strict fields, without a warning."""
    assert warnings(with_others, charted(*values)) == []


def test_strict_fields_hold_for_others_too(cluster: Cluster, with_others: Api) -> None:
    """A field that the Prometheus operator does not know is refused, here as elsewhere."""
    documents = kustomized(cluster.kubectl, DEPLOY / "monitoring")
    monitor = next(item for item in documents if item["kind"] == "ServiceMonitor")
    monitor["spec"]["endpoints"][0]["prot"] = "prometheus"

    with pytest.raises(Refusal, match="prot"):
        warnings(with_others, [monitor])


def test_chart_is_the_base(cluster: Cluster) -> None:
    """With one replica of each the chart gives what the base gives, to the last field."""
    base = dict(plain(kustomized(cluster.kubectl, DEPLOY / "base")))
    chart = dict(plain(charted(*AS_THE_BASE)))

    assert set(chart) == set(base)
    assert [name for name, document in chart.items() if document != base[name]] == []


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


def test_namespace_may_be_chosen(cluster: Cluster, tmp_path: Path) -> None:
    """An overlay that names another namespace moves everything; webhook and roles follow."""
    file = tmp_path / "kustomization.yaml"
    base = os.path.relpath(DEPLOY / "base", tmp_path)  # kustomize wants no absolute paths
    file.write_text(f"namespace: autoscaling\nresources: [{base}]\n", encoding="utf-8")
    places: set[str] = set()
    for document in kustomized(cluster.kubectl, tmp_path):
        places.add(document["metadata"].get("namespace", "autoscaling"))
        for subject in document.get("subjects", ()):
            places.add(subject["namespace"])
        for hook in document.get("webhooks", ()):
            places.add(hook["clientConfig"]["service"]["namespace"])
    assert places == {"autoscaling"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param("recommender.replica=2", "'replica' not allowed", id="misspelt"),
        pytest.param("admissionController.certGen.enabled=true", "'certGen'", id="not ours"),
        pytest.param("recommender.externalMetrics.enabled=true", "Metric", id="no metric named"),
        pytest.param("updater.leaderElection.leaseDuration=5x", "leaseDuration", id="no duration"),
    ],
)
def test_chart_refuses(value: str, words: str) -> None:
    """A value that means nothing here is named; it is never left out silently."""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        charted(value)
    assert words in caught.value.stderr
