"""The webhook's FastAPI application.

Strategy: FastAPI is the frame; the three review paths are ASGI endpoints inside it, so that a
review passes no validation layer that it does not need.
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, Response
from starlette.routing import Route

from app.core.admission.validate import Phase
from app.web.endpoints import ReviewEndpoint
from app.web.reviews import Reviewer


def webhook(reviewer: Reviewer) -> FastAPI:
    """Return the application behind the HTTPS port."""
    app = FastAPI(title="Plumbline admission webhook", docs_url=None, redoc_url=None)
    mutate = ReviewEndpoint(reviewer, Phase.MUTATING)
    app.router.routes[:] = [
        Route("/mutate", mutate),
        Route("/validate", ReviewEndpoint(reviewer, Phase.VALIDATING)),
        # Upstream's configuration names no path.
        Route("/", mutate),
        *app.router.routes,
    ]
    return app


Check = Callable[[], str]  # empty: fine, else what is wrong


def probes(live: Check, ready: Check, metrics: Callable[[], bytes]) -> FastAPI:
    """Return the application behind the second port: health and metrics."""
    app = FastAPI(title="Plumbline health and metrics", docs_url=None, redoc_url=None)

    def answer(problem: str) -> Response:
        return Response(problem or "OK", 500 if problem else 200, media_type="text/plain")

    @app.get("/livez")
    def livez() -> Response:
        """Whether the process does its work."""
        return answer(live())

    @app.get("/readyz")
    def readyz() -> Response:
        """Whether reviews are answered with knowledge of the cluster."""
        return answer(ready())

    @app.get("/health-check")
    def health_check() -> Response:
        """The path that the upstream autoscaler's probes ask."""
        return answer(live())

    @app.get("/metrics")
    def show_metrics() -> Response:
        """Numbers for Prometheus."""
        return Response(metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return app
