"""Where the programs of a control plane come from, told without building any."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.parts import PROGRAMS, Unavailable, parts, pinned


def put(folder: Path, *names: str) -> str:
    """Put programs into a folder."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch(0o755)
    return str(folder)


def test_given_folder(tmp_path: Path) -> None:
    """A folder that somebody names goes first; what it lacks comes from elsewhere."""
    half = put(tmp_path / "half", "etcd", "kubectl")
    environment = {"KUBEBUILDER_ASSETS": half, "PATH": "/nowhere"}

    assert parts({"KUBEBUILDER_ASSETS": put(tmp_path / "whole", *PROGRAMS)}).paths == {
        name: tmp_path / "whole" / name for name in PROGRAMS
    }
    with pytest.raises(Unavailable, match=r"a folder with kube-apiserver, .*helm$"):
        parts({"XDG_CACHE_HOME": str(tmp_path), **environment})


def test_nothing_to_build_with(tmp_path: Path) -> None:
    """Without Go one sentence says what to install or to name instead."""
    with pytest.raises(Unavailable, match=r"install Go .* KUBECONFIG .* KUBEBUILDER_ASSETS"):
        parts({"XDG_CACHE_HOME": str(tmp_path), "PATH": "/nowhere"})


def test_one_version_of_everything() -> None:
    """The staging modules are replaced by the release that goes with the programs."""
    _, _, rest = pinned("k8s.io/kubernetes").partition(".")
    text = (Path(__file__).parent / "go" / "go.mod").read_text("utf-8")
    replaced = {line.rpartition(" ")[2] for line in text.splitlines() if " => k8s.io/" in line}

    assert replaced == {f"v0.{rest}"}
