"""The cluster that acceptance tests run against."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.model.fields import Json
from tests.cluster.api import Api
from tests.cluster.control_plane import Access, ControlPlane

_ROOT: Final = Path(__file__).parents[2]
_COMMAND_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster of this run; `plane` is None when somebody else runs it."""

    access: Access
    admin: Api
    plane: ControlPlane | None
    kubectl: str

    @property
    def kubeconfig(self) -> str:
        """Where it is written how to reach it, as somebody who may do everything."""
        return str(self.plane.kubeconfig) if self.plane else os.environ["KUBECONFIG"]


def reached_as() -> tuple[str, str]:
    """Return the name by which the cluster reaches this machine, and where to listen for it."""
    elsewhere = os.environ.get("PLUMBLINE_WEBHOOK_HOST", "")
    return (elsewhere, "0.0.0.0") if elsewhere else ("localhost", "127.0.0.1")


def doctor(kubeconfig: str | Path) -> tuple[int, list[Json]]:
    """Return how the check of an installation ended, and what it found."""
    done = plumbline(kubeconfig, "doctor", "-o", "json")
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def plumbline(kubeconfig: str | Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Return what a command says of a cluster."""
    return subprocess.run(
        [sys.executable, "-m", "app", *words, f"--kubeconfig={kubeconfig}"],
        cwd=_ROOT,
        capture_output=True,
        timeout=_COMMAND_SECONDS,
        check=False,
        text=True,
    )


def kubectl(cluster: Cluster, *words: str) -> str:
    """Return what kubectl prints."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(Path(cluster.kubeconfig).parent),
        "KUBECONFIG": cluster.kubeconfig,
    }
    return subprocess.run(
        [cluster.kubectl, *words], env=environment, check=True, capture_output=True, text=True
    ).stdout
