"""Both webhooks, on the objects of one API server and with the same certificates."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from app.ports import REPLICA_SETS, VPAS
from bench.reviews import review
from bench.seeds import Json, controllers, namespace, vpa
from bench.stage import Stage, running
from tests.cluster.control_plane import HOST
from tests.cluster.programs import eventually, free_port

NAMESPACE: Final = "load"
TARGET: Final = "350m"
_FLAGS: Final = ("--register-webhook=false",)
_OURS: Final = ("--workers=0",)  # all cores, as upstream's has them
_FILES: Final = {
    "tls-cert-file": "serverCert.pem",
    "tls-private-key": "serverKey.pem",
    "client-ca-file": "caCert.pem",
}


@dataclass(frozen=True, slots=True)
class Called:
    """A server that takes reviews."""

    port: int
    session: int

    @property
    def url(self) -> str:
        """Where reviews go."""
        return f"https://{HOST}:{self.port}/mutate?timeout=5s"


def flags_of(side: str) -> tuple[str, ...]:
    """Return what one of the webhooks is told besides its places."""
    return (*_FLAGS, *_OURS) if side == "ours" else _FLAGS


def certificates(folder: Path) -> Path:
    """Return a folder with the three files."""
    found = folder / "certs"
    command = [sys.executable, "-m", "app", "certs", "--certs-dir", str(found)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return found


def fill(stage: Stage, vpas: int, apps: int, elsewhere: int = 0) -> None:
    """Let there be so many VPAs in the namespace, and apps at least; and more elsewhere."""
    stage.remove("autoscaling.k8s.io/verticalpodautoscalers/")
    stage.put(namespace(NAMESPACE))
    stage.put(_crowd(NAMESPACE, max(vpas, apps), vpas))
    for number in range(elsewhere // 1000):
        stage.put(namespace(f"ns-{number}"))
        stage.put(_crowd(f"ns-{number}", 1000, 1000))
    stage.wait_listed(VPAS, vpas + elsewhere)
    stage.wait_listed(REPLICA_SETS, stage.count("replicasets/"))


def _crowd(where: str, apps: int, vpas: int) -> Iterator[Json]:
    for number in range(apps):
        yield from controllers(where, f"app-{number}")
        if number < vpas:
            yield vpa(where, f"app-{number}", TARGET)


@contextmanager
def webhook(stage: Stage, side: str) -> Iterator[Called]:
    """Run one of the webhooks until the block ends."""
    port, certs = free_port(), stage.folder / "certs"
    flags = [*flags_of(side), f"--port={port}", f"--address={HOST}:{free_port()}"]
    flags += [f"--{flag}={certs / name}" for flag, name in _FILES.items()]
    if side == "ours":
        flags.append(f"--host={HOST}")
    with running(stage.program(side, "admission", flags)) as program:
        trust = ssl.create_default_context(cafile=str(certs / "caCert.pem"))
        called = Called(port, program.pid)
        url = f"https://localhost:{port}/mutate?timeout=5s"

        def answers() -> bool:
            """Every process behind the port has to size a pod: each connection meets another."""
            return all(_is_sized(url, trust) for _ in range(8))

        eventually(answers, f"{program.name} sizes pods", seconds=120, every=0.3)
        yield called


def _is_sized(url: str, trust: ssl.SSLContext) -> bool:
    try:
        found = httpx.post(url, json=review(NAMESPACE, "app-0", 0), verify=trust, timeout=5)
        return bool(found.json()["response"].get("patch"))
    except (httpx.HTTPError, ValueError):
        return False
