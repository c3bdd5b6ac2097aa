"""What is shipped for installing, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from app.kube.manifests import documents
from app.model.fields import Json
from app.ports import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from tests.acceptance.definitions import install
from tests.acceptance.space import Space
from tests.acceptance.templates import (
    CHARTS,
    DEPLOY,
    EVERY_VALUE,
    KUSTOMIZATIONS,
    charted,
    joined,
    kustomized,
)
from tests.cluster.api import Api, Refusal, place
from tests.cluster.foreign import foreign
from tests.cluster.parts import Unavailable

WITHOUT_RIGHTS = (
    "admissionController.serviceAccount.create=false",
    "admissionController.serviceAccount.name=webhook",
    "rbac.create=false",
)


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


@pytest.mark.parametrize("name", documents.NAMES)
def test_documents_apply(admin: Api, name: str) -> None:
    """Whatever `plumbline manifests` prints is taken with strict fields, without a warning."""
    assert warnings(admin, documents.objects(name)) == []


@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=lambda folder: folder.name)
def test_kustomizations_apply(with_others: Api, folder: Path) -> None:
    """Base and overlays are built and taken with strict fields, without a warning."""
    found = kustomized(folder)

    assert found
    assert warnings(with_others, found) == []


def test_components_apply(with_others: Api, tmp_path: Path) -> None:
    """So is the base with all components at once."""
    assert warnings(with_others, joined(tmp_path)) == []


@pytest.mark.parametrize(
    "values", [*CHARTS.values(), WITHOUT_RIGHTS], ids=[*CHARTS, "without rights"]
)
def test_chart_applies(with_others: Api, values: Sequence[str]) -> None:
    """The chart is taken with strict fields, without a warning."""
    assert warnings(with_others, charted(*values)) == []


def test_every_value_applies(with_others: Api) -> None:
    """So is the chart with each of its values set to another one."""
    assert warnings(with_others, charted(files=[EVERY_VALUE])) == []


def test_long_names_apply(with_others: Api) -> None:
    """So is a release with a name as long as helm takes it."""
    assert warnings(with_others, charted(release="v" * 53)) == []


def test_pods_meet_the_restricted_standard(admin: Api, space: Space) -> None:
    """An API server that watches over it has nothing against our pods, those of tests included."""
    namespace = admin.get(NAMESPACES, "", space.name)
    standard = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    namespace["metadata"]["labels"] |= standard
    admin.replace(namespace)
    found = [*kustomized(DEPLOY / "overlays/cert-manager"), *charted(*CHARTS["own issuer"])]
    pods = [item for item in found if item["kind"] in ("Deployment", "Pod")]
    for item in pods:
        item["metadata"]["namespace"] = space.name

    assert {item["kind"] for item in pods} == {"Deployment", "Pod"}
    assert warnings(admin, pods) == []


def test_strict_fields_hold_for_others_too(with_others: Api) -> None:
    """A field that the Prometheus operator does not know is refused, here as elsewhere."""
    documents = kustomized(DEPLOY / "monitoring")
    monitor = next(item for item in documents if item["kind"] == "ServiceMonitor")
    monitor["spec"]["endpoints"][0]["prot"] = "prometheus"

    with pytest.raises(Refusal, match="prot"):
        warnings(with_others, [monitor])
