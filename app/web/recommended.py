"""`/metrics/recommendations`: what is recommended, for those who draw it beside usage."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fastapi import FastAPI, Response

from app.model.vpa import Vpa
from app.telemetry.exposition import CONTENT_TYPE
from app.telemetry.recommendations import exposition


def add_recommended(app: FastAPI, vpas: Callable[[], Iterable[Vpa]]) -> None:
    """Let an application show the recommendations of these VPAs as numbers."""

    @app.get("/metrics/recommendations")
    def recommended() -> Response:
        """Recommendations for Prometheus."""
        return Response(exposition(vpas()), media_type=CONTENT_TYPE)
