"""Probes say how the process is, and a scrape gets its metrics."""

from __future__ import annotations

import httpx
import pytest

from app.runtime.probes import probes
from tests.cases import cases
from tests.runtime.serving import asked


def get(path: str, *, live: str = "", ready: str = "", method: str = "GET") -> httpx.Response:
    """Ask a process that has these problems."""
    return asked(probes(lambda: live, lambda: ready, lambda: b"vpa_up 1\n"), path, method)


@cases(
    "path live ready status text",
    {
        "alive, if not ready": ("/livez", "", "no caches", 200, "OK"),
        "not alive": ("/livez", "hangs", "", 500, "hangs"),
        "ready": ("/readyz", "", "", 200, "OK"),
        "not ready": ("/readyz", "", "no caches", 500, "no caches"),
        "upstream's path": ("/health-check", "", "no caches", 200, "OK"),
        "upstream's path, not alive": ("/health-check", "hangs", "", 500, "hangs"),
    },
)
def test_probes(path: str, live: str, ready: str, status: int, text: str) -> None:
    """A probe answers with a status for machines and a sentence for people."""
    answer = get(path, live=live, ready=ready)
    assert (answer.status_code, answer.text) == (status, text)


def test_metrics() -> None:
    """Numbers come in the format that Prometheus reads."""
    answer = get("/metrics")
    assert answer.text == "vpa_up 1\n"
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize("path", ["/", "/mutate", "/debug/pprof/", "/openapi.json", "/docs"])
def test_nothing_else(path: str) -> None:
    """Neither reviews nor profiles nor descriptions of itself are served here."""
    assert get(path).status_code == 404
    assert get("/metrics", method="POST").status_code == 405
