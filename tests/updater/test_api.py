"""What is answered about decisions and last actions."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from typing import cast

import httpx
import pytest
from fastapi import FastAPI

from app.kube.access_review import AccessReviews
from app.model.errors import Unavailable
from app.model.fields import Json
from app.ports import PODS, Cluster
from app.runtime.access import Guard
from app.runtime.probes import probes
from app.sandbox.clock import SteppedClock
from app.sandbox.sandbox import Sandbox
from app.updater.api import add_decisions
from app.updater.core.outcomes import Outcome
from app.updater.report import DecisionLog
from tests.cases import cases
from tests.reached_limits import ReachedLimits
from tests.runtime.authorities import Authorities
from tests.runtime.serving import WAIT_SECONDS
from tests.updater.core.scenes import NOW, Scene, container, running, several


def decision_log() -> DecisionLog:
    """Return decisions about four pods, and an action for one of them and for one that is gone."""
    made = Scene(several(running(container("app", "100m/100Mi")), 4)).plan()
    log = DecisionLog()
    log.end_round(made, {})
    (queue,) = made.queues
    step = queue.steps[0]
    log.record(Outcome(queue, step, NOW, Unavailable("no answer")))
    gone = replace(step, decision=replace(step.decision, uid="uid-web-9", pod="web-9"))
    log.record(Outcome(queue, gone, NOW - timedelta(hours=1)))
    return log


def answer(
    query: str = "", log: DecisionLog | None = None, guard: Guard | None = None, token: str = ""
) -> httpx.Response:
    """Ask a question."""
    app = FastAPI()
    add_decisions(app, log or decision_log(), guard or Guard(), ReachedLimits())

    async def exchange() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://updater") as client:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            return await client.get(f"/v1/decisions{query}", headers=headers)

    return asyncio.run(exchange())


def asked(query: str = "", log: DecisionLog | None = None) -> Json:
    """Return the answer to a question."""
    found: Json = answer(query, log).raise_for_status().json()
    return found


def test_all_of_a_pod_is_told() -> None:
    """The decision with its numbers, and the last action with its error."""
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
    assert asked(log=DecisionLog())["at"] is None


def test_old_actions_are_dropped() -> None:
    """The last action for each pod is kept, for pods that are gone an hour."""
    log = decision_log()
    made = Scene(several(running(container("app", "100m/100Mi")), 4)).plan()
    for minutes, expected in ((-1, {"uid-web-0", "uid-web-9"}), (0, {"uid-web-0"})):
        log.end_round(replace(made, now=NOW + timedelta(minutes=minutes)), {})
        assert set(log.last_actions()) == expected


def test_wrong_questions() -> None:
    """A limit is a number that is not below zero."""
    assert answer("?limit=-1").status_code == 422


@cases(
    "token statuses",
    {
        "none": ("", (401, 401, 401)),
        "unknown": ("wrong", (401, 401, 401)),
        "of a namespace": ("jane-token", (403, 200, 403)),
        "of all": ("admin-token", (200, 200, 200)),
        "of VPAs alone": ("podless-token", (403, 403, 403)),
        "of pods alone": ("blind-token", (403, 403, 403)),
    },
)
def test_who_may_see_what(token: str, statuses: tuple[int, ...]) -> None:
    """Who is told of decisions may see the VPAs and list the pods that they are about."""
    clock = SteppedClock()
    authorities = Authorities(Sandbox(clock).cluster)
    for user in ("jane", "admin", "podless", "blind"):
        authorities.know(f"{user}-token", user)
    grant = authorities.grant
    for user, namespace in (("jane", "default"), ("admin", ""), ("podless", "")):
        grant(user, "list", namespace)
        grant(user, "get", namespace)
    for user, namespace in (("jane", "default"), ("admin", ""), ("blind", "")):
        grant(user, "list", namespace, resource=PODS)
    guard = Guard(AccessReviews(cast("Cluster", authorities), clock, ReachedLimits()))

    queries = ("", "?namespace=default", "?namespace=other")
    found = tuple(answer(query, guard=guard, token=token).status_code for query in queries)
    assert found == statuses


def test_probes_do_not_wait_for_the_guard() -> None:
    """However many ask with tokens that the API server is slow about, a probe is answered."""
    silence = threading.Event()

    class Slow:
        def create(self, *_: object, **__: object) -> Json:
            silence.wait(WAIT_SECONDS)
            raise Unavailable("no answer")

    app = probes(lambda: "", lambda: "", lambda: b"")
    guard = Guard(AccessReviews(cast("Cluster", Slow()), SteppedClock(), ReachedLimits()))
    add_decisions(app, decision_log(), guard, ReachedLimits())

    async def exchange() -> tuple[int, set[int]]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://updater") as client:
            paths = [("/v1/decisions", f"Bearer {number}") for number in range(120)]
            asked = [
                asyncio.ensure_future(client.get(path, headers={"authorization": token}))
                for path, token in paths
            ]
            for _ in range(1_000):  # until all of them wait
                await asyncio.sleep(0)
            try:
                probe = await asyncio.wait_for(client.get("/livez"), WAIT_SECONDS / 2)
            finally:
                silence.set()
            return probe.status_code, {one.status_code for one in await asyncio.gather(*asked)}

    assert asyncio.run(exchange()) == (200, {503})
