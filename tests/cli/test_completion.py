"""Completion in shells: the scripts are run by the shells themselves where these are there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from app.cli import main
from app.cli.completion import Shell
from app.cli.pages import PURPOSES
from app.cli.verbs import VERBS
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
        (["rec"], ["recommender", "recommendations"]),
        (["ad"], ["admission", "admit"]),
        (["--"], ["--help"]),
        (["plan", "--all"], ["--all-namespaces"]),
        (["plan", "-o", ""], ["table", "json", "yaml", "csv", "name"]),
        (["plan", "-o", "y"], ["yaml"]),
        (["plan", "--output", "=", "js"], ["json"]),
        (["plan", "--output", "="], ["table", "json", "yaml", "csv", "name"]),
        (["admission", "--objects", "pyproj"], ["pyproject.toml"]),
        (["admit", "pyproj"], ["pyproject.toml"]),
        (["manifests", "cr"], ["crd"]),
        (["explain", "v"], ["vpa/"]),
        (["completion", ""], [*Shell, "--help"]),
        (["plan", "--nothing"], []),
    ],
)
def test_bash_offers_what_fits(words: list[str], offered: list[str]) -> None:
    """Verbs, flags, the words that a flag takes, and files, each where they belong."""
    assert completed("plumbline", *words) == offered


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
    """An unknown shell is refused with those that are known."""
    assert main(["completion", "tcsh"]) == 2
    assert capsys.readouterr().err == "plumbline: usage: plumbline completion bash|zsh|fish\n"
