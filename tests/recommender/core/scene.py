"""A small cluster for tests of the models: VPAs, pods, usage, and a clock that is moved by hand.

Strategy: what a model publishes is written into the status of the VPA and shown to it again, as
a cluster would; what it stores is kept, so that a new model can be restored from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.pods import Pod, read_pod
from app.model.selectors import Selector
from app.model.vpa import Vpa
from app.recommender.core.checkpoints import Checkpoint, read_checkpoint, to_json
from app.recommender.core.explanation import explained
from app.recommender.core.membership import Membership
from app.recommender.core.model import Model, RecommenderModel
from app.recommender.core.moments import nanoseconds
from app.recommender.core.oom import OomRecord
from app.recommender.core.rules import PublishRules, RecommenderRules
from app.recommender.core.status import Publication, recommendation_json
from app.recommender.core.targets import ObservedVpa
from app.recommender.core.usage import ABSENT, UsageBatch
from tests import make

MI = 2**20
GI = 2**30
START = datetime(2026, 1, 5, tzinfo=UTC)
WEB = ObjectKey("", "StatefulSet", "web")

# Rules by which everything that moves is published at once.
AT_ONCE = PublishRules(bound_tolerance=0.0, refresh=timedelta(0))
EAGER = RecommenderRules(publish=AT_ONCE)


class Scene:
    """A model and what it is told."""

    def __init__(
        self,
        rules: RecommenderRules | None = None,
        *,
        start: datetime = START,
        model: Callable[[RecommenderRules], RecommenderModel] = Model,
    ) -> None:
        self.rules = rules or RecommenderRules()
        self._make = model
        self.model = model(self.rules)
        self.start = self.now = start
        self.vpas: dict[str, ObservedVpa] = {}
        self.pods: dict[str, tuple[Pod, ObjectKey | None]] = {}
        self.stored: dict[str, Checkpoint] = {}
        self.writes = 0

    @property
    def members(self) -> Membership:
        """What our model knows of VPAs and pods."""
        assert isinstance(self.model, Model)
        return self.model.members

    def explained(self, container: str = "app") -> Json:
        """Return how what stands published of a container came about, every step."""
        derivation = self.model.derivations()["default", "web"]
        (found,) = explained([(self.vpas["web"].vpa, derivation)], self.rules, with_steps=True)
        known: dict[str, Json] = {one["container"]: one for one in found["containers"]}
        return known[container]

    def at(self, minute: float) -> datetime:
        """Return a time so many minutes after the start."""
        return self.start + timedelta(minutes=minute)

    def go(self, minute: float) -> None:
        """Move the clock to so many minutes after the start."""
        self.now = self.at(minute)

    def vpa(
        self,
        name: str = "web",
        *,
        of: Mapping[str, str] | Selector | None = None,
        problem: str = "",
        restored: bool = True,
        policies: Sequence[Json] | None = None,
        selector: Mapping[str, Any] | None = None,
        target: str = "StatefulSet/web",
        created: datetime = START,
        annotations: Mapping[str, str] | None = None,
        boost: Json | None = None,
    ) -> Vpa:
        """Add or change a VPA; `of` are the labels its target selects, `problem` hides it."""
        vpa = make.vpa(
            name,
            policies=policies,
            selector=selector,
            target=target,
            created=created,
            annotations=annotations,
            boost=boost,
        )
        found = of if isinstance(of, Selector) else Selector.of_labels(of or make.LABELS)
        self.see(ObservedVpa(vpa, None if problem else found, problem))
        if restored:
            self.model.restore([], self.now)
        return vpa

    def see(self, observed: ObservedVpa) -> None:
        """Show a VPA to the model."""
        self.vpas[observed.vpa.name] = observed
        self.model.vpa_seen(observed, self.now)

    def change(self, vpa: Vpa) -> None:
        """Show a VPA as it has become."""
        self.see(replace(self.vpas[vpa.name], vpa=vpa))

    def resolve(self, name: str = "web", *, problem: str = "") -> None:
        """Let the target of a VPA be found, or not."""
        selector = None if problem else Selector.of_labels(make.LABELS)
        self.see(ObservedVpa(self.vpas[name].vpa, selector, problem))

    def pod(
        self,
        name: str = "web-0",
        *containers: str,
        role: str = "",
        labels: Mapping[str, str] | None = None,
        phase: str = "Running",
        top: ObjectKey | None = WEB,
        uid: str = "",
        status: Mapping[str, Any] | None = None,
        memory: str | None = None,
        annotations: Mapping[str, str] | None = None,
        ready_at: datetime | None = None,
    ) -> None:
        """Add or change a pod."""
        labels = make.LABELS | ({"role": role} if role else {}) | dict(labels or {})
        item = make.pod_json(
            *(make.container_json(one) for one in containers),
            name=name,
            labels=labels,
            memory=memory,
            annotations=annotations,
            status={"phase": phase} | dict(status or {}),
        )
        if ready_at is not None:
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": make.time(ready_at)}
            item["status"]["conditions"] = [ready]
        if uid:
            item["metadata"]["uid"] = uid
        pod = read_pod(item)
        self.pods[name] = (pod, top)
        self.model.pod_seen(pod, self.now, top=top)

    def drop(self, name: str) -> None:
        """Take a pod away."""
        del self.pods[name]
        self.model.pod_gone("default", name)

    def use(
        self,
        cpu: int = ABSENT,
        memory: int = ABSENT,
        *,
        pod: str = "web-0",
        container: str = "app",
        at: datetime | None = None,
        window: float = 0.0,
    ) -> None:
        """Tell of usage: millicores and bytes, now unless said otherwise."""
        batch = self.batch(cpu, memory, pod=pod, container=container, at=at, window=window)
        self.model.usage(batch, self.now)

    def batch(
        self,
        cpu: int,
        memory: int,
        *,
        pod: str = "web-0",
        container: str = "app",
        at: datetime | None = None,
        window: float = 0.0,
    ) -> UsageBatch:
        """Return one sample."""
        time_ns = nanoseconds(at or self.now)
        line = (("default", pod, container), cpu, memory, time_ns, int(window * 1e9))
        return UsageBatch.of([line])

    def killed(
        self, memory: int, *, pod: str = "web-0", container: str = "app", at: datetime | None = None
    ) -> None:
        """Tell of an OOM kill."""
        time_ns = nanoseconds(at or self.now)
        self.model.killed([OomRecord("default", pod, container, time_ns, memory)], self.now)

    def tick(self, *, urgent: bool = False) -> list[Publication]:
        """Tick, and write what comes out into the statuses."""
        found = self.model.urgent(self.now) if urgent else self.model.tick(self.now)
        self.check()
        for publication in found:
            self.writes += 1
            status = publication.status
            vpa = replace(
                self.vpas[publication.name].vpa,
                recommendation=status.recommendation,
                conditions=status.conditions,
                observed_generation=status.observed_generation,
            )
            self.change(vpa)
        return found

    def check(self) -> None:
        """Make sure that totals are the sums of their buckets and no bucket is negative."""
        if isinstance(self.model, Model):
            for bank in (self.model.members.rows.cpu, self.model.members.rows.memory):
                sums = bank.weights.sum(axis=1)
                assert (np.abs(sums - bank.totals) <= 1e-9 * bank.totals).all()
                assert (bank.weights >= 0.0).all()

    def store(self, budget: int | None = None) -> list[Checkpoint]:
        """Write checkpoints."""
        found = self.model.checkpoints(self.now, budget)
        self.stored |= {checkpoint.name: checkpoint for checkpoint in found}
        return found

    def restart(self, rules: RecommenderRules | None = None, *, flush: bool = True) -> None:
        """Replace the model by a new one that reads the checkpoints through JSON."""
        if flush:
            self.store()
        self.rules = rules or self.rules
        self.model = self._make(self.rules)
        for observed in self.vpas.values():
            self.model.vpa_seen(observed, self.now)
        stored = [read_checkpoint(to_json(checkpoint)) for checkpoint in self.stored.values()]
        self.model.restore(stored, self.now)
        for pod, top in self.pods.values():
            self.model.pod_seen(pod, self.now, top=top)

    def shown(self, name: str = "web") -> dict[str, dict[str, str]]:
        """Return lower, target and upper of each container as "cpu memory"."""
        recommendation = recommendation_json(self.vpas[name].vpa.recommendation or ())
        return {
            one["containerName"]: {
                word: " ".join(one.get(field, {}).get(name, "-") for name in ("cpu", "memory"))
                for word, field in (
                    ("lower", "lowerBound"),
                    ("target", "target"),
                    ("upper", "upperBound"),
                    ("uncapped", "uncappedTarget"),
                )
            }
            for one in recommendation.get("containerRecommendations", [])
        }

    def amounts(self, name: str) -> dict[str, dict[str, tuple[int, ...]]]:
        """Return target, lower and upper of each container in millicores and bytes."""
        return {
            one.container: {
                resource: tuple(
                    amounts[resource].milli if resource == "cpu" else amounts[resource].units
                    for amounts in (one.target, one.lower_bound, one.upper_bound)
                )
                for resource in one.target
            }
            for one in self.vpas[name].vpa.recommendation or ()
        }

    def conditions(self, name: str = "web") -> dict[str, tuple[str, str, str]]:
        """Return status, reason and message by type."""
        return {
            one.type: (one.status, one.reason, one.message)
            for one in self.vpas[name].vpa.conditions
        }


def running(rules: RecommenderRules | None = None, *, restored: bool = True) -> Scene:
    """Return a scene with a VPA and one pod of its target."""
    scene = Scene(rules)
    scene.vpa(restored=restored)
    scene.pod()
    return scene


def sawtooth(scene: Scene, first: int, last: int) -> None:
    """Use cpu in bursts and memory growing by the hour, a sample a minute."""
    for minute in range(first, last):
        scene.go(minute)
        scene.use(800 if minute % 60 < 9 else 100, (300 + 10 * (minute // 60 % 24)) * MI)
