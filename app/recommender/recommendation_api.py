"""The recommender's answers about recommendations: from what, and who may ask.

Strategy: no token is needed where only this machine can reach the port. Reading for answers and
asking about tokens have a connection of their own, so that no question, however often it is put,
takes from what rounds may ask of the API server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from fastapi import FastAPI
from starlette.types import ASGIApp

from app.kube.access_review import AccessReviews
from app.model.errors import ClusterError
from app.model.gates import FeatureGates
from app.model.snapshot import Snapshot
from app.ports import LEASES, Clock, Cluster, Owners, Ref
from app.recommender.api import Preview, Recommendations, Sources, recommendations_app
from app.recommender.core.rules import RecommenderRules
from app.recommender.flags import RecommenderSettings
from app.recommender.report import Showing
from app.runtime.access import Guard

ASKED_SECONDS: Final = 5.0  # after which a call for an answer is given up


Previewer = Callable[[Cluster, Owners, Clock, FeatureGates], Preview]


@dataclass(frozen=True, slots=True)
class Asked:
    """What answers are made from."""

    cluster: Cluster
    owners: Owners
    clock: Clock
    snapshot: Callable[[], Snapshot]
    unready: Callable[[], str]
    is_leading: Callable[[], bool]
    showing: Showing
    rules: RecommenderRules
    previewer: Previewer


def recommendation_api(settings: RecommenderSettings, asked: Asked, others: ASGIApp) -> FastAPI:
    """Return the application behind the recommender's port; `others` answers what it does not."""
    sources = Sources(
        snapshot=asked.snapshot,
        derivations=lambda: asked.showing.derivations if asked.is_leading() else None,
        leader=lambda: _leader(settings, asked.cluster),
        problem=asked.unready,
        preview=asked.previewer(asked.cluster, asked.owners, asked.clock, settings.loop.gates),
        rules=asked.rules,
        namespace=settings.scope.namespace,
    )
    host, _ = settings.loop.address
    access = None if is_loopback(host) else AccessReviews(asked.cluster, asked.clock)
    return recommendations_app(Recommendations(sources, Guard(access)), others)


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _leader(settings: RecommenderSettings, cluster: Cluster) -> str:
    """Return who holds the Lease, empty if it is free or cannot be read."""
    told = settings.election
    try:
        lease = cluster.get(Ref(LEASES, told.resource_namespace, told.resource_name))
    except ClusterError:
        return ""
    spec = lease.get("spec")
    return str(spec.get("holderIdentity") or "") if isinstance(spec, dict) else ""
