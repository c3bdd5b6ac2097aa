"""Definitions of other projects that our manifests use, as their Go modules ship them.

Strategy: go.mod pins the versions and go.sum the contents, as for the programs. Go keeps what it
has downloaded, so a second run finds it there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from app.model.fields import Json
from tests.cluster.parts import MODULE, Unavailable, pinned

_FOLDER: Final = MODULE / "definitions"
_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "github.com/cert-manager/cert-manager": (
        "deploy/crds/cert-manager.io_certificates.yaml",
        "deploy/crds/cert-manager.io_issuers.yaml",
    ),
    "github.com/prometheus-operator/prometheus-operator": (
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
}


def foreign(environment: Mapping[str, str] = os.environ) -> list[Json]:
    """Return the definitions of cert-manager and of the Prometheus operator.

    Raises:
        Unavailable: they cannot be downloaded.
    """
    if shutil.which("go", path=environment.get("PATH")) is None:
        raise Unavailable("definitions of other projects are downloaded with Go: install Go 1.26")
    wanted = [f"{module}@{pinned(module, _FOLDER)}" for module in _FILES]
    done = subprocess.run(
        ["go", "mod", "download", "-json", *wanted],
        cwd=_FOLDER,
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unavailable(
            f"go did not download {' and '.join(wanted)}:\n{done.stderr}{done.stdout}"
        )
    return [
        yaml.safe_load((folder / file).read_text("utf-8"))
        for module, folder in _folders(done.stdout).items()
        for file in _FILES[module]
    ]


def _folders(told: str) -> Mapping[str, Path]:
    """Return where each module lies; Go writes one JSON object after another."""
    found: dict[str, Path] = {}
    decoder = json.JSONDecoder()
    while told := told.lstrip():
        module, end = decoder.raw_decode(told)
        found[module["Path"]] = Path(module["Dir"])
        told = told[end:]
    return found
