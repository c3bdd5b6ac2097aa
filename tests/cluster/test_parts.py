"""Where the programs of a control plane come from, told without building any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.numbers import total
from tests.cluster.parts import PROGRAMS, Unavailable, parts, pinned


def put(folder: Path, *names: str) -> str:
    """Put programs into a folder."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch(0o755)
    return str(folder)


def test_given_folder(tmp_path: Path) -> None:
    """A folder that somebody names is used as it is, or what it lacks is told."""
    whole = put(tmp_path / "whole", *PROGRAMS)
    half = put(tmp_path / "half", "etcd", "kubectl")

    assert parts({"KUBEBUILDER_ASSETS": whole}).path("etcd") == f"{whole}/etcd"
    with pytest.raises(Unavailable, match=r"lacks kube-apiserver, kube-controller-manager$"):
        parts({"KUBEBUILDER_ASSETS": half})


def test_cache(tmp_path: Path) -> None:
    """What was built once for a version lies in a folder of that version."""
    version = pinned("k8s.io/kubernetes").removeprefix("v")
    folder = put(tmp_path / "plumbline" / version / "bin", *PROGRAMS)

    assert str(parts({"XDG_CACHE_HOME": str(tmp_path)}).folder) == folder


@pytest.mark.parametrize("environment", [{"PATH": "/nowhere"}], ids=["no Go"])
def test_nothing_to_build_with(tmp_path: Path, environment: Mapping[str, str]) -> None:
    """Without Go one sentence says what to install or to name instead."""
    with pytest.raises(Unavailable, match=r"install Go .* KUBECONFIG .* KUBEBUILDER_ASSETS"):
        parts({"XDG_CACHE_HOME": str(tmp_path), **environment})


def test_one_version_of_everything() -> None:
    """The staging modules are replaced by the release that goes with the programs."""
    _, _, rest = pinned("k8s.io/kubernetes").partition(".")
    text = (Path(__file__).parent / "go" / "go.mod").read_text("utf-8")
    replaced = {line.rpartition(" ")[2] for line in text.splitlines() if " => k8s.io/" in line}

    assert replaced == {f"v0.{rest}"}


def test_numbers() -> None:
    """Samples with the labels asked for are added up."""
    page = 'a{x="1",y="2"} 3\na{x="1",y="}"} 4.5\nab 7\n# HELP a\n'

    assert (total(page, "a", x="1"), total(page, "a", y="2"), total(page, "ab")) == (7.5, 3.0, 7.0)
