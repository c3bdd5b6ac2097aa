"""Answers for metrics.k8s.io as metrics-server does, the same to everybody who asks in one moment.

    python -m bench.metrics_stand_in PORT FOLDER PODS VPAS SECONDS

Strategy: what pods use is chosen by chance from a seed, again each so many seconds; the bodies are
made before anybody asks. FOLDER holds the certificate; it is not checked by API servers.
"""

from __future__ import annotations

import random
import ssl
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import orjson

from bench.crowd import BOXES, Crowd
from bench.seeds import replica_set, time_text

BASE: Final = "/apis/metrics.k8s.io/v1beta1"
_VARIANTS: Final = 6
_EPOCH: Final = b"1970-01-01T00:00:00Z"
_DISCOVERY: Final = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "metrics.k8s.io/v1beta1",
    "resources": [
        {
            "name": "pods",
            "singularName": "",
            "namespaced": True,
            "kind": "PodMetrics",
            "verbs": ["get", "list"],
        }
    ],
}


def body(crowd: Crowd, variant: int) -> bytes:
    """Return what all pods use; the time is left to be filled in."""
    dice, moment = random.Random(variant), _EPOCH.decode()

    def usage(number: int) -> dict[str, str]:
        cpu = (5 + number % 97 * 10) * 1_000_000 * dice.uniform(0.8, 1.2)
        memory = (50 + number % 89 * 10) * 1024 * dice.uniform(0.9, 1.1)
        return {"cpu": f"{cpu:.0f}n", "memory": f"{memory:.0f}Ki"}

    items = [
        {
            "metadata": {
                "name": f"{replica_set(app)}-{number:05d}",
                "namespace": namespace,
                "creationTimestamp": moment,
                "labels": {"app": app, "pod-template-hash": "5d9c7b6f4"},
            },
            "timestamp": moment,
            "window": "15s",
            "containers": [{"name": box, "usage": usage(index)} for box in BOXES],
        }
        for index, (namespace, app, number) in enumerate(crowd.pods())
    ]
    listed = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}}
    return orjson.dumps({**listed, "items": items})


def main() -> None:
    """Serve until it is ended."""
    port, folder, pods, vpas, seconds = sys.argv[1:]
    crowd = Crowd(int(vpas), int(pods))
    bodies = [body(crowd, variant) for variant in range(_VARIANTS)]
    each = int(seconds)

    @lru_cache(maxsize=2)
    def told(slot: int) -> bytes:
        moment = datetime.fromtimestamp(slot * each, UTC) - timedelta(seconds=1)
        return bodies[slot % _VARIANTS].replace(_EPOCH, time_text(moment).encode())

    class Handler(BaseHTTPRequestHandler):
        """Answers discovery and the list of all pods."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Answer."""
            path = self.path.partition("?")[0].rstrip("/")
            if path == BASE:
                self._send(200, orjson.dumps(_DISCOVERY))
            elif path == f"{BASE}/pods":
                self._send(200, told(int(time.time()) // each))
            else:
                self._send(404, b"{}")

        def _send(self, status: int, text: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(folder, "server.crt"), Path(folder, "server.key"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
