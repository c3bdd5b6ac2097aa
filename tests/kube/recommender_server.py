"""A small recommender on loopback: pages of answers, a token, and refusals, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import orjson

from app.model.fields import Json
from app.recommender.api_shapes import Page

LARGEST_PAGE = 2


@dataclass
class RecommenderServer:
    """What it knows, and how it was asked."""

    items: Sequence[Json]
    token: str = ""
    refusal: tuple[int, bytes] | None = None
    url: str = ""
    asked: list[str] = field(default_factory=list)

    def answer(self, target: str, authorization: str) -> tuple[int, bytes]:
        """Return status and body."""
        self.asked.append(target)
        if self.refusal is not None:
            return self.refusal
        if self.token and authorization != f"Bearer {self.token}":
            return 401, orjson.dumps({"detail": "the bearer token is not valid"})
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        namespace = path.split("/")[3] if "/namespaces/" in path else ""
        (after,) = query.get("after", [""])
        wanted = [
            item
            for item in self.items
            if namespace in ("", item["namespace"])
            and f"{item['namespace']}/{item['name']}" > after
        ]
        shown = wanted[:LARGEST_PAGE]
        last = f"{shown[-1]['namespace']}/{shown[-1]['name']}" if len(wanted) > len(shown) else ""
        # What is answered here has the form that the real one documents.
        page = Page.model_validate({"items": shown, "next": last})
        return 200, page.model_dump_json(by_alias=True).encode()


@contextmanager
def recommending(*items: Json, token: str = "") -> Iterator[RecommenderServer]:
    """Serve until the block ends."""
    found = RecommenderServer(items, token)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = found.answer(self.path, self.headers.get("authorization", ""))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer_json(name: str = "web", *, namespace: str = "default", cpu: str | None = "350m") -> Json:
    """Return what a recommender tells of a VPA; nothing is recommended without cpu."""
    container = {
        "container": "app",
        "target": {"cpu": cpu} if cpu else {},
        "lowerBound": {"cpu": "200m"} if cpu else {},
        "upperBound": {"cpu": "1"} if cpu else {},
        "uncappedTarget": {"cpu": cpu} if cpu else {},
        "origin": {"cpu": "computed"},
        "absence": "" if cpu else "nothing was learned of it yet",
        "evidence": {
            "samples": 720,
            "firstSample": "2026-01-04T22:00:00Z",
            "lastSample": "2026-01-05T10:00:00Z",
            "spanSeconds": 43200,
            "livingContainers": 2,
            "confidence": {"cpu": 0.5, "memory": 0.75},
        }
        if cpu
        else None,
        "cappedBy": {},
    }
    return {
        "namespace": namespace,
        "name": name,
        "updateMode": "Recreate",
        "recommender": "default",
        "target": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
        "generation": 1,
        "observedGeneration": 1,
        "conditions": [],
        "computedAt": "2026-01-05T09:59:00Z",
        "containers": [container],
    }
