"""Answers over HTTP what was decided about pods, and what was done to them last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol

import orjson
from fastapi import FastAPI, Query, Response

from app.model.times import rfc3339
from app.updater.core.decisions import Decision, decision_json

Json = dict[str, Any]

_USUAL: Final = 500
_MOST: Final = 100_000


class Deed(Protocol):
    """What was done to a pod last, or tried."""

    @property
    def namespace(self) -> str:
        """Where the pod is."""
        ...

    @property
    def pod(self) -> str:
        """Its name."""
        ...

    @property
    def vpa(self) -> str:
        """The VPA for which it was done."""
        ...

    @property
    def action(self) -> str:
        """What."""
        ...

    @property
    def at(self) -> datetime:
        """When."""
        ...

    @property
    def error(self) -> str:
        """Why not, empty if it was done."""
        ...


class Archive(Protocol):
    """Where decisions and deeds are looked up."""

    def told_at(self) -> datetime | None:
        """Return the time of the latest round, None before the first one."""
        ...

    def decisions(self, namespace: str, /) -> Iterable[Decision]:
        """Return the decisions of the latest round, of one namespace or of all."""
        ...

    def deeds(self) -> Mapping[str, Deed]:
        """Return the last deed for each pod, by uid."""
        ...


def add_decisions(app: FastAPI, archive: Archive) -> None:
    """Answer `/v1/decisions` in an application."""

    @app.get("/v1/decisions")
    def decisions(
        namespace: str = "",
        vpa: str = "",
        pod: str = "",
        reason: str = "",
        action: str = "",
        limit: int = Query(_USUAL, ge=0, le=_MOST),
    ) -> Response:
        """What the updater decided about pods, and what it did."""
        wanted = {"vpa": vpa, "pod": pod, "reason": reason, "action": action}
        found = page(archive, namespace, {key: text for key, text in wanted.items() if text}, limit)
        return Response(orjson.dumps(found), media_type="application/json")


def page(archive: Archive, namespace: str, wanted: Mapping[str, str], limit: int) -> Json:
    """Return what is answered: decisions that fit, and deeds for pods that are gone."""
    deeds = archive.deeds()
    shown: list[Json] = []
    seen: set[str] = set()
    left_out = 0
    for decision in archive.decisions(namespace):
        seen.add(decision.uid)
        if not all(getattr(decision, key) == text for key, text in wanted.items()):
            continue
        if len(shown) >= limit:
            left_out += 1
            continue
        deed = deeds.get(decision.uid)
        shown.append(decision_json(decision) | ({"lastAction": deed_json(deed)} if deed else {}))
    told_at = archive.told_at()
    return {
        "at": rfc3339(told_at) if told_at is not None else None,
        "decisions": shown,
        "leftOut": left_out,
        "gone": [
            {"namespace": deed.namespace, "pod": deed.pod, "uid": uid, "vpa": deed.vpa}
            | {"lastAction": deed_json(deed)}
            for uid, deed in sorted(deeds.items(), key=lambda item: item[1].at)
            if uid not in seen and _fits(deed, namespace, wanted)
        ][-limit:]
        if limit
        else [],
    }


def _fits(deed: Deed, namespace: str, wanted: Mapping[str, str]) -> bool:
    has = {"vpa": deed.vpa, "pod": deed.pod, "action": str(deed.action)}
    return namespace in ("", deed.namespace) and all(
        has.get(key) == text for key, text in wanted.items()
    )


def deed_json(deed: Deed) -> Json:
    """Return a deed as JSON."""
    found = {"action": str(deed.action), "at": rfc3339(deed.at)}
    return found | {"error": deed.error} if deed.error else found
