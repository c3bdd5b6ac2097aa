"""The port that kubelets and Prometheus ask: whether a process works, and its metrics.

Strategy: probes are answered by the event loop itself, because one that waits for a thread behind
other requests would have the process restarted.
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, Response

from app.runtime.answers import SharedPage
from app.runtime.exposition import CONTENT_TYPE

Check = Callable[[], str]  # empty: fine, else what is wrong


def probes(
    live: Check, ready: Check, metrics: Callable[[], bytes], described: FastAPI | None = None
) -> FastAPI:
    """Return the application that answers probes and scrapes, and describes another one."""
    app = FastAPI(
        title="Plumbline health and metrics",
        openapi_url="/openapi.json" if described else None,
        redoc_url=None,
    )
    if described is not None:
        app.title, app.openapi = described.title, described.openapi  # type: ignore[method-assign]  # as FastAPI's guide has it

    page = SharedPage(metrics)

    def answer(problem: str) -> Response:
        return Response(problem or "OK", 500 if problem else 200, media_type="text/plain")

    @app.get("/livez")
    async def livez() -> Response:
        """Whether the process does its work."""
        return answer(live())

    @app.get("/readyz")
    async def readyz() -> Response:
        """Whether the process knows the cluster, and can answer."""
        return answer(ready())

    @app.get("/health-check")
    async def health_check() -> Response:
        """The path that the upstream autoscaler's probes ask."""
        return answer(live())

    @app.get("/metrics")
    async def show_metrics() -> Response:
        """Numbers for Prometheus."""
        return Response(await page.get(), media_type=CONTENT_TYPE)

    return app
