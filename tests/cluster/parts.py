"""The programs of a control plane: found where somebody says, else built from Go modules.

Strategy: go.mod pins the versions and nothing else does. What is built lies in a folder outside
the work tree that is named after the version, so a second run finds it there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODULE: Final = Path(__file__).parent / "go"
KUBERNETES: Final = "k8s.io/kubernetes"
PROGRAMS: Final[Mapping[str, str]] = {  # by their packages
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": f"{KUBERNETES}/cmd/kube-apiserver",
    "kube-controller-manager": f"{KUBERNETES}/cmd/kube-controller-manager",
    "kubectl": f"{KUBERNETES}/cmd/kubectl",
}
_BUILD: Final = ("nice", "-n", "10", "go", "build", "-p", "2", "-trimpath", "-buildvcs=false")


class Unavailable(Exception):
    """There is no control plane to be had; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A folder that holds every program."""

    folder: Path

    def path(self, program: str) -> str:
        """Return where a program lies."""
        return str(self.folder / program)


def pinned(module: str) -> str:
    """Return the version of a module in go.mod, such as `v1.30.1`."""
    text = (MODULE / "go.mod").read_text("utf-8")
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise Unavailable(f"{MODULE / 'go.mod'} does not name {module}")
    return found[1]


def parts(environment: Mapping[str, str] = os.environ) -> Parts:
    """Return the programs, after building those that are missing.

    Raises:
        Unavailable: they are not where somebody says, or cannot be built.
    """
    if given := environment.get("KUBEBUILDER_ASSETS"):
        missing = _missing(Path(given))
        if missing:
            raise Unavailable(f"KUBEBUILDER_ASSETS={given} lacks {', '.join(missing)}")
        return Parts(Path(given))
    folder = _cache(environment) / pinned(KUBERNETES).removeprefix("v") / "bin"
    if missing := _missing(folder):
        _build(missing, folder, environment)
    return Parts(folder)


def _cache(environment: Mapping[str, str]) -> Path:
    home = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "plumbline"


def _missing(folder: Path) -> list[str]:
    return [name for name in PROGRAMS if not os.access(folder / name, os.X_OK)]


def _build(programs: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    if shutil.which("go", path=environment.get("PATH")) is None:
        raise Unavailable(
            "the control plane is built with Go: install Go 1.26 or newer, or let KUBECONFIG name "
            "a cluster, or KUBEBUILDER_ASSETS a folder with " + ", ".join(PROGRAMS)
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name in programs:
        package = PROGRAMS[name]
        sys.stderr.write(f"building {name}, once; the API server takes minutes ...\n")
        unfinished = folder / f"{name}.{os.getpid()}"
        command = [*_BUILD, "-ldflags", _linked(package), "-o", str(unfinished), package]
        try:
            subprocess.run(command, cwd=MODULE, check=True, env={**environment, "CGO_ENABLED": "0"})
            unfinished.rename(folder / name)
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"{name} was not built: go ended with {error.returncode}") from error
        finally:
            unfinished.unlink(missing_ok=True)


def _linked(package: str) -> str:
    """Return linker flags: no symbols, and the version that the programs call themselves."""
    flags = ["-s", "-w"]
    if package.startswith(KUBERNETES):
        version = pinned(KUBERNETES)
        major, minor, *_ = version.removeprefix("v").split(".")
        told = {
            "k8s.io/component-base/version.gitVersion": version,
            "k8s.io/component-base/version.gitMajor": major,
            "k8s.io/component-base/version.gitMinor": minor,
            "k8s.io/client-go/pkg/version.gitVersion": version,
        }
        flags += [f"-X {name}={value}" for name, value in told.items()]
    return " ".join(flags)
