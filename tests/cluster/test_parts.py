"""Where the programs of a control plane come from, told without building any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.numbers import total
from tests.cluster.parts import PROGRAMS, Unavailable, parts, pinned, planned


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


def test_only_what_is_wanted(tmp_path: Path) -> None:
    """Who wants one program needs none of the others."""
    environment = {"KUBEBUILDER_ASSETS": put(tmp_path / "half", "kubectl"), "PATH": "/nowhere"}

    found = parts(environment, only=("kubectl",))
    assert found.paths == {"kubectl": tmp_path / "half" / "kubectl"}


def test_cache(tmp_path: Path) -> None:
    """What was built once for a version lies in a folder of that version."""
    version = pinned("k8s.io/kubernetes").removeprefix("v")
    folder = tmp_path / "plumbline" / version / "bin"
    marked = {"node": "node-", "metrics-server": "metrics-server-v", "helm": "helm-v"}
    with pytest.raises(Unavailable):
        parts({"XDG_CACHE_HOME": str(tmp_path), "PATH": "/nowhere"})
    names = [path.name for path in planned({"XDG_CACHE_HOME": str(tmp_path)}).values()]
    put(folder, *names)

    found = parts({"XDG_CACHE_HOME": str(tmp_path), "PATH": "/nowhere"})
    for name in PROGRAMS:
        assert found.path(name).startswith(str(folder / marked.get(name, name)))


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
