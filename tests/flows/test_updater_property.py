"""Whatever happens between calls: no budget is exceeded, nothing goes twice, all ends well.

Strategy: three workloads of different kinds on a whole cluster; the steps are chosen at random.
The judge looks at the cluster itself whenever a call was accepted, not at what the updater
believes. Pods go down only because of the updater or because a step says so, and then the judge
waits until the updater could have seen it. PROPERTY_EXAMPLES asks for more examples than usual.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.model.errors import (
    ClusterError,
    Conflict,
    Invalid,
    NotFound,
    Refused,
    TooMany,
    Unavailable,
)
from app.ports import POD_DISRUPTION_BUDGETS, PODS, VPAS, Json, PatchKind, Ref
from app.ports import WORKLOADS as OWNERS
from app.sandbox.objects import is_ready
from tests.faults import Fault
from tests.sandbox.worlds import container, deployment
from tests.sandbox_objects import pods_in
from tests.updater.stage import Call, Stage, gone, vpa

SIZES: Final = {"web": 4, "db": 3, "fast": 4}
ERRORS: Final[tuple[ClusterError, ...]] = (
    Unavailable("no answer in time"),
    Unavailable("internal error", status=500),
    Unavailable("gateway timeout", status=504),
    TooMany("budget", status=429, causes=(("DisruptionBudget", "no"),)),
    TooMany("slow down", status=429, retry_after_seconds=3),
    Conflict("changed", status=409),
    NotFound("gone", status=404),
    Refused("exceeded quota: rq", status=403),
    Invalid("QOS Class may not change", status=422),
)


def workloads(mode: str = "Recreate") -> list[Json]:
    """Return two workloads, and one with boosts whose resizes restart its containers.

    The mode is that of the first one.
    """
    restart = {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}
    small = container(requests={"cpu": "100m", "memory": "100Mi"}, limits={})
    found = [
        deployment("web", small, replicas=SIZES["web"]),
        deployment("db", small, replicas=SIZES["db"]) | {"kind": "StatefulSet"},
        deployment("fast", small | restart, replicas=SIZES["fast"]),
    ]
    found[1]["spec"]["serviceName"] = "db"
    boost = {"startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 30}}}
    found += [
        vpa("web", target="Deployment/web", mode=mode),
        vpa("db", target="StatefulSet/db", mode="InPlaceOrRecreate"),
        vpa("fast", target="Deployment/fast", mode="InPlaceOrRecreate", spec=boost),
    ]
    return found


class Judge:
    """Looks at the cluster after each call that was accepted."""

    def __init__(self, stage: Stage, tolerance: float = 0.5, mode: str = "Recreate") -> None:
        self.stage = stage
        self.tolerance = tolerance  # how much of a workload may be down because of us
        self.workloads = workloads(mode)
        self.evicted: Counter[str] = Counter()  # by uid
        self.losses: Counter[str] = Counter()  # by workload: evictions that were accepted
        self.down_by_others: set[str] = set()  # workloads of which a pod was killed just now
        stage.carried.before = self.before
        stage.carried.after = self.after
        self.problems: list[str] = []  # an error here would be taken for one of the call
        self.meanwhile: Callable[[], object] = lambda: None  # happens right before a call
        self._uid = ""
        self.current = ""  # the pod of the latest deed
        self.unready: set[str] = set()  # pods that were not ready when something was done to them
        self.hurt: set[str] = set()  # workloads of which pods were killed in this round
        self.excused: set[str] = set()  # those whose latest call came too late to see it

    def before(self, call: Call) -> None:
        """Note which pod is meant."""
        if is_deed(call):
            meanwhile, self.meanwhile = self.meanwhile, lambda: None
            self.current = call.name
            meanwhile()
            found = self.stage.sandbox.cluster.get(Ref(PODS, "default", call.name))
            (self.unready.discard if is_ready(found) else self.unready.add)(call.name)
        if call.verb == "evict":
            self._uid = found["metadata"]["uid"]

    def after(self, call: Call) -> None:
        """See that enough pods are there, and that none goes twice."""
        if call.verb == "evict":
            self.evicted[self._uid] += 1
            self.losses[call.name.partition("-")[0]] += 1
            if self.evicted[self._uid] > 1:
                self.problems.append(f"{call.name} was evicted twice")
        if is_deed(call):
            self.count(call.name.partition("-")[0], call)

    def count(self, name: str, call: Call) -> None:
        """See that enough pods of a workload are there."""
        if name in self.down_by_others or (name in self.hurt and call.name in self.unready):
            return
        if name in self.excused:
            self.excused.discard(name)
            return
        there = [
            pod
            for pod in pods_in(self.stage.sandbox, "default", f"app={name}")
            if not gone(pod) and pod["status"].get("phase") == "Running" and is_ready(pod)
        ]
        least = SIZES[name] - max(int(SIZES[name] * self.tolerance), 1)
        if len(there) < least:
            self.problems.append(f"{len(there)} of {name} are left after {call}")


def is_deed(call: Call) -> bool:
    """Whether a call takes something away from a pod."""
    return call.verb == "evict" or call.subresource == "resize"


STEPS: Final[dict[str, Callable[[Stage, Judge, int], object]]] = {}


def step(function: Callable[[Stage, Judge, int], object]) -> Callable[[Stage, Judge, int], object]:
    """Note something that may happen."""
    STEPS[function.__name__] = function
    return function


@step
def time_passes(stage: Stage, _judge: Judge, number: int) -> None:
    """For some seconds."""
    stage.run(5 + number % 60)


@step
def recommend(stage: Stage, _judge: Judge, number: int) -> None:
    """Another size is recommended for one workload."""
    name = sorted(SIZES)[number % 3]
    stage.recommend(f"{100 + 50 * (number % 5)}m/100Mi = =", name)


@step
def fail(stage: Stage, _judge: Judge, number: int) -> None:
    """Some of the next calls fail, before or after they are carried out."""
    error = ERRORS[number % len(ERRORS)]
    verb = ("evict", "patch", "get")[number % 3]
    late = number % 2 == 0 and isinstance(error, Unavailable)
    stage.faults.order(Fault(error, verb, PODS, times=1 + number % 4, too_late=late))


@step
def silence(stage: Stage, _judge: Judge, number: int) -> None:
    """What is asked about pods is carried out, but no answer comes; perhaps no news either."""
    error = ERRORS[number % 3]
    stage.watch_lags = number % 2 == 0
    stage.faults.order(Fault(error, "", PODS, times=1 + number % 7, too_late=True))
    stage.run(10 + number % 80)
    stage.watch_lags = False
    stage.run(1)


@step
def answer_again(stage: Stage, _judge: Judge, _number: int) -> None:
    """All calls are answered again."""
    stage.faults.clear()


@step
def watch_lags(stage: Stage, _judge: Judge, number: int) -> None:
    """The watch shows nothing new for some seconds, but less than we believe ourselves."""
    stage.watch_lags = True
    stage.run(number % 100)
    stage.watch_lags = False
    stage.run(1)


@step
def webhook(stage: Stage, _judge: Judge, number: int) -> None:
    """The webhook works, is useless, or gives no sign."""
    stage.webhook_works, stage.webhook_beats = number % 3 != 0, number % 3 != 1


@step
def restart(stage: Stage, _judge: Judge, _number: int) -> None:
    """Another updater takes over, which remembers nothing."""
    stage.restart()


@step
def kill(stage: Stage, judge: Judge, number: int) -> None:
    """Somebody else deletes a pod; the updater has some seconds to see it."""
    found = stage.pods()
    if not found:
        return
    name = found[number % len(found)]["metadata"]["name"]
    judge.down_by_others.add(name.partition("-")[0])
    stage.sandbox.cluster.delete(Ref(PODS, "default", name))
    stage.run(20)
    judge.down_by_others.clear()


@step
def kill_meanwhile(stage: Stage, judge: Judge, number: int) -> None:
    """Somebody else deletes pods in the middle of a round, and the watch shows it."""

    def delete() -> None:
        owner = judge.current.partition("-")[0]
        judge.hurt.add(owner)
        judge.excused.add(owner)
        others = [pod["metadata"]["name"] for pod in stage.pods(f"app={owner}")]
        for name in sorted(set(others) - {judge.current})[: 1 + number % 2]:
            stage.sandbox.cluster.delete(Ref(PODS, "default", name))
        stage.run_watch()

    judge.meanwhile = delete
    stage.run(61)
    judge.meanwhile = lambda: None
    judge.excused.clear()
    judge.hurt.clear()


@step
def clock(stage: Stage, _judge: Judge, number: int) -> None:
    """The time of day is set, for a moment or for good."""
    seconds = (30, 300, 3600, 86400)[number % 4]
    stage.wall.ahead += timedelta(seconds=seconds if number % 3 else -seconds)
    stage.run(number % 50)


@step
def vpa_goes(stage: Stage, judge: Judge, number: int) -> None:
    """A VPA is deleted between plan and call, and created again later."""
    name = sorted(SIZES)[number % 3]

    def delete() -> None:
        stage.sandbox.cluster.delete(Ref(VPAS, "default", name))
        stage.run_watch()

    judge.meanwhile = delete
    stage.run(61)
    if judge.meanwhile is delete:
        delete()
        judge.meanwhile = lambda: None
    stage.apply(*[item for item in judge.workloads if item["metadata"]["name"] == name][1:])
    stage.recommend(f"{150 + 50 * (number % 2)}m/100Mi = =", name)


@step
def leader_goes(stage: Stage, judge: Judge, number: int) -> None:
    """Leadership is lost between a plan and one of its calls; another updater takes over."""

    def lose() -> None:
        stage.leads = False

    judge.meanwhile = lose
    stage.run(20 + number % 50)
    judge.meanwhile = lambda: None
    stage.restart()
    stage.leads = True


@step
def guard(stage: Stage, judge: Judge, number: int) -> None:
    """A PodDisruptionBudget appears between plan and call, and may go some time later."""
    name = sorted(SIZES)[number % 3]
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"maxUnavailable": number % 2, "selector": {"matchLabels": {"app": name}}},
    }
    judge.meanwhile = lambda: stage.apply(body)
    stage.run(61)
    judge.meanwhile = lambda: None
    if number % 5 == 0:
        unguard(stage)


def unguard(stage: Stage) -> None:
    """Let all PodDisruptionBudgets go."""
    for item in stage.sandbox.cluster.list(POD_DISRUPTION_BUDGETS, "default").items:
        stage.sandbox.cluster.delete(
            Ref(POD_DISRUPTION_BUDGETS, "default", item["metadata"]["name"])
        )


@step
def rollout(stage: Stage, judge: Judge, number: int) -> None:
    """A template changes; its controller takes pods down by itself until all are new."""
    name = ("web", "fast")[number % 2]
    judge.down_by_others.add(name)
    body = {"spec": {"template": {"metadata": {"annotations": {"version": str(number)}}}}}
    (deployments,) = (found for found in OWNERS if found.kind == "Deployment")
    stage.sandbox.cluster.patch(Ref(deployments, "default", name), body, kind=PatchKind.MERGE)
    stage.run(90)
    judge.down_by_others.discard(name)


some = settings(
    max_examples=int(os.environ.get("PROPERTY_EXAMPLES", "12")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=False,
)


def chosen_of(names: set[str]) -> st.SearchStrategy[list[tuple[str, int]]]:
    """Choose steps, and a number for each."""
    step = st.tuples(st.sampled_from(sorted(names)), st.integers(0, 1000))
    return st.lists(step, min_size=3, max_size=14)


@some
@given(
    prove=st.sampled_from(["off", "canary", "dry-run"]),
    more=st.sampled_from([(), ("--in-place-skip-disruption-budget",), ("--min-replicas=1",)]),
    tolerance=st.sampled_from([0.5, 0.0, 0.1, 1.0]),
    mode=st.sampled_from(["Recreate", "UpscaleOnly", "InPlace"]),
    concurrency=st.sampled_from([1, 4]),
    chosen=chosen_of(set(STEPS)),
)
def test_in_every_interleaving(
    prove: str,
    more: tuple[str, ...],
    tolerance: float,
    mode: str,
    concurrency: int,
    chosen: list[tuple[str, int]],
) -> None:
    """No budget is exceeded at any moment, no pod goes twice, and in the end all are right."""
    flags = [f"--prove={prove}", f"--eviction-tolerance={tolerance}", *more]
    stage = Stage(*flags, f"--update-concurrency={concurrency}")
    judge = Judge(stage, tolerance, mode)
    stage.apply(*judge.workloads)
    stage.run(60)
    for name in SIZES:
        stage.recommend("200m/100Mi = =", name)
    for name, number in chosen:
        STEPS[name](stage, judge, number)
        assert judge.problems == []
    stage.faults.clear()
    stage.webhook_works = stage.webhook_beats = stage.leads = True
    stage.wall.ahead = timedelta()
    unguard(stage)
    stage.restart()
    for name in SIZES:
        stage.recommend("350m/100Mi = =", name)
    stage.run(2400)
    before = stage.carried.count("evict") + stage.carried.count("patch", "resize")

    assert set(stage.requests()) == {"350m"}, stage.reasons()
    stage.run(1200)
    assert stage.carried.count("evict") + stage.carried.count("patch", "resize") == before
    assert judge.problems == []


# What makes the updater forget, or the webhook work, or pods right as they are, is left out.
HELPLESS: Final = {
    "time_passes",
    "fail",
    "silence",
    "answer_again",
    "watch_lags",
    "kill",
    "kill_meanwhile",
    "clock",
    "guard",
}


@some
@given(
    flags=st.sampled_from([(), ("--prove=dry-run",)]),
    concurrency=st.sampled_from([1, 4]),
    chosen=chosen_of(HELPLESS),
)
def test_evictions_that_cannot_help(
    flags: tuple[str, ...], concurrency: int, chosen: list[tuple[str, int]]
) -> None:
    """With a useless webhook pauses of a workload double, whatever calls are answered."""
    stage = Stage(*flags, f"--update-concurrency={concurrency}")
    judge = Judge(stage)
    stage.webhook_works = False
    stage.apply(*judge.workloads)
    stage.run(60)
    began = stage.clock.monotonic()
    for name in SIZES:
        stage.recommend("200m/100Mi = =", name)
    for name, number in [*chosen, ("time_passes", 59), ("silence", 99), ("time_passes", 59)]:
        STEPS[name](stage, judge, number)
        assert judge.problems == []
        passed = stage.clock.monotonic() - began
        for count in judge.losses.values():
            assert 300 * (2 ** (count - 1) - 1) <= passed, judge.losses
