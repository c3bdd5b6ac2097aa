"""The Prometheus that tells of the past; flags say where it is, and who asks it."""

from __future__ import annotations

from app.recommender.flags import RecommenderSettings
from app.recommender.metrics import RecommenderMetrics
from app.recommender.prometheus import PrometheusConnection, PrometheusServer


def past_server(settings: RecommenderSettings, metrics: RecommenderMetrics) -> PrometheusServer:
    """Return the server; its requests are counted."""
    told, whose = settings.prometheus, settings.prometheus_access
    access = PrometheusConnection(
        told.address,
        told.query_timeout.span.total_seconds(),
        whose.username,
        whose.password,
        whose.token,
        whose.token_file,
        told.ca_file,
        told.insecure,
    )
    return PrometheusServer(access, metrics.prometheus_request)
