"""Canaries and the breaker, over several rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.vpa import read_vpa
from app.model.workloads import read_workload
from app.updater.core.action_queue import ActionQueue, QueueStep
from app.updater.core.decisions import Action, Reason
from app.updater.core.memory import Memory, Pause, PodMemory, ProofKey
from app.updater.core.outcomes import (
    Outcome,
    after_useless_trial,
    came_back_unchanged,
    learn,
    needs_trial,
)
from app.updater.core.plan import Plan, PlanOptions, plan
from app.updater.core.proof import Breaker, Breakers, Outage, Proof, ProofVersion
from app.updater.core.rules import Prove, UpdateRules
from tests import make
from tests.cases import cases
from tests.make import ALL_GATES
from tests.updater.core.owners import group
from tests.updater.core.scenes import (
    HOUR,
    MINUTE,
    NOW,
    OURS,
    Scene,
    container,
    named,
    running,
    several,
    terminating,
)

OLD, NEW = running(container("app", "100m/100Mi")), running(container("app", "200m/200Mi"))


@dataclass
class Story:
    """A scene that goes on: what is planned is done, and replacements come as told."""

    pods: list[Json]
    rules: UpdateRules = OURS
    memory: Memory = field(default_factory=Memory)
    minutes: float = 0
    vpa: Json = field(default_factory=dict)
    count: int = 0

    @property
    def scene(self) -> Scene:
        """The scene as it is now."""
        now = NOW + self.minutes * MINUTE
        return Scene(
            self.pods, replicas=4, rules=self.rules, memory=self.memory, now=now, vpa=self.vpa
        )

    def round(self, replacement: Json | None, minutes: float = 1) -> Plan:
        """Carry out a plan; each pod that went comes back as the replacement, or not at all."""
        plan = self.scene.plan()
        gone: list[str] = []
        outcomes = []
        for queue in plan.queues:
            for step in queue.steps:
                planned = next(d for d in plan.decisions if d.uid == step.pod.uid)
                if planned.action is Action.EVICT:
                    gone.append(step.pod.name)
                    outcomes.append(Outcome(queue, step, self.scene.now))
        self.memory = learn(plan.memory, outcomes, self.rules)
        self.pods = [pod for pod in self.pods if pod["metadata"]["name"] not in gone]
        for _ in gone if replacement is not None else ():
            assert replacement is not None
            self.count += 1
            self.pods.append(named(replacement, f"new-{self.count}"))
        self.minutes += minutes
        return plan


def evicted(plan: Plan) -> int:
    """Return how many pods a plan evicts."""
    return sum(found.action is Action.EVICT for found in plan.decisions)


def reasons(plan: Plan) -> set[Reason]:
    """Return the reasons of pods that wait."""
    return {found.reason for found in plan.decisions if found.action is Action.WAIT}


def test_after_a_canary_the_others_follow() -> None:
    """One goes; when its replacement has the new size, as many go as the budget allows."""
    story = Story(several(OLD, 4))
    first = story.round(NEW)
    assert (evicted(first), reasons(first)) == (1, {Reason.PROOF_PENDING})
    assert [evicted(story.round(NEW)) for _ in range(3)] == [2, 1, 0]


def test_useless_evictions_stop_the_workload() -> None:
    """A webhook that changes nothing costs one pod, then one after a pause that grows."""
    story = Story(several(OLD, 4))
    gone = [minute for minute in range(60) if evicted(story.round(OLD))]
    assert gone == [0, 6, 17, 38]
    assert reasons(story.round(OLD)) == {Reason.RECREATED_WITHOUT_CHANGE}
    found = story.scene.decision()
    assert found.message == "4 pods came back unchanged; evictions wait until 11:19:00"
    while not evicted(story.round(None)):
        pass
    assert (
        story.scene.decision().message
        == "4 pods came back unchanged; evictions wait for the next canary"
    )


def test_who_comes_back_nearly_right_would_go_again_and_again() -> None:
    """Somebody rounds what the webhook wrote: each replacement is out of its narrow bounds."""
    story = Story(several(OLD, 4))
    rounded = running(container("app", "205m/200Mi"))
    gone = [minute for minute in range(30) if evicted(story.round(rounded))]
    assert gone == [0, 6, 17]


def test_who_comes_back_nearly_right_and_may_stay_is_a_proof() -> None:
    """It differs by less than is worth an eviction."""
    story = Story(several(OLD, 4))
    rounded = running(container("app", "201m/200Mi"))
    assert [evicted(story.round(rounded)) for _ in range(4)] == [1, 2, 1, 0]


def test_a_success_after_failures_ends_the_pause() -> None:
    """When the webhook works again the workload goes on."""
    story = Story(several(OLD, 4))
    story.round(OLD, minutes=6)
    story.round(None, minutes=6)
    assert evicted(story.round(NEW)) == 1
    assert evicted(story.round(NEW)) == 2


def test_a_change_of_the_vpa_needs_a_new_proof() -> None:
    """What was proven of another version does not count."""
    story = Story(several(OLD, 4))
    story.round(NEW)
    story.vpa = {"metadata": {"generation": 2, "uid": "uid-web"}}
    assert evicted(story.round(NEW)) == 1


def test_an_owner_that_replaces_nobody_gives_no_answer() -> None:
    """After a while another canary may go."""
    story = Story(several(OLD, 5))
    assert evicted(story.round(None, minutes=1)) == 1
    assert evicted(story.round(None, minutes=2)) == 0
    assert evicted(story.round(None)) == 1


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize(
    ("memory", "proven"), [("200Mi", True), ("205Mi", False), ("100Mi", False)]
)
def test_boosted_replacements_are_as_expected(memory: str, proven: bool, ready: bool) -> None:
    """Whatever the cpu of a pod that the webhook boosted; somebody may have reset its memory."""
    story = Story(several(OLD, 4), vpa={"boost": make.boost_json(factor=3)})
    story.round(
        running(
            container("app", f"600m/{memory}"),
            ready=ready,
            age=MINUTE,
            annotations={"vpaCpuStartupBoost/app": "{}"},
        )
    )
    plan = story.scene.plan()
    proof = next(iter(plan.memory.proofs.values()))
    assert (proof.is_proven, proof.awaited) == (proven, ())


def test_pods_about_which_nothing_is_known_are_judged_by_the_webhooks_mark() -> None:
    """If the VPA lost its recommendation meanwhile, the annotation tells whether it was there."""
    for marks, proven in (({"vpaUpdates": "told"}, True), (None, False)):
        story = Story(several(OLD, 4))
        story.round(running(container("app"), annotations=marks))
        story.vpa = {"recommendations": None}
        proof = next(iter(story.scene.plan().memory.proofs.values()))
        assert proof.is_proven is proven


def test_terminating_pods_are_no_replacement() -> None:
    """A pod that goes again proves nothing."""
    story = Story(several(OLD, 4))
    story.round(None)
    story.pods.append(terminating(named(NEW, "gone")))
    proof = next(iter(story.scene.plan().memory.proofs.values()))
    assert (len(proof.awaited), proof.is_proven) == (1, False)


def test_part_of_the_pods_judges_nobody() -> None:
    """A plan for some pods alone has not seen the replacements."""
    story = Story(several(OLD, 4))
    story.round(NEW)
    around = PlanOptions(only=frozenset({("default", "web-1")}))
    found = story.scene.plan(around)
    assert len(next(iter(found.memory.proofs.values())).awaited) == 1


# --- leaders and followers


OF_LEADERS, OF_FOLLOWERS = (
    ("default", ObjectKey("", "StatefulSet", "web"), vpa) for vpa in ("leader", "follower")
)


def led(
    new: Sequence[str], *, minutes: float = 2, follower: Proof | None = None, replicas: int = 3
) -> Proof:
    """Return what is known of leaders some minutes after one was evicted; `new` are the roles of
    the pods that came since, empty for none.
    """
    known = frozenset({"x", "uid-web-1", "uid-web-2"})
    awaiting = Proof(ProofVersion("", 0, ()), awaited=("x",), since=NOW, known=known)
    proofs = {OF_LEADERS: awaiting}
    if follower is not None:
        proofs[OF_FOLLOWERS] = replace(
            awaiting, awaited=follower.awaited, known=known | follower.known
        )
    found = after_roles(new, Memory(proofs=proofs), minutes=minutes, replicas=replicas)
    return found.proofs[OF_LEADERS]


def after_roles(new: Sequence[str], memory: Memory, *, minutes: float, replicas: int) -> Memory:
    """Return what is remembered of a leader and a follower when pods of new roles have come."""
    names, items = ("leader", "follower"), [make.workload_json(replicas=replicas)]
    for role in names:
        selector = {"matchLabels": {"role": role}}
        items.append(make.vpa_json(role, mode="Recreate", selector=selector))
    old = [("web-1", "leader"), ("web-2", "follower")]
    for name, role in (*old, *((f"web-9-{role}-{n}", role) for n, role in enumerate(new))):
        labels = make.LABELS | ({"role": role} if role else {})
        items.append(named(running(container("app", "100m"), labels=labels), name))
    scene = Scene([], rules=OURS, memory=memory, whole=make.snapshot(*items))
    return replace(scene, now=NOW + minutes * MINUTE).plan().memory


NONE = Proof(ProofVersion("", 0, ()))


@cases(
    "new minutes follower awaits failures",
    {
        "roles are given late": (["follower"], 1.9, None, True, 0),
        "a follower came": (["follower"], 2, None, False, 1),
        "nobody's pod came": ([""], 2, None, False, 1),
        "a leader came as it was": (["leader"], 2, None, False, 1),
        "none came yet": ([], 2, None, True, 0),
        "it may be of another one": (["follower"], 2, replace(NONE, awaited=("y",)), True, 0),
        "it was of another one, and all are there": (
            ["follower"],
            2,
            replace(NONE, known=frozenset({"uid-web-9-follower-0"})),
            False,
            0,
        ),
    },
)
def test_a_leader_is_not_replaced_by_a_follower(
    new: Sequence[str], minutes: float, follower: Proof | None, awaits: bool, failures: int
) -> None:
    """Its eviction made another pod the leader, which would be evicted next, and so on."""
    found = led(new, minutes=minutes, follower=follower)
    assert (bool(found.awaited), found.failures) == (awaits, failures)


@cases(
    "new minutes canary stays",
    {
        "a leader came, a follower is awaited": (["leader"], 1, "y", True),
        "a leader came, and it is awaited": (["leader"], 1, "x", False),
        "a stranger came for the leader": (["", "follower"], 3, "y", True),
        "none came for the leader": (["follower"], 3, "y", True),
    },
)
def test_only_its_own_vpa_answers_for_a_canary(
    new: Sequence[str], minutes: float, canary: str, stays: bool
) -> None:
    """Two VPAs share an owner; a replacement of one says nothing of what the other evicted last."""
    known = frozenset({"x", "y", "uid-web-1", "uid-web-2"})
    leaders = Proof(ProofVersion("", 0, ()), awaited=("x",), since=NOW, known=known)
    followers = replace(leaders, awaited=("y",), since=NOW + HOUR)
    seen = {f"uid-web-9-follower-{number}" for number in range(2)}  # judged for the followers
    followers = replace(followers, known=known | seen)
    breaker = Breaker(is_open=True, canary=canary, until=NOW + HOUR, failures=1)
    memory = Memory(
        proofs={OF_LEADERS: leaders, OF_FOLLOWERS: followers},
        breakers=Breakers(namespaces={"default": breaker}),
    )
    found = after_roles(new, memory, minutes=minutes, replicas=3)
    assert found.proofs[OF_LEADERS].awaited == ()
    assert (found.breakers.canaries == {canary}) is stays


# --- the breaker


OPEN = Breaker(is_open=True, until=NOW, failures=1)  # and may send a canary
ALL_STOP = Breakers(OPEN)


def two_owners(memory: Memory, *, sizes: int = 4, now: datetime = NOW) -> dict[str, Reason]:
    """Return the reasons for two owners of four pods each."""
    items = [item for name in "ab" for item in group(name, *[OLD] * 4, replicas=sizes)]
    found = plan(make.snapshot(*items), OURS, ALL_GATES, memory, now)
    return {decision.pod: decision.reason for decision in found.decisions}


def test_an_open_breaker_lets_one_pod_go_in_the_whole_cluster() -> None:
    """The others wait for its replacement, whichever workload they belong to."""
    found = two_owners(Memory(breakers=ALL_STOP))
    assert list(found.values()).count(Reason.OUTSIDE_BOUNDS) == 1
    assert found["a-0"] is Reason.OUTSIDE_BOUNDS
    assert found["b-0"] is Reason.RECREATED_WITHOUT_CHANGE


def test_what_the_breakers_refuse_takes_no_place_under_a_budget() -> None:
    """Of one PodDisruptionBudget over two owners the first leaves what it may not use."""
    items = [item for name in "ab" for item in group(name, *[OLD] * 10)]
    version, known = of_group("a"), frozenset({f"uid-b-{number}" for number in range(1, 10)})
    a, b = (("default", ObjectKey("", "StatefulSet", name), name) for name in "ab")
    awaits = Proof(of_group("b"), awaited=("x",), since=NOW, known=known)
    memory = Memory(
        proofs={a: Proof(version, is_proven=True), b: awaits}, breakers=Breakers(is_trusted=False)
    )
    items[-10] = named(NEW, "b-0") | {"metadata": items[-10]["metadata"]}  # helped, so all may go
    snapshot = make.snapshot(*items, make.budget_json(allowed=4))
    decisions = plan(snapshot, OURS, ALL_GATES, memory, NOW).decisions
    assert [one.pod for one in decisions if one.action is Action.EVICT] == [
        "a-0", "a-1", "a-2", "b-1",
    ]  # fmt: skip


def of_group(name: str) -> ProofVersion:
    """Return what a proof of a group holds for now."""
    owner, vpa, *_ = group(name, OLD)
    return ProofVersion(read_vpa(vpa).uid, read_vpa(vpa).generation, read_workload(owner).template)


def test_while_a_canary_is_out_nobody_goes() -> None:
    """Nor before the pause is over."""
    key = ("default", ObjectKey("", "StatefulSet", "a"), "a")
    gone: dict[ProofKey, Proof] = {
        key: Proof(ProofVersion("", 0, ()), is_proven=True, awaited=("x",), known=frozenset({"x"}))
    }
    for breaker, proofs in (
        (replace(OPEN, canary="x", until=NOW + MINUTE), gone),
        (replace(OPEN, until=NOW + MINUTE), {}),
    ):
        found = two_owners(Memory(breakers=Breakers(breaker), proofs=proofs))
        assert found["b-0"] is Reason.RECREATED_WITHOUT_CHANGE
        assert Reason.OUTSIDE_BOUNDS not in found.values()


def test_a_closed_breaker_lets_each_workload_send_its_canary() -> None:
    """Each proves for itself."""
    found = two_owners(Memory())
    assert list(found.values()).count(Reason.OUTSIDE_BOUNDS) == 2


def test_the_breaker_learns_from_replacements() -> None:
    """Four useless evictions within ten minutes stop their namespace; one success ends it."""
    story = Story(several(OLD, 4), rules=replace(OURS, proof_pause=timedelta(), breaker_least=3))
    for _ in range(4):
        story.round(OLD)
    assert story.memory.breakers.of("default").is_open
    story.round(None)
    story.round(None)
    assert story.memory.breakers.canaries
    story.pods.append(named(NEW, "fixed"))
    story.round(NEW)
    assert not story.memory.breakers.of("default").is_open


def test_a_breakers_canary_without_an_answer_is_let_go() -> None:
    """Where no replacement comes, another pod may be asked."""
    story = Story(several(OLD, 5), memory=Memory(breakers=ALL_STOP))
    story.round(None, minutes=3)
    assert story.memory.breakers.canaries == {"uid-web-0"}
    plan = story.scene.plan()
    assert plan.memory.breakers.canaries == frozenset()


def test_a_canary_that_is_never_replaced_holds_up_all_for_a_while() -> None:
    """Its owner has no quota for another pod: after a pause one of another workload goes."""
    key = ("default", ObjectKey("", "StatefulSet", "a"), "a")
    version = ProofVersion("uid-a", 1, ())
    known = frozenset({"x", *(f"uid-a-{number}" for number in range(4))})
    out = Proof(version, awaited=("x",), since=NOW, known=known)
    breaker = OPEN.after_eviction("x", OURS, NOW)
    memory = Memory(proofs={key: out}, breakers=Breakers(breaker))
    counts = [
        list(two_owners(memory, sizes=5, now=NOW + minutes * MINUTE).values()).count(
            Reason.OUTSIDE_BOUNDS
        )
        for minutes in (1, 4, 5)
    ]
    assert counts == [0, 0, 1]


def test_an_open_breaker_lets_no_resize_become_an_eviction() -> None:
    """A refused resize waits like everybody else."""
    found = Scene(
        several(OLD, 4),
        mode="InPlaceOrRecreate",
        rules=OURS,
        memory=Memory(breakers=ALL_STOP),
    ).decision()
    assert (found.action, found.may_evict_instead) == (Action.RESIZE, False)


@pytest.mark.parametrize(("breakers", "left"), [(ALL_STOP, 1), (Breakers(is_trusted=False), 4)])
def test_who_was_refused_before_may_prove_for_all(breakers: Breakers, left: int) -> None:
    """Where resizes never work nobody else could; no more than may go while little is proven."""
    pause = Pause(Reason.RESIZE_ERROR, "refused", 1, NOW)
    pods = {
        f"uid-web-{number}": PodMemory("default", f"web-{number}", pause=pause)
        for number in range(24)
    }
    memory = Memory(breakers=breakers, pods=pods)
    found = Scene(several(OLD, 24), mode="InPlaceOrRecreate", rules=OURS, memory=memory)
    assert sum(one.may_evict_instead for one in found.decisions().values()) == left


def test_an_open_breaker_lets_one_pod_of_a_proven_workload_go() -> None:
    """What was proven before does not count while everything is stopped."""
    story = Story(several(OLD, 4))
    story.round(NEW)
    story.memory = story.scene.plan().memory
    assert evicted(story.scene.plan()) == 2
    story.memory = replace(story.memory, breakers=ALL_STOP)
    stopped = story.scene.plan()
    assert evicted(stopped) == 1
    assert reasons(stopped) == {Reason.RECREATED_WITHOUT_CHANGE}


def test_a_vpa_that_is_edited_all_the_time() -> None:
    """It evicts no more pods for nothing than one that stands still: with growing pauses."""
    story = Story(several(OLD, 4))
    count = 0
    for number in range(180):
        story.vpa = {"metadata": {"generation": 2 + number}}
        count += evicted(story.round(OLD))
    assert count == 6  # after 0, 5, 10, 20, 40 and 80 minutes more each time


RULES = replace(OURS, prove=Prove.DRY_RUN)
SCENE = Scene(several(running(container("app", "100m/100Mi")), 4), rules=RULES)


def planned(mode: str = "Recreate") -> tuple[ActionQueue, QueueStep]:
    """Return the first step of a workload that has proven nothing yet."""
    queue = replace(SCENE, mode=mode).plan().queues[0]
    return queue, queue.steps[0]


def created(requests: str, **annotations: str) -> Pod:
    """Return a pod as the API server would have created it."""
    return make.pod(container("app", requests), annotations=annotations or None)


def test_who_needs_a_trial() -> None:
    """The first pod of a workload that would be evicted, if trials are wanted."""
    _, step = planned()
    assert needs_trial(step, RULES)
    assert not needs_trial(step, OURS)
    assert not needs_trial(planned("InPlaceOrRecreate")[1], RULES)
    assert not needs_trial(replace(step, decision=replace(step.decision, needs_proof=False)), RULES)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (created("200m/200Mi"), False),
        (created("100m/100Mi"), True),
        (created("600m/200Mi"), True),
        (created("600m/200Mi", **{"vpaCpuStartupBoost/app": "{}"}), False),
        (make.pod(container("other")), False),
        (None, False),
    ],
)
def test_came_back_unchanged(pod: Pod | None, expected: bool) -> None:
    """It helps if what is recommended comes back; a boost may add cpu to it."""
    assert came_back_unchanged(planned()[1], pod) is expected


def test_without_numbers_there_is_nothing_to_judge() -> None:
    """Nobody knows what to expect."""
    _, step = planned()
    bare = replace(step, decision=replace(step.decision, numbers=None))
    assert not came_back_unchanged(bare, created("1"))


def test_a_useless_trial_stops_the_workload() -> None:
    """Like a useless eviction, but not for long: nobody was evicted."""
    queue, step = planned()
    memory = after_useless_trial(Memory(), queue, step, RULES, NOW)
    (proof,) = memory.proofs.values()
    assert (proof.failures, proof.awaited, proof.known) == (1, (), frozenset())
    assert not proof.allows(RULES, NOW)
    assert proof.allows(RULES, NOW + timedelta(seconds=10))
    again = after_useless_trial(memory, queue, step, RULES, NOW)
    (proof,) = again.proofs.values()
    assert proof.failures == 2
    assert not proof.allows(RULES, NOW + timedelta(seconds=19))


def test_what_was_evicted_in_an_outage_is_tried_once_more() -> None:
    """At once, and its verdict counts against neither its namespace nor the cluster."""
    story = Story(several(OLD, 4))
    story.round(OLD)
    around = PlanOptions(outage=Outage(NOW - MINUTE, NOW + MINUTE / 2))
    judged = story.scene.plan(around)
    assert judged.memory.breakers == Breakers()
    story.memory = judged.memory
    assert (evicted(story.scene.plan()), evicted(story.scene.plan(around))) == (0, 1)
    away = replace(around, webhook_is_healthy=False)
    assert evicted(story.scene.plan(away)) == 0
