"""What the cluster in memory promises is what a real one does: the same cases, asked there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cluster.control_plane import ControlPlane

ROOT = Path(__file__).parents[2]
SECONDS = 900


def test_contract(plane: ControlPlane) -> None:
    """Every case of the contract comes out on a real API server as it does in memory."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "tests/contract"],
        cwd=ROOT,
        env={**os.environ, "CONTRACT_KUBECONFIG": str(plane.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    assert "the cluster has no node" not in done.stdout
    assert "nothing measures here" not in done.stdout
