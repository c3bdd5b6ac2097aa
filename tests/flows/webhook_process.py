"""The admission process as a program that tests start, ask and end."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.cluster.programs import free_port
from tests.waiting import eventually

JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Webhook:
    """A running process."""

    process: subprocess.Popen[bytes]
    url: str
    health: str
    context: ssl.SSLContext
    log: Path

    def client(self) -> httpx.Client:
        """Return a client that trusts the process's CA."""
        return httpx.Client(base_url=self.url, verify=self.context, timeout=10)

    def said(self, path: str) -> str:
        """Return what the second port answers to a probe; empty while it does not."""
        try:
            return httpx.get(f"{self.health}{path}", timeout=2).text
        except httpx.HTTPError:
            return ""

    def is_ready(self) -> bool:
        """Whether it says that it answers."""
        return self.said("/readyz") == "OK"

    def workers(self) -> list[int]:
        """Return the processes that answer."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [
            int(child)
            for children in threads
            for child in children.read_text().split()
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
        ]


@contextmanager
def started(folder: Path, *flags: str) -> Iterator[Webhook]:
    """Start the process with its certificates in a folder; end it, and all its workers with it."""
    port, health = free_port(), free_port()
    command = [
        sys.executable, "-m", "app", "admission", f"--port={port}",
        f"--address=127.0.0.1:{health}", "--host=127.0.0.1", *flags,
    ]  # fmt: skip
    log = folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stderr=file, start_new_session=True)
    try:
        ca = folder / "certs/caCert.pem"
        assert eventually(ca.exists), log.read_text()
        context = ssl.create_default_context(cafile=str(ca))
        yield Webhook(
            process, f"https://localhost:{port}", f"http://127.0.0.1:{health}", context, log
        )
    finally:
        process.terminate()
        process.send_signal(signal.SIGINT)  # who is told twice does not wait for clients
        try:
            process.wait(20)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
