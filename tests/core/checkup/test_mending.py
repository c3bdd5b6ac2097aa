"""Commands that change an installation, by how it was installed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.core.checkup.components import ADMISSION
from app.core.checkup.facts import Facts
from app.core.checkup.mending import with_flag, with_rights
from tests.core.checkup.healthy import FACTS, charted, deployment

CHARTED = replace(
    FACTS,
    namespace="vpa",
    deployments=[charted(deployment("updater")), charted(deployment(ADMISSION))],
)
ADDED = '[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--a=1"}]'


@pytest.mark.parametrize(
    ("facts", "namespace", "command"),
    [
        pytest.param(
            FACTS,
            "kube-system",
            "(plumbline manifests updater; plumbline manifests trials) "
            "| kubectl auth reconcile -f -",
            id="manifests",
        ),
        pytest.param(
            FACTS,
            "vpa",
            "(plumbline manifests updater; plumbline manifests trials) "
            "| sed 's/namespace: kube-system/namespace: vpa/' | kubectl auth reconcile -f -",
            id="manifests elsewhere",
        ),
        pytest.param(
            CHARTED,
            "vpa",
            "helm upgrade blue deploy/chart -n vpa --reset-then-reuse-values",
            id="chart",
        ),
    ],
)
def test_rights(facts: Facts, namespace: str, command: str) -> None:
    """Only rights are granted, by whoever granted the others."""
    assert with_rights("updater", namespace, ["updater", "trials"], facts) == command


@pytest.mark.parametrize(
    ("facts", "command"),
    [
        pytest.param(
            FACTS,
            "kubectl -n kube-system patch deployment/vpa-admission-controller --type=json "
            f"-p '{ADDED}'",
            id="manifests",
        ),
        pytest.param(
            CHARTED,
            "helm upgrade blue deploy/chart -n vpa --reset-then-reuse-values "
            "--set admissionController.a=1",
            id="chart",
        ),
        pytest.param(replace(FACTS, deployments=[]), "plumbline admission --a=1", id="by hand"),
    ],
)
def test_flags(facts: Facts, command: str) -> None:
    """A flag is told where the others are: of several the last one counts."""
    assert with_flag("--a=1", "a=1", facts) == command
