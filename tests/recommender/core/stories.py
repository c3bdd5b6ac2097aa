"""Stories for tests of the model: VPAs, pods, usage, kills and restarts, in any order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random

from app.recommender.core.membership import Membership
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.usage import ABSENT
from tests import make
from tests.recommender.core.scene import GI, MI, WEB, Scene

DAY = 1440.0
OFF = make.policy_json("app", mode="Off")
BOOST = make.boost_json(factor=2, duration="5m")
BOOSTED = {"vpaCpuStartupBoost/app": "{}"}
PAUSES = (0.0, 0.5, 1.0, 1.0, 5.0, 30.0, 600.0, DAY, -0.5)
RULES = RecommenderRules(gathers_quality=True, per_vpa_config=True, cpu_startup_boost=True)


class Story:
    """Things that happen to VPAs and pods of one namespace."""

    def __init__(self, random: Random) -> None:
        expects_past = random.random() < 0.5
        self.scene = Scene(replace(RULES, expects_past=expects_past))
        self.random = random
        self.born = 0  # pods

    def happen(self) -> None:
        """Let something happen, and some time pass."""
        deeds = [self.vpa, self.tick, self.tick, self.store, self.restart, self.lose, self.kill]
        self.random.choice([*deeds, *4 * [self.pod], *4 * [self.use]])()
        if self.random.random() < 0.7:
            self.scene.now += timedelta(minutes=self.random.choice(PAUSES))

    def vpa(self) -> None:
        """A VPA comes, changes or goes."""
        name, pick = self.random.choice(["web", "web-app"]), self.random.choice
        if pick([True, False, False]) and name in self.scene.vpas:
            del self.scene.vpas[name]
            self.scene.model.vpa_gone(("default", name), self.scene.now)
            return
        self.scene.vpa(
            name,
            selector=pick([None, None, {"matchLabels": {"role": "leader"}}, {}]),
            policies=pick([None, None, [OFF]]),
            target=pick(["StatefulSet/web", "StatefulSet/db"]),
            problem=pick(["", "", "", "it does not exist"]),
            boost=pick([None, None, BOOST]),
            restored=pick([True, False]),
        )

    def pod(self) -> None:
        """A pod comes, changes or ends; one that has ended does not begin again."""
        pick, name = self.random.choice, f"web-{self.random.randrange(4)}"
        known = self.scene.pods.get(name)
        self.born += known is None
        phases = ["Running", "Running", "Pending", "Unknown", "Succeeded"]
        self.scene.pod(
            name,
            *pick([["app"], ["app", "log"], ["app-log"]]),
            role=pick(["leader", ""]),
            phase="Succeeded" if known and known[0].phase == "Succeeded" else pick(phases),
            top=pick([WEB, WEB, None]),
            uid=known[0].uid if known else f"number {self.born}",
            annotations=pick([None, None, BOOSTED]),
            ready_at=pick([None, self.scene.now]),
        )

    def lose(self) -> None:
        """A pod goes."""
        if self.scene.pods:
            self.scene.drop(self.random.choice(sorted(self.scene.pods)))

    def use(self) -> None:
        """Usage is told of, in time, late or of no pod."""
        pick = self.random.choice
        self.scene.use(
            pick([ABSENT, 0, 100, 10**14]),
            pick([ABSENT, 0, 300 * MI, GI, 4 * GI]),
            pod=f"web-{self.random.randrange(5)}",
            container=pick(["app", "log"]),
            at=self.scene.now - timedelta(minutes=pick([0, 0, 0, 1, 90])),
        )

    def kill(self) -> None:
        """A container is killed for memory."""
        self.scene.killed(self.random.choice([0, GI]), pod=f"web-{self.random.randrange(5)}")

    def tick(self) -> None:
        """A tick, or what a kill makes urgent."""
        self.scene.tick(urgent=self.random.random() < 0.3)

    def store(self) -> None:
        """Checkpoints are written, or cannot be."""
        for checkpoint in self.scene.model.checkpoints(
            self.scene.now, self.random.choice([None, 1])
        ):
            if self.random.random() < 0.2:
                self.scene.model.not_stored(checkpoint)
            else:
                self.scene.stored[checkpoint.name] = checkpoint
        for _, name in self.scene.model.abandoned():
            self.scene.stored.pop(name, None)

    def restart(self) -> None:
        """Another process goes on from the checkpoints."""
        if self.random.random() < 0.2:
            self.scene.restart(flush=self.random.random() < 0.5)


def living(members: Membership) -> Counter[int]:
    """Return how many containers live, by row, counted one by one."""
    return Counter(
        members.by_line[line].rows[container]
        for pod in members.pods.values()
        if pod.is_alive
        for line in pod.vpas
        for container in pod.instances
    )
