"""Everything that is applied to a cluster, and the files of `deploy/` made of it.

Strategy: what is generated is a text under a path, so that writing it and comparing it with what
is committed are one line each. Overlays and the chart are written by hand and compared in tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from app.manifests import chart, crd
from app.manifests.programs import Program, metadata, roles
from app.manifests.rendering import printed_by, render
from app.manifests.rights import OPTIONS, RIGHTS
from app.manifests.rights import page as rights_page
from app.manifests.webhooks import Registration, mutating, validating
from app.ports import Json
from app.telemetry.page import page as metrics_page

_LEADING: Final = ("--leader-elect=true", "--leader-elect-resource-namespace=$(NAMESPACE)")
_ADMISSION: Final = "admission-controller"

PROGRAMS: Final = {
    "admission": Program(
        component=_ADMISSION,
        name="vpa-admission-controller",
        verb="admission",
        flags=("--workers=2",),
        port=8944,
        cpu="100m",
        memory="300Mi",
        memory_limit="1Gi",
        rights=RIGHTS[_ADMISSION],
        https_port=8000,
    ),
    "recommender": Program(
        component="recommender",
        name="vpa-recommender",
        verb="recommender",
        flags=_LEADING,
        port=8942,
        cpu="50m",
        memory="300Mi",
        memory_limit="1Gi",
        rights=RIGHTS["recommender"],
        pages=("/metrics", "/metrics/recommendations"),
    ),
    "updater": Program(
        component="updater",
        name="vpa-updater",
        verb="updater",
        flags=_LEADING,
        port=8943,
        cpu="50m",
        memory="300Mi",
        memory_limit="1Gi",
        rights=RIGHTS["updater"],
    ),
}


def program(name: str) -> str:
    """Return the YAML of one process, the webhook with its configurations."""
    documents = PROGRAMS[name].documents()
    if name == "admission":
        documents += _registration()
    return render(documents, header=printed_by(name))


def option(name: str) -> str:
    """Return the YAML of the right that a flag needs."""
    found = OPTIONS[name]
    account = PROGRAMS[found.component].name
    documents = roles(f"plumbline:{account}:{name}", account, [found.right], found.component)
    return render(documents, header=printed_by(name))


def everything() -> str:
    """Return the YAML that installs all of it."""
    return "".join([crd.text(), *map(program, PROGRAMS)])


DOCUMENTS: Final[Mapping[str, Callable[[], str]]] = {
    "crd": crd.text,
    **{name: partial(program, name) for name in PROGRAMS},
    **{name: partial(option, name) for name in OPTIONS},
    "all": everything,
}


def files() -> Mapping[str, str]:
    """Return what is generated, by its path in the repository."""
    return {
        "deploy/base/crd/crd.yaml": crd.text(),
        **{f"deploy/base/{name}/{name}.yaml": program(name) for name in PROGRAMS},
        "deploy/components/prove-by-trial/trials.yaml": option("trials"),
        "deploy/components/external-metrics/rights.yaml": option("external-metrics"),
        "deploy/chart/files/crd.yaml": crd.text(),
        "deploy/chart/templates/_generated.tpl": chart.templates(),
        "docs/metrics.md": metrics_page(),
        "docs/rights.md": rights_page(),
    }


def _registration() -> list[Json]:
    """Return the webhook configurations without a CA, which the webhook itself keeps there.

    They are among the manifests so that they go when the rest goes.
    """
    registration = Registration()
    return [
        {
            **document,
            "metadata": {**metadata(document["metadata"]["name"], _ADMISSION, namespaced=False)},
        }
        for document in (mutating(registration, ""), validating(registration, ""))
    ]
