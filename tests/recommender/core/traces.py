"""Random days of a workload, told to the model and to the plain reference alike."""

from __future__ import annotations

import random
from datetime import timedelta

from app.model.selectors import Selector
from app.recommender.core.rules import PublishRules, RecommenderRules
from tests.recommender.core.reference import MI, Reference
from tests.recommender.core.scene import START, Scene

RULES = RecommenderRules(
    publish=PublishRules(bound_tolerance=0.0, refresh=timedelta(0)),
)
VPAS = {
    "all": {"app": "web"},
    "leader": {"app": "web", "role": "leader"},
    "follower": {"app": "web", "role": "follower"},
}
STEP = 10  # minutes
EPOCH = START.timestamp()


class Trace:
    """Both models side by side, and the dice."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.scene = Scene(RULES)
        self.reference = Reference(VPAS)
        for name, labels in VPAS.items():
            self.scene.vpa(name, of=Selector.of_labels(labels))
        self.minute = 0.0
        for number in range(4):
            self.show(f"web-{number}", "follower" if number else "leader")

    @property
    def now(self) -> float:
        """The time in seconds."""
        return EPOCH + self.minute * 60

    def show(self, name: str, role: str, containers: tuple[str, ...] = ("app", "log")) -> None:
        """Show a pod to both."""
        self.scene.pod(name, *containers, role=role)
        self.reference.see(name, {"app": "web", "role": role}, containers, self.now)

    def step(self) -> None:
        """Let something happen, then let everybody use something."""
        self.minute += STEP
        self.scene.go(self.minute)
        match self.dice.choice(
            ["nothing"] * 30 + ["move", "move", "go", "come", "kill", "restart"]
        ):
            case "move":
                name = self.dice.choice(list(self.scene.pods))
                containers = self.reference.pods[name].containers
                self.show(name, self.dice.choice(list(VPAS)), containers)
            case "go" if len(self.scene.pods) > 1:
                name = self.dice.choice(list(self.scene.pods))
                self.scene.drop(name)
                self.reference.lose(name, self.now)
                self.scene.tick()
            case "come":
                containers = self.dice.choice([("app",), ("app", "log"), ("app", "new")])
                name = f"web-{self.minute:.0f}"
                self.show(name, self.dice.choice(["leader", "follower"]), containers)
            case "kill":
                self.kill(self.dice.choice(list(self.scene.pods)))
            case "restart":
                for checkpoint in self.scene.stored.values():
                    self.scene.model.not_stored(checkpoint)
                self.scene.restart()
                self.reference.restart(self.now)
        if self.dice.random() < 0.95:
            for name in self.scene.pods:
                self.use(name)

    def kill(self, name: str) -> None:
        """Kill a container some time ago, telling of it twice."""
        self._forget_published()
        request = self.dice.randrange(50, 3000) * MI
        ago = self.dice.choice([0, 1, 7, 60, 1500])
        time = self.now - 60 * ago
        for _ in range(2):
            self.scene.killed(request, pod=name, at=self.scene.at(self.minute - ago))
            self.reference.kill(name, "app", request, time, self.now)

    def use(self, name: str) -> None:
        """Let each container of a pod use something, told late, twice, or not at all."""
        self._forget_published()
        for container in self.reference.pods[name].containers:
            cpu, memory = self.dice.randrange(5000), self.dice.randrange(3000) * MI
            seconds = self.dice.randrange(60) if self.dice.random() < 0.9 else -400
            for _ in range(self.dice.choice([0, 1, 1, 1, 1, 2])):
                at = START + timedelta(minutes=self.minute, seconds=seconds)
                self.scene.use(cpu, memory, pod=name, container=container, at=at, window=30)
                self.reference.use(name, container, cpu, memory, self.now + seconds)

    def _forget_published(self) -> None:
        """Let the same peak be made again: the reference does not ask what is published."""
        self.scene.members.rows.estimated[:] = 0

    def compare(self) -> None:
        """Both must say the same."""
        self.scene.tick()
        for name in VPAS:
            assert self.scene.amounts(name) == self.reference.recommend(name, self.now), (
                self.minute,
                name,
            )
