"""Which running clusters are found, and which of them is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from app.model.errors import BadSetting
from app.model.gates import FeatureGate, FeatureGates
from app.run.demo_clusters import announced, demo_gates, running_demo
from tests.cases import cases

URL = "http://127.0.0.1:1/token"
GATES = FeatureGates(frozenset({FeatureGate.IN_PLACE}))


@contextmanager
def runs(among: Path, *names: str) -> Iterator[None]:
    """Let some clusters run."""
    with ExitStack() as running:
        for name in names:
            folder = among / name
            folder.mkdir()
            running.enter_context(announced(folder, URL, "shop", GATES))
        yield


@cases(
    "names wanted found",
    {
        "the only one": (["pl-1"], "", "pl-1"),
        "the only one, whatever else is configured": (["pl-1"], "config", "pl-1"),
        "the one that is wanted": (["pl-1", "pl-2"], "pl-2/kubeconfig", "pl-2"),
    },
)
def test_the_cluster_that_runs_is_found(
    tmp_path: Path, names: list[str], wanted: str, found: str
) -> None:
    """One that runs needs no name, whatever KUBECONFIG says; its feature gates are told."""
    with runs(tmp_path, *names):
        chosen = running_demo(str(tmp_path / wanted), tmp_path)
        assert demo_gates(chosen) == GATES

    assert chosen == str(tmp_path / found / "kubeconfig")


@cases(
    "names sentence",
    {
        "none": ([], "--demo: no `plumbline run` is under way; start one in another terminal"),
        "several": (
            ["pl-1", "pl-2"],
            "--demo: several `plumbline run` are under way; choose one with "
            "--kubeconfig={0}/pl-1/kubeconfig or --kubeconfig={0}/pl-2/kubeconfig",
        ),
        "another program": (
            ["other"],
            "--demo: no `plumbline run` is under way; start one in another terminal",
        ),
    },
)
def test_what_is_not_clear_is_an_error(tmp_path: Path, names: list[str], sentence: str) -> None:
    """Without a cluster there is nothing to ask, and several are named."""
    with runs(tmp_path, *names), pytest.raises(BadSetting) as caught:
        running_demo("", tmp_path)

    assert str(caught.value) == sentence.format(tmp_path)


def test_what_a_run_left_behind_is_not_taken_for_one(tmp_path: Path) -> None:
    """A run that was killed leaves its folder; the lock is gone with the process."""
    with runs(tmp_path, "pl-killed"):
        pass
    with runs(tmp_path, "pl-alive"):
        chosen = running_demo("", tmp_path)

    assert (tmp_path / "pl-killed/kubeconfig").exists()
    assert chosen == str(tmp_path / "pl-alive/kubeconfig")
