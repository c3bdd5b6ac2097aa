"""The programs of a cluster: found where somebody says, else built from Go modules.

Strategy: go.mod pins the versions and nothing else does. What is built lies in a folder outside
the work tree that is named after the version, so a second run finds it there. Our own program for
nodes is named after its sources, so that a change of them is built.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
MODULE: Final = HERE / "go"
KUBERNETES: Final = "k8s.io/kubernetes"
_METRICS_SERVER: Final = "sigs.k8s.io/metrics-server"
_HELM: Final = "helm.sh/helm/v3"
_BUILD: Final = ("nice", "-n", "10", "go", "build", "-p", "2", "-trimpath", "-buildvcs=false")


class Unavailable(Exception):
    """There is no control plane to be had; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a program is built from."""

    package: str
    folder: Path = MODULE  # of the Go module that pins its version
    module: str = KUBERNETES  # that the program belongs to
    version: str = ""  # the variable in its module that holds the version, where it has one


PROGRAMS: Final[Mapping[str, Origin]] = {
    "etcd": Origin("go.etcd.io/etcd/server/v3"),
    "kube-apiserver": Origin(f"{KUBERNETES}/cmd/kube-apiserver"),
    "kube-controller-manager": Origin(f"{KUBERNETES}/cmd/kube-controller-manager"),
    "kube-scheduler": Origin(f"{KUBERNETES}/cmd/kube-scheduler"),
    "kubectl": Origin(f"{KUBERNETES}/cmd/kubectl"),
    "node": Origin("./node"),
    "metrics-server": Origin(
        f"{_METRICS_SERVER}/cmd/metrics-server",
        MODULE / "metrics",
        _METRICS_SERVER,
        "pkg/version.gitVersion",
    ),
    "helm": Origin(f"{_HELM}/cmd/helm", MODULE / "helm", _HELM, "internal/version.version"),
}


@dataclass(frozen=True, slots=True)
class Parts:
    """Where every program lies."""

    paths: Mapping[str, Path]

    def path(self, program: str) -> str:
        """Return where a program lies."""
        return str(self.paths[program])


def pinned(module: str, folder: Path = MODULE) -> str:
    """Return the version of a module in go.mod, such as `v1.30.1`."""
    text = (folder / "go.mod").read_text("utf-8")
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise Unavailable(f"{folder / 'go.mod'} does not name {module}")
    return found[1]


def parts(
    environment: Mapping[str, str] = os.environ, only: Collection[str] = tuple(PROGRAMS)
) -> Parts:
    """Return programs, after building those that are missing.

    Raises:
        Unavailable: they are not where somebody says, or cannot be built.
    """
    paths = {name: path for name, path in planned(environment).items() if name in only}
    if missing := [name for name, path in paths.items() if not os.access(path, os.X_OK)]:
        _build({name: paths[name] for name in missing}, environment)
    return Parts(paths)


def planned(environment: Mapping[str, str]) -> Mapping[str, Path]:
    """Return where each program lies, or will lie when it is built."""
    return {name: _place(name, environment) for name in PROGRAMS}


def _place(name: str, environment: Mapping[str, str]) -> Path:
    """Return where a program lies, or is to lie: somebody's folder goes first."""
    if given := environment.get("KUBEBUILDER_ASSETS"):
        path = Path(given) / name
        if path.exists():
            return path
    home = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "plumbline" / pinned(KUBERNETES).removeprefix("v") / "bin"
    return folder / f"{name}{_mark(PROGRAMS[name])}"


def _mark(origin: Origin) -> str:
    """Return what tells one state of a program from others that go with the same Kubernetes."""
    if origin.folder != MODULE:
        return f"-{pinned(origin.module, origin.folder)}"
    if not origin.package.startswith("."):
        return ""
    sources = sorted((MODULE / origin.package).glob("*.go"))
    return f"-{sha256(b''.join(path.read_bytes() for path in sources)).hexdigest()[:12]}"


def _build(missing: Mapping[str, Path], environment: Mapping[str, str]) -> None:
    if shutil.which("go", path=environment.get("PATH")) is None:
        raise Unavailable(
            "the control plane is built with Go: install Go 1.26 or newer, or let KUBECONFIG name "
            "a cluster, or KUBEBUILDER_ASSETS a folder with " + ", ".join(missing)
        )
    for name, path in missing.items():
        origin = PROGRAMS[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        sys.stderr.write(f"building {name}, once; the API server takes minutes ...\n")
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        command = [*_BUILD, "-ldflags", _linked(origin), "-o", str(unfinished), origin.package]
        try:
            subprocess.run(
                command, cwd=origin.folder, check=True, env={**environment, "CGO_ENABLED": "0"}
            )
            unfinished.rename(path)
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"{name} was not built: go ended with {error.returncode}") from error
        finally:
            unfinished.unlink(missing_ok=True)


def _linked(origin: Origin) -> str:
    """Return linker flags: no symbols, and the version that the programs call themselves."""
    flags = ["-s", "-w"]
    if origin.version:
        version = pinned(origin.module, origin.folder)
        flags.append(f"-X {origin.module}/{origin.version}={version}")
    elif not origin.package.startswith("go."):
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
