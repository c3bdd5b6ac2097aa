"""The page of some objects, asked over HTTP as a browser asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import httpx

from app.diagnosis.gathering import GatheredObjects
from app.flags.command_line import parse
from app.kube.files import Document, RecordedCluster
from app.model.fields import Json
from app.page.access import OpenAccess, PageAccess
from app.page.app import page_app
from app.page.flags import PageSettings
from app.page.pasts import PastSettings
from app.page.pictures import Pictures, decision_rules
from app.page.site import Site
from app.page.sources import FileSource
from app.updater.watches import HEALTHY, WebhookHealth
from tests import make
from tests.reached_limits import ReachedLimits
from tests.stepped_clock import SteppedClock
from tests.updater.core.scenes import container, recommended, running, several


def shop(*others: Json, count: int = 2, bounds: str = "= =", **vpa: object) -> list[Json]:
    """Return StatefulSet web, whose pods should be twice as big, with others."""
    pods = several(running(container("app", "100m/100Mi")), count)
    for pod in pods:
        pod["status"]["startTime"] = make.time(timedelta(hours=3))
    template = [make.container_json("app", cpu="50m", cpu_limit="100m")]
    told = make.vpa_json(recommendations=[recommended(f"200m/200Mi {bounds}")], spec=vpa)
    return [*pods, make.workload_json(replicas=count, containers=template), told, *others]


def file_source(objects: Sequence[Json], webhook: WebhookHealth = HEALTHY) -> FileSource:
    """Return objects as files would tell of them."""
    recorded = RecordedCluster(Document(str(number), item) for number, item in enumerate(objects))
    seen = GatheredObjects(recorded.snapshot, recorded, webhook, objects, recorded.problems)
    return FileSource(seen, SteppedClock(make.NOW))


def pictures(
    *objects: Json, webhook: WebhookHealth = HEALTHY, flags: Sequence[str] = ()
) -> Pictures:
    """Return the picture of some objects."""
    settings = parse(PageSettings, flags, {})
    found = Pictures(file_source(objects, webhook), decision_rules(settings), 10.0, None)
    found.tick(make.NOW)
    return found


def answer(
    found: Pictures,
    path: str = "/",
    access: PageAccess | None = None,
    past: PastSettings | None = None,
    **headers: str,
) -> httpx.Response:
    """Ask for a page."""

    async def ask() -> httpx.Response:
        app = page_app(Site(found, past), access or OpenAccess(), ReachedLimits())
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(ask())
