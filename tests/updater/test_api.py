"""What is answered about decisions and deeds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.updater.api import Deed, add_decisions
from app.updater.core.decisions import Action, Decision
from app.updater.state import Deed as Done
from tests.updater.core.scenes import NOW, Scene, container, running, several

Json = dict[str, Any]


class Archive:
    """Decisions about four pods, and what was done to one of them and to one that is gone."""

    def __init__(self) -> None:
        scene = Scene(several(running(container("app", "100m/100Mi")), 4))
        self._decisions = scene.plan().decisions
        self.at: datetime | None = NOW

    def told_at(self) -> datetime | None:
        """Return the time of the round."""
        return self.at

    def decisions(self, namespace: str, /) -> Iterable[Decision]:
        """Return the decisions."""
        return [found for found in self._decisions if namespace in ("", found.namespace)]

    def deeds(self) -> Mapping[str, Deed]:
        """Return the deeds."""
        failed = Done("default", "web-0", "uid-web-0", "web", Action.EVICT, NOW, "no answer")
        gone = Done("default", "web-9", "uid-web-9", "web", Action.EVICT, NOW - timedelta(hours=1))
        return {deed.uid: deed for deed in (failed, gone)}


def answer(query: str = "", archive: Archive | None = None) -> httpx.Response:
    """Ask a question."""
    app = FastAPI()
    add_decisions(app, archive or Archive())

    async def exchange() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://updater") as client:
            return await client.get(f"/v1/decisions{query}")

    return asyncio.run(exchange())


def asked(query: str = "", archive: Archive | None = None) -> Json:
    """Return the answer to a question."""
    found: Json = answer(query, archive).raise_for_status().json()
    return found


def test_all_of_a_pod_is_told() -> None:
    """The decision with its numbers, and the last deed with its error."""
    found = asked()
    assert found["at"] == "2026-01-05T10:00:00Z"
    assert [item["pod"] for item in found["decisions"]] == ["web-0", "web-1", "web-2", "web-3"]
    first = found["decisions"][0]
    assert first["containers"]["app"]["cpu"]["target"] == "200m"
    assert first["lastAction"] == {
        "action": "Evict",
        "at": "2026-01-05T10:00:00Z",
        "error": "no answer",
    }
    assert [item["pod"] for item in found["gone"]] == ["web-9"]
    assert found["gone"][0]["lastAction"] == {"action": "Evict", "at": "2026-01-05T09:00:00Z"}


@pytest.mark.parametrize(
    ("query", "pods", "gone", "left_out"),
    [
        ("?pod=web-1", ["web-1"], [], 0),
        ("?pod=web-9", [], ["web-9"], 0),
        ("?namespace=other", [], [], 0),
        ("?namespace=default&action=Evict", ["web-0", "web-1"], ["web-9"], 0),
        ("?reason=BudgetExhausted", ["web-2", "web-3"], [], 0),
        ("?vpa=other", [], [], 0),
        ("?limit=3", ["web-0", "web-1", "web-2"], ["web-9"], 1),
        ("?limit=0", [], [], 4),
    ],
)
def test_filters(query: str, pods: list[str], gone: list[str], left_out: int) -> None:
    """Only what fits is told, and how much did not find room."""
    found = asked(query)
    assert [item["pod"] for item in found["decisions"]] == pods
    assert [item["pod"] for item in found["gone"]] == gone
    assert found["leftOut"] == left_out


def test_before_the_first_round() -> None:
    """There is no time then."""
    archive = Archive()
    archive.at = None
    assert asked(archive=archive)["at"] is None


def test_wrong_questions() -> None:
    """A limit is a number that is not below zero."""
    assert answer("?limit=-1").status_code == 422
