"""The image, as far as it can be proven without a container engine.

Strategy: the steps of the Dockerfile are a script. It is run here into an empty folder, and what
it leaves is started as nobody, who may write nowhere but into one folder for temporary files.
"""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import orjson
import pytest

from tests import make
from tests.cluster.programs import eventually, free_port

ROOT = Path(__file__).parents[2]
NOBODY = 65534
SECONDS = 60


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """The folder that the last stage of the image is made of."""
    if os.geteuid() != 0:
        pytest.skip("only root can start programs as nobody")
    python = next(filter(_is_for_nobody, (sys.executable, "/usr/bin/python3")), "")
    if not python:
        pytest.skip("nobody may not start the Python that is here")
    with TemporaryDirectory(prefix="plumbline-image-", dir="/var/tmp") as parent:
        Path(parent).chmod(0o755)
        folder = Path(parent) / "plumbline"
        for step in ("dependencies", "program"):
            environment = {"PATH": os.environ["PATH"], "HOME": parent, "PYTHON": python}
            subprocess.run([ROOT / ".ci/image", step, folder], check=True, env=environment)
        yield folder


def _is_for_nobody(python: str) -> bool:
    """Say whether nobody may start an interpreter, which may lie in root's own folder."""
    try:
        done = subprocess.run(
            [python, "-c", "import pip, venv"],
            user=NOBODY,
            group=NOBODY,
            extra_groups=(),
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0


@pytest.fixture
def tmp() -> Iterator[Path]:
    """The one folder that nobody may write to."""
    with TemporaryDirectory(prefix="plumbline-tmp-", dir="/var/tmp") as folder:
        os.chown(folder, NOBODY, NOBODY)
        yield Path(folder)


@contextmanager
def started(image: Path, tmp: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program as the image does."""
    with subprocess.Popen(
        [image / "bin/plumbline", *words],
        cwd="/",
        user=NOBODY,
        group=NOBODY,
        extra_groups=(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"TMPDIR": str(tmp), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def test_the_dockerfile_runs_these_steps() -> None:
    """What is proven here is what the Dockerfile does, and as the same user."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"RUN \.ci/image (\w+)", text) == ["dependencies", "program"]
    assert f"USER {NOBODY}:{NOBODY}" in text


def test_it_starts_for_nobody(image: Path, tmp: Path) -> None:
    """The program runs for somebody who owns nothing."""
    with started(image, tmp, "version") as process:
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert output.startswith(b"plumbline ")


def test_nothing_is_in_it_to_build_with(image: Path) -> None:
    """Neither pip nor a build backend is left, and every module has its byte code."""
    packages = next(image.glob("lib/python*/site-packages"))
    assert [name for name in ("pip", "setuptools", "wheel") if (packages / name).exists()] == []
    modules = list((packages / "app").rglob("*.py"))
    assert modules
    assert [
        path for path in modules if not list(path.parent.glob(f"__pycache__/{path.stem}.*"))
    ] == []


def test_it_lists_what_is_in_it(image: Path) -> None:
    """Its bill of materials has each library of the image in its locked version, and no other."""
    bill = orjson.loads((image / "sbom.cdx.json").read_bytes())
    found = {one["name"]: one["version"] for one in bill["components"] if one["type"] == "library"}
    folders = image.glob("lib/python*/site-packages/*.dist-info")
    names = {re.sub(r"[-_.]+", "-", path.name.partition("-")[0]).lower() for path in folders}
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    locked = set(re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE))

    assert found.keys() == names - {"plumbline"}
    assert found.items() <= locked


def test_it_serves_without_writing(image: Path, tmp: Path) -> None:
    """The webhook answers over TLS; the image is the same afterwards."""
    before = contents(image)
    objects = tmp / "objects.jsonl"
    objects.write_bytes(
        b"\n".join(map(orjson.dumps, (make.vpa_json(cpu="250m"), make.workload_json())))
    )
    objects.chmod(0o644)
    port, health = free_port(), free_port()
    flags = [f"--objects={objects}", f"--certs-dir={tmp}/certs", f"--port={port}"]
    with started(
        image, tmp, "admission", *flags, "--host=127.0.0.1", f"--address=127.0.0.1:{health}"
    ):
        eventually(lambda: is_ready(health), "the webhook is ready", seconds=SECONDS)
        trust = ssl.create_default_context(cafile=str(tmp / "certs/caCert.pem"))
        review = make.review_json(make.pod_json(cpu="100m"))
        answer = httpx.post(f"https://localhost:{port}/mutate", json=review, verify=trust)

    assert answer.json()["response"]["patchType"] == "JSONPatch"
    assert contents(image) == before


def is_ready(port: int) -> bool:
    """Whether a process says that it is ready."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def contents(folder: Path) -> set[tuple[str, int]]:
    """Return every file and when it was written."""
    return {(str(path), path.stat().st_mtime_ns) for path in folder.rglob("*")}
