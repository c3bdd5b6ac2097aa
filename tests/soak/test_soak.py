"""An hour of a soak, and what its judge would see; `make soak` plays a week."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, cast

from app.model.pods import BOOST_KEY_PREFIX
from app.ports import CHECKPOINTS, DEPLOYMENTS, PODS, VPAS, Cluster, Json, PatchKind, Ref
from tests.cases import cases
from tests.soak.cluster import NAMESPACE, SoakedCluster, workloads
from tests.soak.judge import Judge
from tests.soak.memory import Memory, growth
from tests.soak.story import Story

SEED: Final = 1


def test_an_hour_of_trouble() -> None:
    """In an hour of faults nothing happens that must not."""
    outcome = Story(SEED).play(1)

    assert outcome.problems == []
    assert outcome.counts["evictions"] > 0


class Stage:
    """A cluster with webhooks alone; updater and recommender are played by the test."""

    def __init__(self) -> None:
        self.cluster = SoakedCluster(SEED)
        self.judge = Judge(self.cluster)
        updater = self.cluster.of("updater")[0]
        self.judge.watch(updater)
        self.updater = cast("Cluster", updater.runtime.accepted)
        self.others = self.cluster.sandbox.cluster
        for replica in self.cluster.of("webhook"):
            replica.start()
        self.cluster.apply(*workloads())
        self.run(60)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.cluster.sandbox.advance(seconds)

    def name(self, workload: str = "slow", index: int = 0) -> str:
        """Return the name of a pod."""
        return str(self.cluster.pods(workload)[index]["metadata"]["name"])

    def evict(self, *pods: str) -> None:
        """Evict pods."""
        for pod in pods:
            self.updater.evict(NAMESPACE, pod)

    def resize(self, workload: str, cpu: str) -> None:
        """Resize the only pod of a workload."""
        ref = Ref(PODS, NAMESPACE, self.name(workload), "resize")
        path = "/spec/containers/0/resources/requests/cpu"
        self.updater.patch(ref, [{"op": "replace", "path": path, "value": cpu}])

    def scale(self, workload: str, replicas: int) -> None:
        """Let a workload have so many pods."""
        body = {"spec": {"replicas": replicas}}
        self.others.patch(Ref(DEPLOYMENTS, NAMESPACE, workload), body, kind=PatchKind.MERGE)
        self.run(60)

    def recommend(self, name: str, cpu: str | None) -> None:
        """Let a VPA recommend so much cpu, or nothing."""
        told = [{"containerName": "app", "target": {"cpu": cpu}}] if cpu else None
        status = {"status": {"recommendation": {"containerRecommendations": told} if cpu else None}}
        self.others.patch(Ref(VPAS, NAMESPACE, name, "status"), status, kind=PatchKind.MERGE)

    def checkpoint(self, samples: int) -> None:
        """Store a checkpoint of VPA web."""
        body: Json = {
            "apiVersion": CHECKPOINTS.api_version,
            "kind": CHECKPOINTS.kind,
            "metadata": {"name": "web-app", "namespace": NAMESPACE},
            "spec": {"vpaObjectName": "web", "containerName": "app"},
            "status": {"totalSamplesCount": samples},
        }
        self.cluster.apply(body)

    def boost(self) -> None:
        """Let a pod be boosted."""
        mark = {f"{BOOST_KEY_PREFIX}app": "{}"}
        body = {"metadata": {"annotations": mark}}
        self.others.patch(Ref(PODS, NAMESPACE, self.name()), body, kind=PatchKind.MERGE)


def evict_two(stage: Stage) -> None:
    """Of three pods two go."""
    stage.evict(stage.name(index=0), stage.name(index=1))


def evict_again(stage: Stage) -> None:
    """A pod goes that is going."""
    stage.evict(*[stage.name()] * 2)


def evict_the_last(stage: Stage) -> None:
    """A pod goes of a workload that has become too small."""
    stage.scale("slow", 1)
    stage.evict(stage.name())


def restart_the_last(stage: Stage) -> None:
    """The only pod is resized, which restarts its container."""
    stage.scale("restarting", 1)
    stage.resize("restarting", "300m")


def evict_in_vain(stage: Stage) -> None:
    """A pod goes although nothing is recommended."""
    stage.run(60)
    stage.evict(stage.name())
    stage.run(10)


def forget(stage: Stage) -> None:
    """Nothing is recommended any more."""
    stage.recommend("web", "100m")
    stage.recommend("web", None)


def fall_back(stage: Stage) -> None:
    """A recommendation falls although usage is what it always was."""
    stage.recommend("store", "200m")
    stage.run(7200)
    stage.recommend("store", "100m")


def lose_samples(stage: Stage) -> None:
    """A checkpoint is replaced by an older one."""
    stage.checkpoint(100)
    stage.checkpoint(90)


def lose_checkpoint(stage: Stage) -> None:
    """A checkpoint goes whose VPA stays."""
    stage.checkpoint(100)
    stage.others.delete(Ref(CHECKPOINTS, NAMESPACE, "web-app"))


def stay_boosted(stage: Stage) -> None:
    """No updater ends a boost."""
    stage.boost()
    stage.run(600)
    stage.judge.see_boosts(600)


@cases(
    "act told",
    {
        "budget": (evict_two, "budget: 1 of 3"),
        "twice": (evict_again, "was evicted twice"),
        "replicas": (evict_the_last, "minReplicas: "),
        "restarted": (restart_the_last, "minReplicas: "),
        "wasted": (evict_in_vain, "wasted: "),
        "forgotten": (forget, "recommends nothing"),
        "fallen": (fall_back, "went from 0.2 to 0.1"),
        "samples": (lose_samples, "had 100 samples, has 90"),
        "checkpoint": (lose_checkpoint, "was deleted, its VPA was not"),
        "boost": (stay_boosted, "is boosted, Ready since"),
    },
)
def test_the_judge_sees(act: Callable[[Stage], object], told: str) -> None:
    """Each of what must never happen is told, if it happens."""
    stage = Stage()
    act(stage)

    assert any(told in problem for problem in stage.judge.problems), stage.judge.problems


def test_a_plain_resize_disturbs_none() -> None:
    """The only pod of a workload may be resized if that restarts no container."""
    stage = Stage()
    stage.scale("slow", 1)
    stage.resize("slow", "300m")

    assert stage.judge.counts["resizes"] == 1
    assert stage.judge.problems == []


def test_growth_is_told() -> None:
    """More pieces than hours differ by are growth, and their types are named."""
    before = Memory(400_000, Counter({"app.model.pods.Pod": 100}))
    after = Memory(440_000, Counter({"app.model.pods.Pod": 9_000}))

    assert growth(before, before) == ""
    assert "app.model.pods.Pod +8900" in growth(before, after)
