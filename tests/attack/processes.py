"""Real processes to attack: each on ports of loopback, with its memory, its metrics and its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import orjson

from app.ports import (
    EVENTS,
    LEASES,
    LIMIT_RANGES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    VPAS,
    WORKLOADS,
)
from tests import make
from tests.cluster.programs import free_port
from tests.kube.api_server import ApiServer
from tests.kube.api_server import serving as api_serving
from tests.kube.connecting import kubeconfig, write
from tests.waiting import eventually

IS_WHOLE: Final = os.environ.get("PLUMBLINE_ATTACK") == "whole"  # `make acceptance` says so
SERVED: Final = (
    *WORKLOADS, VPAS, PODS, LIMIT_RANGES, POD_DISRUPTION_BUDGETS, NODES, EVENTS, LEASES,
)  # fmt: skip
_END_SECONDS: Final = 30.0


def share(short: int, whole: int) -> int:
    """Return how often something is done: a little in `make test`, as the claim says else."""
    return whole if IS_WHOLE else short


@dataclass(frozen=True)
class Attacked:
    """A process under attack."""

    program: subprocess.Popen[bytes]
    log: Path
    port: int  # of health and metrics
    tls_port: int = 0  # of reviews, if it answers any

    @property
    def pids(self) -> Sequence[int]:
        """The process, and the workers that it has started."""
        first = self.program.pid
        threads = Path(f"/proc/{first}/task").glob("*/children")
        children = {int(pid) for found in threads for pid in found.read_text().split()}
        command = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
        return [first, *(pid for pid in sorted(children) if b"spawn_main" in command[pid])]

    def memory_mb(self) -> float:
        """Return the memory in use, of the largest process."""
        return max(_status_mb(pid, "VmRSS") for pid in self.pids)

    def peak_mb(self) -> float:
        """Return the most memory that was in use since `forget_peak`, of the largest process."""
        return max(_status_mb(pid, "VmHWM") for pid in self.pids)

    def forget_peak(self) -> None:
        """Let the peak be what is in use now."""
        for pid in self.pids:
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    def page(self, path: str) -> httpx.Response:
        """Return what the second port answers."""
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=10)

    def number(self, name: str, **labels: str) -> float:
        """Return the sum of the series of a metric that have these labels."""
        found = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", self.page("/metrics").text, re.M)
        wanted = [f'{label}="{text}"' for label, text in labels.items()]
        return sum(float(number) for said, number in found if all(one in said for one in wanted))

    def is_ready(self) -> bool:
        """Whether it says so."""
        try:
            return self.page("/readyz").status_code == 200
        except httpx.HTTPError:
            return False


def _status_mb(pid: int, name: str) -> float:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found is not None
    return int(found[1]) / 1024


@contextmanager
def process(verb: str, folder: Path, *flags: str, tls_port: int = 0) -> Iterator[Attacked]:
    """Start a process of ours and wait until it is ready; end it in any case."""
    port, log = free_port(), folder / f"{verb}.log"
    command = [sys.executable, "-m", "app", verb, f"--address=127.0.0.1:{port}", *flags]
    with log.open("wb") as file:
        program = subprocess.Popen(command, stderr=file, start_new_session=True)
    found = Attacked(program, log, port, tls_port)
    try:
        assert eventually(found.is_ready, 60), log.read_text()
        yield found
    finally:
        program.terminate()
        program.send_signal(signal.SIGINT)  # who is told twice does not wait for clients
        try:
            program.wait(_END_SECONDS)
        finally:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()


@contextmanager
def webhook(folder: Path, *flags: str) -> Iterator[Attacked]:
    """A webhook that knows one VPA and its workload, from a file."""
    objects, port = folder / "objects.jsonl", free_port()
    items = make.vpa_json(cpu="250m", memory="200Mi"), make.workload_json()
    objects.write_bytes(b"\n".join(map(orjson.dumps, items)))
    words = (f"--objects={objects}", "--host=127.0.0.1", f"--port={port}", *flags)
    certs = f"--certs-dir={folder}/certs"
    with process("admission", folder, certs, *words, tls_port=port) as found:
        yield found


@contextmanager
def before_api_server(verb: str, folder: Path, *flags: str) -> Iterator[tuple[Attacked, ApiServer]]:
    """A recommender or an updater on an empty cluster, and the API server, to fill it."""
    with api_serving(*SERVED) as server:
        config = write(folder / "config", kubeconfig(server.url))
        with process(verb, folder, f"--kubeconfig={config}", *flags) as found:
            yield found, server
