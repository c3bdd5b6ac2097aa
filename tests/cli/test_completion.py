"""Completion in shells: the scripts are run by the shells themselves where these are there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from app.cli import main
from app.cli.completion import Shell, for_kubectl
from app.cli.pages import PURPOSES
from app.cli.verbs import VERBS, completed_verbs
from app.flags.command_line import schema

ROOT = Path(__file__).parents[2]
SECONDS = 60


@lru_cache
def script(shell: str) -> str:
    """Return what the program prints for a shell."""
    command = [sys.executable, "-m", "app", "completion", shell]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=SECONDS, check=True)
    return done.stdout.decode()


def completed(*words: str) -> list[str]:
    """Return what bash offers for the last of some words."""
    typed = " ".join(f"'{word}'" for word in words)
    asks = f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _plumbline"
    shows = 'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script('bash')}\n{asks}\n{shows}"],
        cwd=ROOT,
        capture_output=True,
        timeout=SECONDS,
        check=True,
    )
    assert done.stderr == b""
    return done.stdout.decode().split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["recom"], ["recommender", "recommendations"]),
        (["ad"], ["admission", "admit"]),
        (["--"], ["--help"]),
        (["plan", "--all"], ["--all-namespaces"]),
        (["plan", "-o", ""], ["table", "wide", "json", "yaml", "csv", "name"]),
        (["plan", "-o", "y"], ["yaml"]),
        (["plan", "--output", "=", "js"], ["json"]),
        (["plan", "--output", "="], ["table", "wide", "json", "yaml", "csv", "name"]),
        (["admission", "--objects", "pyproj"], ["pyproject.toml"]),
        (["admit", "pyproj"], ["pyproject.toml"]),
        (["manifests", "cr"], ["crd"]),
        (["explain", "v"], ["vpa/"]),
        (["completion", ""], [*Shell, "--help"]),
        (["run", "--speed", ""], ["max"]),
        (["plan", "--nothing"], []),
    ],
)
def test_bash_offers_what_fits(words: list[str], offered: list[str]) -> None:
    """Verbs, flags, the words that a flag takes, and files, each where they belong."""
    assert completed("plumbline", *words) == offered


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["recom"], ["recommender", "recommendations", ":4"]),
        (["plan", "--all"], ["--all-namespaces", ":4"]),
        (["plan", "-o", "y"], ["yaml", ":4"]),
        (["plan", "-o", "z"], [":4"]),
        (["plan", "--namespace", ""], [":4"]),
        (["run", "--speed", ""], ["max", ":4"]),
        (["manifests", "cr"], ["crd", ":4"]),
        (["plan", "--objects", "a"], [":0"]),
        (["admit", "review"], [":0"]),
        (["nothing", "x"], [":4"]),
    ],
)
def test_kubectl_is_offered_what_fits(words: list[str], offered: list[str]) -> None:
    """Kubectl asks a program of its own, and is told whether files fit as well."""
    assert list(for_kubectl(words, completed_verbs())) == offered


def test_bash_knows_every_verb_and_flag() -> None:
    """Whatever the program takes is offered."""
    assert set(completed("plumbline", "")) == {*VERBS, "--help"}
    for verb, (settings, _) in PURPOSES.items():
        ways = {way for flag in schema(settings).flags if flag.name for way in flag.spellings}
        assert ways <= set(completed("plumbline", verb, "-"))


@pytest.mark.parametrize("shell", Shell)
def test_scripts_are_read_by_their_shells(shell: Shell, tmp_path: Path) -> None:
    """A script is whole, and has no word that its shell trips over."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    path = tmp_path / "script"
    path.write_text(script(shell), "utf-8")
    done = subprocess.run(
        [shell, "-n", str(path)], capture_output=True, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
def test_fish_offers_what_fits(tmp_path: Path) -> None:
    """Verbs come first, then the words that a flag takes."""
    path = tmp_path / "script"
    path.write_text(script("fish"), "utf-8")
    asks = "; ".join(f"complete -C 'plumbline {words}'" for words in ("rec", "plan -o c"))
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {path}; {asks}"],
        capture_output=True,
        timeout=SECONDS,
        check=True,
    )
    offered = [line.split("\t")[0] for line in done.stdout.decode().splitlines()]
    assert offered == ["recommendations", "recommender", "csv"]


def test_unknown_shells(capsys: pytest.CaptureFixture[str]) -> None:
    """No shell and an unknown one are refused with those that are known."""
    usage = "usage: plumbline completion bash|zsh|fish\n"
    assert main(["completion"]) == main(["completion", "nu"]) == 2
    told = f'plumbline: {usage}plumbline: unknown shell "nu"; {usage}'
    assert capsys.readouterr().err == told
