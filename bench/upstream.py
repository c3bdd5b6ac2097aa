"""Upstream's three programs, built from their Go module into a folder outside the work tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.cluster.parts import pinned

MODULE: Final = "k8s.io/autoscaler/vertical-pod-autoscaler"
_HERE: Final = Path(__file__).parent / "go"
PROGRAMS: Final = ("admission-controller", "recommender", "updater")


def version() -> str:
    """Return the version that is pinned."""
    return pinned(MODULE, _HERE)


def source() -> Path:
    """Return where its source lies, manifests included, after fetching it if it is missing."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", MODULE],
        cwd=_HERE,
        check=True,
        capture_output=True,
        text=True,
    )
    return Path(json.loads(done.stdout)["Dir"])


def folder(wanted: Sequence[str] = PROGRAMS) -> Path:
    """Return where the programs lie, after building those that are wanted and missing."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    found = Path(home) / "plumbline" / f"upstream-{version()}" / "bin"
    missing = [name for name in wanted if not os.access(found / name, os.X_OK)]
    if missing and shutil.which("go") is None:
        raise SystemExit(f"{missing[0]} of upstream is built with Go: install Go 1.26 or newer")
    found.mkdir(parents=True, exist_ok=True)
    for name in missing:
        print(f"building upstream's {name}, once ...", flush=True)
        unfinished = found / f"{name}.{os.getpid()}"
        command = ["go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
        subprocess.run(
            [*command, "-o", str(unfinished), f"{MODULE}/pkg/{name}"],
            cwd=_HERE,
            check=True,
            env={**os.environ, "CGO_ENABLED": "0"},
        )
        unfinished.rename(found / name)
    return found
