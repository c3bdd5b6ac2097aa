"""How the image is built: upon which base, and what is told to be in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import orjson
import pytest

from app.model.fields import Json

ROOT: Final = Path(__file__).parents[1]
DIGEST: Final = f"sha256:{'0123456789abcdef' * 4}"
# Stands for a container engine: notes what it is told, and answers what is asked of it.
ENGINE: Final = f"""#!/bin/sh
echo "$*" >>"$NOTES"
case $1 in
image) echo "python@{DIGEST}" ;;
run) echo "a bill" ;;
esac
"""


def listed() -> Json:
    """Return the bill of materials of the environment that the tests run in."""
    command = [sys.executable, "-I", str(ROOT / ".ci/sbom.py")]
    done = subprocess.run(command, capture_output=True, check=True, env={"BASE": "python@x"})
    found: Json = orjson.loads(done.stdout)
    return found


def test_the_bill_lists_what_is_installed() -> None:
    """Each library stands in it with its locked version, and what it needs stands in it too."""
    bill = listed()
    (python, *libraries) = bill["components"]
    lock = (ROOT / "requirements-dev.lock").read_text("utf-8")
    locked = set(re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE))
    found = {one["name"]: one["version"] for one in libraries}
    known = {one["bom-ref"] for one in (*libraries, bill["metadata"]["component"])}

    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert python["name"] == "python"
    assert bill["metadata"]["component"]["name"] == "plumbline"
    assert bill["metadata"]["properties"] == [{"name": "plumbline:base-image", "value": "python@x"}]
    assert {"fastapi", "uvicorn", "orjson"} <= found.keys()
    assert {name for name, _ in found.items() - locked} <= {"pip"}
    assert {each["ref"] for each in bill["dependencies"]} == known
    assert {ref for each in bill["dependencies"] for ref in each["dependsOn"]} <= known
    assert all(one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}" for one in libraries)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with a Dockerfile, and an engine."""
    (tmp_path / "Dockerfile").write_text("ARG BASE=python:3.13\nFROM ${BASE}\n")
    engine = tmp_path / "engine"
    engine.write_text(ENGINE)
    engine.chmod(0o755)
    return tmp_path


def built(tree: Path, *words: str, engine: str = "") -> tuple[str, list[str]]:
    """Return what building says, and what the engine was told."""
    notes = tree / "notes"
    notes.touch()
    environment = {**os.environ, "NOTES": str(notes), "CONTAINER": engine or str(tree / "engine")}
    command = [str(ROOT / ".ci/build-image"), "plumbline:1", *words]
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr, notes.read_text().splitlines()


def test_a_base_without_a_digest_gets_one(tree: Path) -> None:
    """What was pulled is what is built upon, and is told."""
    told, steps = built(tree)
    assert steps[0] == "pull --quiet python:3.13"
    assert (
        f"build --build-arg BASE=python@{DIGEST} --build-arg COMMIT= --tag plumbline:1 ." in steps
    )
    assert f"python@{DIGEST}" in told
    assert (tree / "build/sbom.cdx.json").read_text() == "a bill\n"


def test_a_base_with_a_digest_is_taken_as_it_is(tree: Path) -> None:
    """Nothing newer is looked for."""
    base = f"python:3.13@{DIGEST}"
    _, steps = built(tree, base)
    assert [step.split()[0] for step in steps] == ["build", "run"]
    assert f"BASE={base}" in steps[0]


def test_without_an_engine(tree: Path) -> None:
    """What is missing is said, and how to name another one."""
    told, steps = built(tree, engine="no-such-engine")
    assert "no-such-engine" in told
    assert "make image CONTAINER=" in told
    assert steps == []
