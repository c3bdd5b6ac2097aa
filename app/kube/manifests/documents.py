"""The YAML files beside this module: what `plumbline manifests` prints, and registers as webhooks.

Strategy: each can be applied as it is. deploy/ holds copies for kustomize and of crd.yaml for the
chart, because neither reads files outside of its own folder; a test compares them. The sandbox
enforces, and the check of an installation compares with, the same crd.yaml.

admission.yaml spells out every field of both webhook configurations, defaults of the API too, so
that a comparison with the live object finds changes and nothing else. Names, rules and order are
upstream's where upstream has them. A pod is reviewed only once (reinvocationPolicy): a second
review would take the sizes that the first one wrote for the pod's own.

Match conditions keep out mirror pods, which the kubelet made already, and the pods that serve
admission: these must start while no webhook answers, also under the failure policy Fail. They
are known by the labels that the Service or upstream's chart selects them by, and only in our own
namespace, so that no other pods get around their VPA by a label. Recommender and updater stay in:
they can wait for admission to be back.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from app.kube.manifests.rights import OPTIONS
from app.model.errors import BadSetting
from app.ports import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Json, Resource

PROCESSES: Final = ("admission", "recommender", "updater")
_INSTALLED: Final = ("crd", *PROCESSES)
_ALL: Final = "all"
PAGE: Final = "page"  # which nothing else needs
NAMES: Final = (*_INSTALLED, PAGE, *OPTIONS, _ALL)
WEBHOOKS: Final = "webhooks"  # in no file: made by flags, from admission.yaml
WITH_IMAGE: Final = (*PROCESSES, PAGE, _ALL)
_IMAGE: Final = re.compile(r"^( +image: )\S+$", re.MULTILINE)
PRINTED: Final = (*NAMES, WEBHOOKS)


def text(name: str, image: str = "") -> str:
    """Return the text of a document; `all` is what installs all three processes.

    An image takes the place of the one that the Deployments name.
    """
    if name == _ALL:
        return "".join(text(part, image) for part in _INSTALLED)
    found = Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8")
    return _IMAGE.sub(lambda line: f"{line[1]}{image}", found) if image else found


def objects(name: str, image: str = "") -> list[Json]:
    """Return the objects of a document."""
    return list(yaml.load_all(text(name, image), Loader=yaml.CSafeLoader))


CONFIGURATION_NAME = "vpa-webhook-config"

_NAMESPACE = "kube-system"  # that the file names
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_ADDRESS = re.compile(r"https://[^/?#@\s]+(/[^?#\s]*)?")


@dataclass(frozen=True, slots=True)
class Registration:
    """Where the API server finds us, and for what it asks us."""

    name: str = CONFIGURATION_NAME  # of both configurations
    service: str = "vpa-webhook"
    namespace: str = _NAMESPACE  # of the service and of our own pods
    port: int = 443
    url: str = ""  # instead of the service
    fail_closed: bool = False
    timeout_seconds: int = 5  # 1 to 30
    labels: Mapping[str, str] = field(default_factory=dict)
    ignored_namespaces: tuple[str, ...] = ()
    selected_namespace: str = ""  # has no effect beside ignored ones


def webhook_configurations(
    registration: Registration, ca_pem: str
) -> tuple[tuple[Resource, Json], ...]:
    """Return both configurations, each with the collection that it belongs to."""
    mutating, validating = (_registered(one, registration, ca_pem) for one in _shipped())
    return (MUTATING_WEBHOOKS, mutating), (VALIDATING_WEBHOOKS, validating)


@cache
def _shipped() -> tuple[Json, ...]:
    return tuple(item for item in objects("admission") if "webhooks" in item)


def _registered(shipped: Json, registration: Registration, ca_pem: str) -> Json:
    labels = {"labels": dict(registration.labels)} if registration.labels else {}
    found = {**deepcopy(shipped), "metadata": {"name": registration.name, **labels}}
    own = f"request.namespace == '{registration.namespace}'"
    for webhook in found["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        webhook["clientConfig"] = _client(registration, ca_pem, path)
        webhook["failurePolicy"] = "Fail" if registration.fail_closed else "Ignore"
        webhook["timeoutSeconds"] = registration.timeout_seconds
        webhook["namespaceSelector"] = _namespace_selector(registration)
        for condition in webhook["matchConditions"]:
            text = condition["expression"]
            condition["expression"] = text.replace(f"request.namespace == '{_NAMESPACE}'", own)
    return found


def _client(registration: Registration, ca_pem: str, path: str) -> Json:
    bundle = {"caBundle": base64.b64encode(ca_pem.encode()).decode()} if ca_pem else {}
    if registration.url:
        return {**bundle, "url": registration.url + path}
    service = {
        "namespace": registration.namespace,
        "name": registration.service,
        "path": path,
        "port": registration.port,
    }
    return {**bundle, "service": service}


def _namespace_selector(registration: Registration) -> Json:
    ignored = [name for name in registration.ignored_namespaces if name]
    if ignored:
        return _selector("NotIn", ignored)
    if registration.selected_namespace:
        return _selector("In", [registration.selected_namespace])
    return {}


def _selector(operator: str, names: list[str]) -> Json:
    return {"matchExpressions": [{"key": _NAMESPACE_LABEL, "operator": operator, "values": names}]}


def webhook_url(address: str, port: str) -> str:
    """Return the URL of the webhooks' root.

    Raises:
        BadSetting: an API server would not accept it.
    """
    url = f"{address}:{port}" if port else address
    if not _ADDRESS.fullmatch(url):
        raise BadSetting(
            f"--webhook-address: {address!r} does not make a webhook URL; "
            "it must be like https://host, without user, query or fragment"
        )
    return url.rstrip("/")
