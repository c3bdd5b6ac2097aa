"""The webhook on a small built-in cluster, for trying it out."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from importlib.resources import files
from pathlib import Path

import orjson

from app.adapters.logs import start_logging
from app.settings.admission import AdmissionSettings
from app.wiring.admission import Keeper

_DEMO = files("app.wiring.demo")
_LOOK_SECONDS = 0.1
_SHOW_PATCH = (
    "python3 -c 'import base64, json, sys; "
    'print(base64.b64decode(json.load(sys.stdin)["response"]["patch"]).decode())\''
)
_SHOW_REFUSAL = (
    'python3 -c \'import json, sys; print(json.load(sys.stdin)["response"]["status"]["message"])\''
)


def demo_objects() -> Path:
    """Return the file with the built-in objects."""
    return Path(str(_DEMO.joinpath("objects.yaml")))


def try_out(settings: AdmissionSettings) -> int:
    """Serve until a signal, and tell how to ask."""
    start_logging(settings.logging.verbosity)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    keeper = Keeper(settings)
    keeper.start()
    while keeper.problem() and not stopping.wait(_LOOK_SECONDS):
        pass
    if not stopping.is_set():
        sys.stdout.write(_invitation(settings))
        sys.stdout.flush()
    stopping.wait()
    keeper.stop()
    return 0


def _invitation(settings: AdmissionSettings) -> str:
    ca = shlex.quote(f"{settings.certificates.own_dir.absolute()}/caCert.pem")
    ask = f"curl -s --cacert {ca} -H 'Content-Type: application/json'"
    url = f"https://localhost:{settings.serving.port}"
    lines = ["", "The webhook answers."]
    if settings.offline.objects == (demo_objects(),):
        lines += [
            "What a pod of Deployment shop/web gets when it is created:",
            "",
            f"{ask} {url}/mutate -d {_compact('pod.json')} | {_SHOW_PATCH}",
            "",
        ]
    lines += [
        "What a VPA with mistakes is told:",
        "",
        f"{ask} {url}/validate -d {_compact('vpa.json')} | {_SHOW_REFUSAL}",
        "",
        f"Metrics: curl -s http://localhost:{settings.serving.address.port}/metrics",
        "Ctrl-C ends.",
        "",
    ]
    return "\n".join(lines) + "\n"


def _compact(name: str) -> str:
    return shlex.quote(orjson.dumps(orjson.loads(_DEMO.joinpath(name).read_bytes())).decode())
