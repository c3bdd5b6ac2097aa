"""A process that only answers reviews is arranged for that."""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from prometheus_client import CollectorRegistry

from app.admission.flags import AdmissionSettings
from app.admission.review_server import lone_review_server
from app.flags.command_line import parse
from app.runtime.live import LiveRuntime
from tests import make


@pytest.fixture
def _interpreter() -> Iterator[None]:
    """Leave the interpreter as it was."""
    interval = sys.getswitchinterval()
    yield
    gc.enable()
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("_interpreter")
def test_threads_take_short_turns(tmp_path: Path) -> None:
    """A review that changes threads waits a moment for one that is much work, each time."""
    objects = tmp_path / "objects.jsonl"
    objects.write_bytes(orjson.dumps(make.vpa_json()))
    settings = parse(AdmissionSettings, [f"--objects={objects}"], {})
    server = lone_review_server(settings, socket.socket(), CollectorRegistry(), LiveRuntime())
    found = sys.getswitchinterval()
    server.stop(0.0)

    assert found <= 0.001
