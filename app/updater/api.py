"""Answer over HTTP what was decided about pods, and what was done to them last.

Strategy: decisions tell of VPAs and of pods, so who asks may list both, in the namespace or in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Final

import orjson
from fastapi import Depends, FastAPI, Query, Request, Response

from app.model.times import rfc3339
from app.ports import PODS, Json, LimitReached
from app.runtime.access import Caller, Guard
from app.runtime.answers import AnswerThreads, known_parameters, one_of_these, tell_problems
from app.updater.core.decisions import Action, Reason, decision_json
from app.updater.reporter import DecisionLog, LastAction

_THREADS: Final = 2
_FIELD: Final = "query.namespace"
_USUAL: Final = 500
_MOST: Final = 100_000
_NAMESPACE: Final = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"  # or none
_NAME: Final = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"


def add_decisions(app: FastAPI, log: DecisionLog, guard: Guard, reached: LimitReached) -> None:
    """Answer `/v1/decisions` in an application, to those whom the guard admits."""
    tell_problems(app)
    threads = AnswerThreads(_THREADS, reached)

    def page(caller: Caller, namespace: str, wanted: Mapping[str, str], limit: int) -> bytes:
        guard.admit(caller, "get" if namespace else "list", namespace, field=_FIELD)
        guard.admit(caller, "list", namespace, resource=PODS, field=_FIELD)
        return orjson.dumps(_page(log, namespace, wanted, limit))

    @app.get("/v1/decisions", dependencies=[Depends(known_parameters)])
    async def decisions(
        request: Request,
        *,
        namespace: Annotated[str, Query(pattern=_NAMESPACE)] = "",
        vpa: Annotated[str, Query(pattern=_NAME)] = "",
        pod: Annotated[str, Query(pattern=_NAME)] = "",
        reason: str = "",
        action: str = "",
        limit: int = Query(_USUAL, ge=0, le=_MOST),
    ) -> Response:
        """What the updater decided about pods, and what it did."""
        one_of_these("reason", reason, Reason)
        one_of_these("action", action, Action)
        told = {"vpa": vpa, "pod": pod, "reason": reason, "action": action}
        wanted = {key: text for key, text in told.items() if text}
        ask = partial(page, Caller.of(request), namespace, wanted, limit)
        return Response(await threads.answer(ask), media_type="application/json")


def _page(log: DecisionLog, namespace: str, wanted: Mapping[str, str], limit: int) -> Json:
    """Return what is answered: decisions that fit, and last actions for pods that are gone."""
    actions = log.last_actions()
    round_at = log.round_at
    shown: list[Json] = []
    seen: set[str] = set()
    left_out = 0
    for decision in log.decisions(namespace):
        seen.add(decision.uid)
        if not all(getattr(decision, key) == text for key, text in wanted.items()):
            continue
        if len(shown) >= limit:
            left_out += 1
            continue
        last = actions.get(decision.uid)
        shown.append(decision_json(decision) | (_last_action(last) if last else {}))
    gone = [
        {"namespace": last.namespace, "pod": last.pod, "uid": uid, "vpa": last.vpa}
        | _last_action(last)
        for uid, last in sorted(actions.items(), key=lambda item: item[1].at)
        if uid not in seen and _fits(last, namespace, wanted)
    ]
    return {
        "at": rfc3339(round_at) if round_at is not None else None,
        "decisions": shown,
        "leftOut": left_out,
        "gone": gone[-limit:] if limit else [],
    }


def _fits(last: LastAction, namespace: str, wanted: Mapping[str, str]) -> bool:
    has = {
        "vpa": last.vpa,
        "pod": last.pod,
        "action": str(last.action),
        "reason": str(last.reason),
    }
    return namespace in ("", last.namespace) and all(
        has.get(key) == text for key, text in wanted.items()
    )


def _last_action(last: LastAction) -> Json:
    requests: Json = {}
    for one in last.requests:
        old = {"from": str(one.old)} if one.old is not None else {}
        requests.setdefault(one.container, {})[one.resource] = old | {"to": str(one.new)}
    found = {
        "action": str(last.action),
        "at": rfc3339(last.at),
        "reason": str(last.reason),
        "cause": str(last.cause) if last.cause is not None else None,
        "message": last.message,
        "requests": requests,
        "error": last.error,
    }
    return {"lastAction": {key: value for key, value in found.items() if value}}
