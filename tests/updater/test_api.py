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
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from app.updater.api import add_decisions
from app.updater.core.decisions import Action, Reason
from app.updater.core.outcomes import Outcome
from app.updater.reporter import MOST_GONE, DecisionLog
from tests.cases import cases
from tests.reached_limits import ReachedLimits
from tests.runtime.authorities import Authorities
from tests.runtime.serving import WAIT_SECONDS
from tests.updater.core.scenes import NOW, Scene, container, recommended, running, several


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
    why = {
        "action": "Evict",
        "cause": "OutsideBounds",
        "message": "cpu 100m is below its lower bound 200m: 100m -> 200m; memory 100Mi -> 200Mi",
        "requests": {
            "app": {
                "cpu": {"from": "100m", "to": "200m"},
                "memory": {"from": "100Mi", "to": "200Mi"},
            }
        },
    }
    assert first["lastAction"] == why | {
        "at": "2026-01-05T10:00:00Z",
        "reason": "EvictionError",
        "error": "no answer",
    }
    assert [item["pod"] for item in found["gone"]] == ["web-9"]
    assert found["gone"][0]["lastAction"] == why | {
        "at": "2026-01-05T09:00:00Z",
        "reason": "Evicted",
    }


@pytest.mark.parametrize(
    ("query", "pods", "gone", "left_out"),
    [
        ("?pod=web-1", ["web-1"], [], 0),
        ("?pod=web-9", [], ["web-9"], 0),
        ("?namespace=other", [], [], 0),
        ("?namespace=default&action=Evict", ["web-0", "web-1"], ["web-9"], 0),
        ("?reason=BudgetExhausted", ["web-2", "web-3"], [], 0),
        ("?reason=Evicted", [], ["web-9"], 0),
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


def test_what_a_resize_changed_is_kept() -> None:
    """Of a pod that lacked a request only the new one is told; nothing that it did not write."""
    pods = several(running(container("app", "100m/200Mi"), container("b", "-/100Mi")), 3)
    scene = Scene(pods, [recommended("200m/200Mi = ="), recommended("50m/100Mi = =", "b")])
    made = replace(scene, mode="InPlaceOrRecreate").plan()
    (queue,) = made.queues
    log = DecisionLog()
    log.end_round(made, {})
    log.record(Outcome(queue, queue.steps[0], NOW))
    last = asked("?pod=web-0", log)["decisions"][0]["lastAction"]
    assert (last["action"], last["reason"], last["cause"]) == ("Resize", "Updated", "NoRequest")
    changed = {"app": {"cpu": {"from": "100m", "to": "200m"}}, "b": {"cpu": {"to": "50m"}}}
    assert last["requests"] == changed


def test_only_so_much_of_the_past_is_kept() -> None:
    """Of very many pods that are gone the latest ones; of a long refusal its beginning."""
    made = Scene(several(running(container("app", "100m/100Mi")), 4)).plan()
    (queue,) = made.queues
    log, step = DecisionLog(), queue.steps[0]
    for number in range(MOST_GONE + 3):
        decision = replace(step.decision, uid=f"gone-{number}")
        log.record(Outcome(queue, replace(step, decision=decision), NOW, Unavailable("x" * 9000)))
    log.end_round(made, {})
    kept = log.last_actions()
    assert len(kept) == MOST_GONE
    assert "gone-2" not in kept
    assert len(kept["gone-3"].error) == 1024


@cases(
    "query field detail",
    {
        "below zero": ("limit=-1", "limit", 'limit takes a number of at least 0, not "-1"'),
        "too many": (
            "limit=999999",
            "limit",
            'limit takes a number of at most 100000, not "999999"',
        ),
        "no number": ("limit=x", "limit", 'limit takes a whole number, not "x"'),
        "unknown": (
            "pods=web-0",
            "pods",
            'there is no parameter "pods", there are namespace, vpa, pod, reason, action, limit; '
            'did you mean "pod"?',
        ),
        "no reason": ("reason=Nonsense", "reason", f"reason is one of {', '.join(Reason)}, not"),
        "small letters": ("reason=evicted", "reason", 'did you mean "Evicted"?'),
        "no action": (
            "action=Delete",
            "action",
            f'action is one of {", ".join(Action)}, not "Delete"',
        ),
        "no name": ("pod=Web%200", "pod", "pod takes a name of Kubernetes: small letters"),
    },
)
def test_wrong_questions(query: str, field: str, detail: str) -> None:
    """A parameter or a value that does not exist is refused, with what is allowed."""
    found = answer(f"?{query}")
    assert found.status_code == 422
    assert found.json()["field"] == f"query.{field}"
    assert detail in found.json()["detail"]


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
    """Who is told of decisions may see VPAs and list pods; a refusal names the field."""
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
    found = [answer(query, guard=guard, token=token) for query in queries]
    assert tuple(one.status_code for one in found) == statuses
    fields = {one.json()["field"] for one in found[1:] if one.status_code == 403}
    assert fields <= {"query.namespace"}


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
