"""Commands with --demo: what they teach is tried on the cluster that one watches."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cases import cases
from tests.cluster.programs import free_port

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
LEADS = re.compile(
    r"leader, because Lease shop/orders is held by orders-0_[-0-9a-f]{36} since 2026-01-05 10:00"
)
NAMES = ("port", "admission-port", "recommender-port", "updater-port", "page-port")
PORTS = {name: free_port() for name in NAMES}
FLAGS = [f"--{name}={port}" for name, port in PORTS.items()]


def words(*more: str) -> list[str]:
    """Return what starts the program."""
    return [sys.executable, "-m", "app", *more]


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run the demo; return the folder for temporary files, in which only it runs."""
    folder = tmp_path_factory.mktemp("demo")
    with subprocess.Popen(
        words("run", *FLAGS),
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        for line in iter(process.stdout.readline, b""):
            if b" resize " in line:  # so that there are decisions to explain
                break
        yield folder
        process.terminate()
        process.communicate(timeout=SECONDS)
    assert list(folder.glob("pl-*")) == []


def asked(temporary: Path, *question: str) -> tuple[int, str, str]:
    """Ask a question; return the exit code, and what was printed."""
    done = subprocess.run(
        words(*question),
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary), "KUBECONFIG": "/no/such/file"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@cases(
    "question text",
    {
        "plan": (["plan"], "PDBBlocked"),
        "explain": (["explain", "web"], "VPA shop/web"),
        "recommendations": (["recommendations", "-o=name"], "autoscaling.k8s.io/billing"),
        "doctor": (["doctor"], "$ kubectl -n shop patch hpa catalog --type=json"),
        "its certificate": (["doctor"], "the webhook's certificate: good for another "),
    },
)
def test_the_demo_can_be_asked(temporary: Path, question: list[str], text: str) -> None:
    """Each command finds the cluster by itself, and answers for its time."""
    code, output, errors = asked(temporary, *question, "--demo")

    assert code == 0
    for line in errors.splitlines():  # what there is to say, and the command that helps
        assert "warning: vpa/catalog -n shop: " in line or "$ kubectl -n shop patch hpa" in line
    assert text in output
    assert "serious" not in output


@cases(
    "question",
    {
        "plan": (["plan", "-o=json"],),
        "explain, of the pod": (["explain", "pod/orders-0"],),
        "explain, of its VPA": (["explain", "orders-leader"],),
    },
)
def test_commands_say_who_leads(temporary: Path, question: list[str]) -> None:
    """What tells of a pod says which role it has by a Lease, and why."""
    assert LEADS.search(asked(temporary, *question, "--demo")[1])


@cases(
    "port path",
    {
        "decisions": ("updater-port", "/v1/decisions?pod=orders-0"),
        "recommendations": ("recommender-port", "/v1/namespaces/shop/pods/orders-0"),
        "the fleet": ("page-port", "/fleet.json"),
        "the page of the VPA": ("page-port", "/namespaces/shop/vpas/orders-leader"),
        "the page of the pod": ("page-port", "/namespaces/shop/pods/orders-0.json"),
    },
)
def test_servers_say_who_leads(temporary: Path, port: str, path: str) -> None:
    """The same stands in what processes and page answer."""
    assert temporary.exists()
    answer = httpx.get(f"http://localhost:{PORTS[port]}{path}", timeout=SECONDS)

    assert (answer.status_code, bool(LEADS.search(answer.text))) == (200, True)


def test_the_demo_by_its_kubeconfig(temporary: Path) -> None:
    """Who asks it as any cluster hears what it is, and not that its clock is wrong."""
    (config,) = temporary.glob("pl-*/kubeconfig")
    _, output, _ = asked(temporary, "doctor", f"--kubeconfig={config}")

    assert "note     Clock        API server: it is `plumbline run`, whose clock is " in output
    assert "$ plumbline doctor --demo" in output
    assert "serious" not in output


def test_without_a_demo(tmp_path: Path) -> None:
    """Where none runs, the sentence says what to do."""
    sentence = "plumbline: --demo: no `plumbline run` is under way; start one in another terminal\n"

    assert asked(tmp_path, "plan", "--demo") == (2, "", sentence)


def test_files_are_no_demo(tmp_path: Path) -> None:
    """Two places to look at exclude each other."""
    code, _, errors = asked(tmp_path, "plan", "--demo", "--objects", "docs")

    assert (code, errors) == (2, "plumbline: --demo and --objects exclude each other\n")
