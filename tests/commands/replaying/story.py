"""Stories told as events and played through a recommender: minutes in, statuses out.

Strategy: a story goes through the same text as a file of events would. It begins with one
Deployment `web`, its VPA `web` and its pod `web-0` with a container `app`, unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import orjson

from app.commands.replaying.changes import read_change
from app.commands.replaying.playback import Replay, ReplaySchedule
from app.commands.replaying.printing import json_lines
from app.commands.replaying.recorded_history import RecordedHistory, read_history
from app.commands.replaying.recorded_objects import RecordedObjects
from app.model.fields import Json
from app.recommender.configuration import RoundRules
from app.recommender.core.moments import nanoseconds
from app.recommender.core.rules import RecommenderRules
from app.recommender.upstream.variant import UPSTREAM
from app.recommender.variants import OURS
from tests import make

Bounds = tuple[str, str, str]  # lower, target, upper as "cpu memory"

START = datetime(2026, 1, 5, tzinfo=UTC)
DAY = 1440  # minutes
MINUTE_NS = 60 * 10**9
MI = 2**20
OWNER = "ReplicaSet/web-1"


def pod_json(
    name: str = "web-0",
    *containers: str,
    labels: Mapping[str, str] | None = None,
    memory: str | None = None,
    status: Mapping[str, Any] | None = None,
    owner: str | None = OWNER,
    metadata: Mapping[str, Any] | None = None,
) -> Json:
    """Return a running pod of the Deployment; the memory is that of its only container."""
    return make.pod_json(
        *(make.container_json(one) for one in containers),
        name=name,
        labels=make.LABELS | dict(labels or {}),
        memory=memory,
        owner=owner,
        metadata=metadata,
        status={"phase": "Running"} | dict(status or {}),
    )


def eviction_json(containers: str, usage: str, starved: str) -> Json:
    """Return the event of an eviction."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": "web-0.1",
            "namespace": "default",
            "annotations": {
                "offending_containers": containers,
                "offending_containers_usage": usage,
                "starved_resource": starved,
            },
        },
        "reason": "Evicted",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-0"},
    }


WORKLOADS = (
    make.workload_json("Deployment/web"),
    make.workload_json(OWNER, owner="Deployment/web"),
)
WEB = (*WORKLOADS, make.vpa_json("web", target="Deployment/web"), pod_json())


@dataclass(frozen=True, slots=True)
class Shown:
    """What a replay printed, by minute."""

    lines: list[Json]

    def at(self, minute: float, vpa: str = "web") -> Json:
        """Return the line about a VPA."""
        time = make.time(START + timedelta(minutes=minute))
        (found,) = (one for one in self.lines if one["time"] == time and one.get("name") == vpa)
        return found

    def bounds(self, minute: float, container: str = "app", vpa: str = "web") -> Bounds | None:
        """Return what is recommended for a container, None if nothing is."""
        for one in (self.at(minute, vpa)["recommendation"] or {}).get(
            "containerRecommendations", ()
        ):
            if one["containerName"] == container:
                lower, target, upper = (
                    " ".join(one.get(key, {}).get(name, "-") for name in ("cpu", "memory"))
                    for key in ("lowerBound", "target", "upperBound")
                )
                return lower, target, upper
        return None

    def target(self, minute: float, container: str = "app", vpa: str = "web") -> str:
        """Return the target of a container."""
        found = self.bounds(minute, container, vpa)
        return found[1] if found else ""

    def memory(self, minute: float) -> str:
        """Return the target memory."""
        return self.target(minute).partition(" ")[2]

    def conditions(self, minute: float, vpa: str = "web") -> dict[str, tuple[str, str, str]]:
        """Return status, reason and message by type."""
        return {
            one["type"]: (one["status"], one.get("reason", ""), one.get("message", ""))
            for one in self.at(minute, vpa)["conditions"]
        }

    def checkpoints(self, minute: float) -> dict[str, Json]:
        """Return the checkpoints by name."""
        time = make.time(START + timedelta(minutes=minute))
        found = (one["checkpoint"] for one in self.lines if one["time"] == time and len(one) == 2)
        return {one["metadata"]["name"]: one for one in found}


@dataclass(slots=True)
class Story:
    """Objects, and what happens to them."""

    objects: Sequence[Json] = WEB
    lines: list[bytes] = field(default_factory=list)

    def tell(self, minute: float, kind: str, **more: object) -> Story:
        """Add an event."""
        time = make.time(START + timedelta(minutes=minute))
        self.lines.append(orjson.dumps({"time": time, "type": kind} | more))
        return self

    def use(
        self,
        minute: float,
        cpu: str | None = None,
        memory: str | None = None,
        *,
        pod: str = "web-0",
        container: str = "app",
        **more: object,
    ) -> Story:
        """Tell of usage."""
        amounts = make.amounts(cpu, memory)
        names = {"namespace": "default", "pod": pod, "container": container}
        return self.tell(minute, "usage", **names, **amounts, **more)

    def kill(self, minute: float, memory: str | None = None, **more: object) -> Story:
        """Tell of an OOM kill."""
        names: Json = {"namespace": "default", "pod": "web-0", "container": "app"}
        return self.tell(minute, "oom", **(names | make.amounts(memory=memory) | more))

    def put(self, minute: float, *items: Json) -> Story:
        """Apply objects."""
        for item in items:
            self.tell(minute, "apply", object=item)
        return self

    def drop(self, minute: float, kind: str, name: str) -> Story:
        """Delete an object."""
        named = {"kind": kind, "namespace": "default", "name": name}
        return self.tell(minute, "delete", object=named)

    def restart(self, minute: float) -> Story:
        """Let the recommender begin anew."""
        return self.tell(minute, "restart")

    def history(self) -> RecordedHistory:
        """Return the events as they are read; all of them can be."""
        found = read_history(self.lines, "events")
        assert found.problems == []
        return found

    def play(
        self,
        *looks: float,
        upstream: bool = False,
        rules: RecommenderRules | None = None,
        start: float = 0,
        until: float | None = None,
        interval: float = 1,
        namespace: str = "",
        ignored: Sequence[str] = (),
        keeps_checkpoints: bool = True,
    ) -> Shown:
        """Play to the last look and return what is printed."""
        rules, variant = rules or RecommenderRules(), UPSTREAM if upstream else OURS
        schedule = ReplaySchedule(
            start=_at(start),
            interval=int(interval * MINUTE_NS),
            until=None if until is None else _at(until),
            looks=[_at(look) for look in looks],
        )
        round_rules = RoundRules(
            variant.adjust_rules(rules),
            variant,
            namespace=namespace,
            ignored_namespaces=frozenset(ignored),
            keeps_checkpoints=keeps_checkpoints,
            interval_seconds=interval * 60,
        )
        replay = Replay(self.history(), objects_of(self.objects), round_rules, schedule)
        found = (json_lines(look, checkpoints=True) for look in replay.play())
        return Shown([orjson.loads(line) for line in chain.from_iterable(found)])


def _at(minute: float) -> int:
    return nanoseconds(START + timedelta(minutes=minute))


def objects_of(objects: Sequence[Json]) -> RecordedObjects:
    """Return a store that holds some objects."""
    found = RecordedObjects()
    for item in objects:
        change, left_out = read_change(item)
        assert not left_out
        if change is not None:
            found.take(change, None)
    return found
