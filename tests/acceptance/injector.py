"""A mutating webhook of somebody else, which adds a container to every pod of a namespace."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from app.admission.certificates import issue
from app.model.fields import Json
from app.ports import MUTATING_WEBHOOKS
from app.runtime.clock import SystemClock
from tests.acceptance.cluster import reached_as
from tests.acceptance.space import Box, item_of
from tests.cluster.api import Api

# API servers ask in the order of names, so this one comes after ours.
_NAME: Final = "zz-injector"
SIDECAR: Final = Box("sidecar", "100m/100Mi")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Add a container."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        patch = [{"op": "add", "path": "/spec/containers/-", "value": SIDECAR.manifest()}]
        response = {
            "uid": review["request"]["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
        }
        body = json.dumps({**review, "request": None, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


@contextmanager
def injecting(admin: Api, namespace: str) -> Iterator[None]:
    """Add a container to the pods of a namespace that are created meanwhile."""
    host, listening = reached_as()
    made = issue((host,), SystemClock().now(), 1)
    server = ThreadingHTTPServer((listening, 0), _Handler)
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        for name, text in (("cert", made.cert_pem), ("key", made.key_pem)):
            (Path(folder) / name).write_text(text, "ascii")
        trust.load_cert_chain(Path(folder) / "cert", Path(folder) / "key")
    server.socket = trust.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"https://{host}:{server.server_port}/"
        admin.create(_configuration(url, made.ca_pem, namespace))
        yield
    finally:
        admin.delete(MUTATING_WEBHOOKS, "", _NAME)
        server.shutdown()
        thread.join()
        server.server_close()


def _configuration(url: str, ca_pem: str, namespace: str) -> Json:
    trusted = base64.b64encode(ca_pem.encode()).decode()
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    hook = {
        "name": "injector.tests.plumbline.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": url, "caBundle": trusted},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [{**pods, "operations": ["CREATE"]}],
    }
    return item_of(MUTATING_WEBHOOKS, _NAME, webhooks=[hook])
