"""A cluster in memory, a recommender, and its answers over HTTP, for tests that ask."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import cast

import httpx
from fastapi import FastAPI

from app.diagnosis.pod_preview import PodPreviewer
from app.kube.access_review import AccessReviews
from app.model.fields import Json
from app.model.gates import parse_gates
from app.model.snapshot import Snapshot
from app.model.vpa import Vpa
from app.ports import Cluster
from app.recommender.api import (
    Derivations,
    Recommendations,
    add_recommendation_metrics,
    recommendations_app,
)
from app.recommender.core.rules import RecommenderRules
from app.runtime.access import Guard
from app.runtime.probes import probes
from tests.reached_limits import ReachedLimits
from tests.recommender.scenes import Shown
from tests.runtime.authorities import Authorities
from tests.sandbox.worlds import snapshot_of


class Desk(Shown):
    """One Deployment with its VPA, a recommender, and the application that answers."""

    def __init__(self, *, is_guarded: bool = False, namespace: str = "") -> None:
        self.is_leading = True
        self.leader = "recommender-1"
        self.problem = ""
        self.namespace = namespace
        super().__init__()
        self.authorities = Authorities(self.cluster)
        reviews = AccessReviews(
            cast("Cluster", self.authorities), self.sandbox.clock, ReachedLimits()
        )
        self.app = self.application(Guard(reviews if is_guarded else None))

    def _derivations(self) -> Derivations | None:
        return self.showing.derivations if self.is_leading else None

    def snapshot(self) -> Snapshot:
        """What the recommender sees of the cluster."""
        return snapshot_of(self.sandbox)

    def application(self, guard: Guard) -> FastAPI:
        """Return what answers whom the guard admits."""
        cluster = cast("Cluster", self.authorities)
        clock = self.sandbox.clock
        gates = parse_gates(["CPUStartupBoost=true"])
        found = Recommendations(
            guard=guard,
            snapshot=self.snapshot,
            derivations=self._derivations,
            leader=lambda: self.leader,
            problem=lambda: self.problem,
            preview=PodPreviewer(cluster, self.around.owners, clock, gates),
            rules=RecommenderRules(),
            namespace=self.namespace,
        )
        others = probes(lambda: "", lambda: "", lambda: b"vpa_up 1\n")
        add_recommendation_metrics(others, self._vpas, guard, ReachedLimits())
        return recommendations_app(found, others, ReachedLimits())

    def _vpas(self) -> Iterator[Vpa]:
        for view in self.snapshot().namespaces.values():
            yield from view.vpas.values()

    def ask(self, path: str, *, method: str = "GET", **more: str) -> httpx.Response:
        """Ask a question; underscores in headers stand for dashes."""
        (found,) = self.ask_all(path, method=method, **more)
        return found

    def ask_all(
        self,
        *paths: str,
        method: str = "GET",
        url: str = "http://vpa",
        client: str = "127.0.0.1",
        **headers: str,
    ) -> list[httpx.Response]:
        """Ask several questions at once, from this machine or from another one."""
        named = {
            name.replace("_", "-").encode(): value.encode("latin-1")
            for name, value in headers.items()
        }

        async def exchange() -> list[httpx.Response]:
            transport = httpx.ASGITransport(self.app, client=(client, 1))
            async with httpx.AsyncClient(transport=transport, base_url=url) as caller:
                asked = (caller.request(method, path, headers=named) for path in paths)
                return await asyncio.gather(*asked)

        return asyncio.run(exchange())

    def answer(self, path: str) -> Json:
        """Return a good answer."""
        found: Json = self.ask(path).raise_for_status().json()
        return found
