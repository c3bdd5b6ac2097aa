"""A real Prometheus on loopback, with a database that `promtool` made of given samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from shutil import which
from subprocess import run

import pytest

from app.model.errors import Unavailable
from app.recommender.prometheus import PrometheusServer
from app.recommender.prometheus_connection import PrometheusConnection
from tests.cluster.programs import Program, free_port
from tests.kube.issuing import issued


def program() -> str:
    """Return where the program is; without it there is nothing to test."""
    path = which("prometheus")
    if path is None or which("promtool") is None:
        pytest.skip("there is no prometheus here; Debian's package of that name brings it")
    return path


def written_database(folder: Path, samples: Iterable[str], now: datetime) -> None:
    """Write a database of lines of OpenMetrics, and certificates."""
    program()
    began = now - timedelta(days=1)
    ca = issued("ca", began)
    server = issued("localhost", began, by=ca, names=("localhost",), days=100)
    for name, text in (("ca", ca.pem), ("crt", server.pem), ("key", server.key_pem())):
        (folder / f"{name}.pem").write_text(text)
    (folder / "none.yml").write_text("{}")
    tls = f"cert_file: {folder / 'crt.pem'}\n  key_file: {folder / 'key.pem'}"
    (folder / "web.yml").write_text(f"tls_server_config:\n  {tls}\n")
    (folder / "metrics").write_text("\n".join(samples) + "\n")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics"]
    run([*command, folder / "metrics", folder / "data"], check=True, capture_output=True)


@contextmanager
def serving(folder: Path, now: datetime, *flags: str) -> Iterator[PrometheusConnection]:
    """Start a server over a database; return how to reach it once it answers."""
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={folder / 'none.yml'}",
        f"--web.config.file={folder / 'web.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        *flags,
    ]
    server = Program("prometheus", command, folder / "log", {"PATH": str(Path(program()).parent)})
    access = PrometheusConnection(f"https://localhost:{port}", 20.0, ca_file=str(folder / "ca.pem"))

    def ready() -> bool:
        try:
            with closing(PrometheusServer(access, lambda *_: None)) as client:
                client.query("vector(1)", now)
        except Unavailable:
            return False
        return True

    server.start()
    try:
        server.wait_until(ready)
        yield access
    finally:
        server.stop()
