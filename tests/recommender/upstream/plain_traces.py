"""Random days of a workload, told to the model and to the plain words alike."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from app.model.selectors import Selector
from app.recommender.core.rules import RecommenderRules
from app.recommender.upstream.aggregate_model import UpstreamModel
from app.recommender.upstream.variant import as_upstream
from tests.recommender.core.scene import START, Scene
from tests.recommender.upstream.plain import MI, YEAR_ONE, Labels, Plain

RULES = as_upstream(RecommenderRules())
ROLES = ("leader", "follower", "idle")
EPOCH = START.timestamp()
EVENTS = ["nothing"] * 30 + [
    *("label", "label", "go", "come", "end", "kill", "kill", "restart"),
    *("vpa gone", "target gone", "target there", "new revision", "pause"),
]


class Trace:
    """Both side by side, and the dice."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.scene, self.plain = Scene(RULES, model=UpstreamModel), Plain()
        self.minute = 0.0
        self.revision = 0
        for name in ("all", "leader", "follower"):
            self.show_vpa(name)
        for number in range(3):
            self.show(f"web-{number}", ROLES[number % 2])
        self.scene.model.restore([], self.scene.now)
        self.plain.load_vpas()

    @property
    def now(self) -> float:
        """The time in seconds."""
        return EPOCH + self.minute * 60

    def show_vpa(self, name: str, *, found: bool = True) -> None:
        """Show a VPA to both."""
        labels = {"app": "web"} if name == "all" else {"app": "web", "role": name}
        problem = "" if found else "no such target"
        self.scene.vpa(name, of=Selector.of_labels(labels), problem=problem, restored=False)
        self.plain.shown[name] = labels if found else None

    def show(self, name: str, role: str, phase: str = "Running") -> None:
        """Show a pod to both."""
        labels: Labels = {"app": "web", "role": role, "revision": str(self.revision)}
        known = self.plain.present.get(name)
        containers = known[2] if known else self.dice.choice([("app",), ("app", "log")])
        self.scene.pod(name, *containers, labels=labels, phase=phase)
        self.plain.present[name] = (labels, phase, containers)

    def step(self) -> None:
        """Let something happen, let everybody use something, and go through a loop."""
        self.minute += self.dice.choice([1, 5, 10, 30])
        event = self.dice.choice(EVENTS)
        if event == "pause":
            self.minute += self.dice.choice([600, 3000, 13000])
        self.scene.go(self.minute)
        self.happen(event)
        if self.dice.random() < 0.95:
            for name in list(self.plain.present):
                self.use(name)
        self.compare()

    def happen(self, event: str) -> None:
        """Let one thing happen."""
        dice, pods = self.dice, list(self.plain.present)
        name = dice.choice(pods)
        match event:
            case "label":
                self.show(name, dice.choice(ROLES))
            case "end":
                self.show(name, self.plain.present[name][0]["role"], "Succeeded")
            case "go" if len(pods) > 1:
                self.scene.drop(name)
                del self.plain.present[name]
            case "come" | "new revision":
                self.revision += event == "new revision"
                self.show(f"web-{self.minute:.0f}", dice.choice(ROLES))
            case "kill":
                self.kill(name)
            case "restart":
                self.restart()
            case "vpa gone" if "leader" in self.plain.shown:
                self.scene.model.vpa_gone(("default", "leader"), self.scene.now)
                del self.scene.vpas["leader"], self.plain.shown["leader"]
            case "target gone":
                self.show_vpa("follower", found=False)
            case "target there":
                self.show_vpa("follower")
                self.show_vpa("leader")

    def restart(self) -> None:
        """Begin anew from what is stored now."""
        self.compare_stored()
        stored = self.scene.store()
        self.scene.stored = {one.name: one for one in stored}
        self.plain = self.plain.restarted(self.now)
        self.scene.restart(flush=False)

    def kill(self, name: str) -> None:
        """Kill a container some time ago."""
        request, ago = self.dice.randrange(50, 3000) * MI, self.dice.choice([0, 1, 60, 1500])
        at = self.scene.at(self.minute - ago)
        self.scene.killed(request, pod=name, at=at)
        self.plain.kills.append((name, "app", request, at.timestamp()))

    def use(self, name: str) -> None:
        """Let each container of a pod use something, told late, twice, or not at all."""
        for container in self.plain.present[name][2]:
            cpu, memory = self.dice.randrange(5000), self.dice.randrange(3000) * MI
            seconds = -self.dice.randrange(60) if self.dice.random() < 0.9 else -4000
            for _ in range(self.dice.choice([0, 1, 1, 1, 1, 2])):
                at = START + timedelta(minutes=self.minute, seconds=seconds)
                self.scene.use(cpu, memory, pod=name, container=container, at=at)
                self.plain.used.append((name, container, cpu, memory, at.timestamp()))

    def compare(self) -> None:
        """Both must recommend the same."""
        self.plain.collect()
        expected = self.plain.loop(self.now)
        self.scene.tick()
        for name in self.plain.vpas:
            assert self.scene.amounts(name) == expected[name], (self.minute, name)

    def compare_stored(self) -> None:
        """Both must store the same."""
        expected = self.plain.checkpoints(self.now)
        stored = {(one.vpa, one.container): one for one in self.scene.store()}
        assert stored.keys() == expected.keys()
        for key, one in stored.items():
            found = expected[key]
            assert (one.cpu.weights, one.memory.weights) == (
                found.cpu.stored(),
                found.memory.stored(),
            )
            assert one.cpu.total == pytest.approx(found.cpu.total, rel=1e-12)
            assert one.memory.total == pytest.approx(found.memory.total, rel=1e-12)
            assert one.count == found.count
            if found.first != YEAR_ONE:
                times = (one.first_ns, one.last_ns)
                assert times == (round(found.first * 1e9), round(found.last * 1e9))
