"""Documents that are applied to a cluster, as a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from app.admission.registrar import registration_of
from app.commands.flags import ManifestsSettings
from app.kube.failures import cause_of
from app.kube.manifests.documents import webhook_configurations
from app.model.errors import BadSetting
from app.model.fields import Json
from app.model.kinds import group_of
from app.output import Piece, Report, Table

_COLUMNS: Final = ("KIND", "NAMESPACE", "NAME")
_PEM: Final = "-----BEGIN CERTIFICATE-----"
_INJECTION: Final = "cert-manager.io/inject-ca-from"
_NO_CA: Final = (
    "without --client-ca-file or --inject-ca-from API servers trust no CA but those of their host"
)


def manifests_report(items: Sequence[Json]) -> Report:
    """Return a row, an object and a name for each document."""
    rows = [
        (
            Piece(item["kind"]),
            Piece(item["metadata"].get("namespace", "-")),
            Piece(item["metadata"]["name"]),
        )
        for item in items
    ]
    return Report(Table(_COLUMNS, rows), items, list(map(_name, items)))


def webhooks_report(settings: ManifestsSettings) -> Report:
    """Return both webhook configurations, for those who register the webhook themselves.

    Raises:
        BadSetting: a flag cannot be used.
    """
    trust = settings.trust
    if problem := settings.registration.labels.problem:
        raise BadSetting(f"--webhook-labels: {problem}")
    registration = registration_of(settings.registration, settings.scope, trust.namespace)
    ca_pem = ""
    if trust.ca_file is not None:
        try:
            ca_pem = trust.ca_file.read_text("ascii")
        except (OSError, ValueError) as error:
            raise BadSetting(f"--client-ca-file: {trust.ca_file}: {cause_of(error)}") from None
        if _PEM not in ca_pem:
            raise BadSetting(f"--client-ca-file: {trust.ca_file}: holds no certificate")
    items = [item for _, item in webhook_configurations(registration, ca_pem)]
    if trust.ca_from:
        for item in items:
            item["metadata"]["annotations"] = {_INJECTION: trust.ca_from}
    notes = () if ca_pem or trust.ca_from else (_NO_CA,)
    return replace(manifests_report(items), notes=notes)


def _name(item: Json) -> str:
    """Return what kubectl calls it."""
    kind = ".".join(filter(None, (item["kind"].lower(), group_of(item["apiVersion"]))))
    return f"{kind}/{item['metadata']['name']}"
