"""Pods on trial: made as their owner would make them, and never an obstacle."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.model.errors import ClusterError, Invalid, Refused, Unavailable
from app.model.kinds import ObjectKey, owner_key
from app.ports import PODS, REPLICA_SETS, PatchKind, Ref
from app.sandbox.clock import SteppedClock
from app.sandbox.sandbox import Sandbox
from app.updater.calls import dry_run_pod
from tests import make
from tests.faults import Fault, Faults
from tests.sandbox.worlds import container, deployment
from tests.sandbox_objects import pods_in
from tests.updater.stage import LEASE, Call, Stage, vpa

POD = make.running(make.pod_json())


class Trial:
    """A Deployment in a cluster."""

    def __init__(self) -> None:
        self.sandbox = Sandbox(SteppedClock())
        self.sandbox.apply(deployment("web", container(), replicas=2))
        self.sandbox.advance(5)
        self.faults = Faults()
        self.cluster = self.faults.before(self.sandbox.cluster)
        (found,) = self.sandbox.cluster.list(REPLICA_SETS, "default").items
        self.owner = owner_key("apps/v1", "ReplicaSet", found["metadata"]["name"])


def test_a_trial_is_a_pod_of_its_owner() -> None:
    """It has the labels, the owner and the containers of the next pod, and is not stored."""
    scene = Trial()
    found = dry_run_pod(scene.cluster, scene.owner, POD)
    assert found is not None
    assert found.labels["app"] == "web"
    assert found.controller is not None
    assert found.controller.key == scene.owner
    assert found.name.startswith(scene.owner.name)
    assert [item.name for item in found.containers] == ["app"]
    assert len(pods_in(scene.sandbox, "default")) == 2


@pytest.mark.parametrize("error", [Refused("exceeded quota"), Invalid("no"), Unavailable("down")])
def test_a_trial_that_fails_tells_nothing(error: ClusterError) -> None:
    """Whatever was refused, it is not the webhook's fault."""
    scene = Trial()
    scene.faults.order(Fault(error, "create", PODS))
    assert dry_run_pod(scene.cluster, scene.owner, POD) is None


@pytest.mark.parametrize(
    ("owner", "is_known"),
    [
        pytest.param(owner_key("example.com/v1", "Gadget", "web"), False, id="custom"),
        pytest.param(owner_key("apps/v1", "ReplicaSet", "gone"), False, id="gone"),
        pytest.param(owner_key("apps/v1", "Deployment", "web"), True, id="built in"),
    ],
)
def test_owners_without_a_template(owner: ObjectKey, is_known: bool) -> None:
    """Of a custom or missing owner nothing can be told; any built-in one has a template."""
    scene = Trial()
    assert (dry_run_pod(scene.cluster, owner, POD) is not None) is is_known


SILENCE = Unavailable("no answer in time")


def staged(*flags: str, replicas: int = 4, mode: str = "Recreate") -> Stage:
    """Return a cluster whose pods should be twice as big."""
    stage = Stage("--update-concurrency=1", *flags)
    small = container(requests={"cpu": "100m", "memory": "100Mi"}, limits={})
    stage.apply(deployment("web", small, replicas=replicas, load="noise: 0"), vpa(mode=mode))
    stage.run(20)
    stage.recommend("200m/200Mi = =")
    return stage


def silent(
    stage: Stage, verb: str, *, name: str = "", done: bool = False, times: int = 9999
) -> None:
    """Let calls about pods stay without an answer."""
    stage.faults.order(Fault(SILENCE, verb, PODS, name=name, times=times, too_late=done))


def evicted(stage: Stage) -> list[str]:
    """Return the pods that were really evicted, in order."""
    return [call.name for call in stage.carried.calls if call.verb == "evict"]


def looks(stage: Stage) -> int:
    """Return how often a pod was asked about."""
    return sum(call.verb == "get" and call.name != LEASE for call in stage.asked.calls)


@pytest.mark.parametrize("verbs", [("evict",), ("evict", "get")], ids=["evictions", "all"])
@pytest.mark.parametrize("flags", [(), ("--prove=dry-run",)])
def test_evictions_in_doubt_that_do_not_help(
    verbs: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    """Replacements are awaited and judged as if there had been an answer; pauses grow."""
    stage = staged(*flags)
    for verb in verbs:
        silent(stage, verb, done=verb == "evict")
    if flags:
        silent(stage, "create")  # no trial tells beforehand
    stage.webhook_works = False
    stage.run(32 * 60)
    assert len(evicted(stage)) == 3  # after five minutes, and after ten more
    assert "RecreatedWithoutChange" in stage.reasons()


def test_what_the_watch_shows_done_is_done() -> None:
    """However long the API server is silent; and it is counted once."""
    stage = staged("--prove=off")
    silent(stage, "evict", done=True, times=1)
    silent(stage, "get")
    stage.round()
    assert stage.metric("evicted_pods_total") == len(evicted(stage)) - 1
    stage.run(5)
    assert stage.metric("evicted_pods_total") == len(evicted(stage))
    stage.run(300)
    assert stage.metric("evicted_pods_total") == len(evicted(stage)) == 4


def test_what_the_watch_never_shows_was_not_done() -> None:
    """The watch may lag; when it had its time the pod may be tried again."""
    stage = staged()
    silent(stage, "evict", times=1)
    silent(stage, "get")
    stage.round()
    stage.run(115)
    assert evicted(stage) == []
    assert "ProofPending" in stage.reasons()
    stage.run(70)
    assert len(evicted(stage)) >= 1


def test_one_pod_that_cannot_be_read_holds_up_no_other() -> None:
    """Each of the others is settled as soon as it may be."""
    stage = staged("--prove=off")
    silent(stage, "evict", times=2)
    silent(stage, "get", times=2)
    asked = [call.name for call in stage.asked.calls]
    stage.round()
    first, second = dict.fromkeys(
        call.name for call in stage.asked.calls[len(asked) :] if call.verb == "evict"
    )
    silent(stage, "get", name=first)
    stage.run(20)
    stage.round()
    assert evicted(stage) == [second]


def test_a_clock_that_is_set_in_a_silence() -> None:
    """A doubt is as old as it is; what was not done is taken back all the same."""
    stage = staged()
    silent(stage, "evict", times=1)
    silent(stage, "get", times=1)
    stage.round()
    stage.wall.ahead = timedelta(hours=1)
    stage.run(20)
    stage.round()
    assert len(evicted(stage)) == 1


def test_ends_of_boosts_do_not_wait_for_doubts() -> None:
    """Nobody asks about pods in doubt while boosts end."""
    stage = staged("--prove=off")
    silent(stage, "evict", times=1)
    silent(stage, "get", times=1)
    stage.round()
    stage.clock.advance(20)
    body = {"metadata": {"annotations": {"vpaCpuStartupBoost/app": "{}"}}}
    stage.sandbox.cluster.patch(
        Ref(PODS, "default", stage.pods()[0]["metadata"]["name"]), body, kind=PatchKind.MERGE
    )
    stage.run_watch()
    assert stage.parts.boosts is not None
    before = len(stage.asked.calls)
    stage.parts.boosts.tick(stage.clock.now())
    assert {call.verb for call in stage.asked.calls[before:]} <= {"patch"}


def test_a_new_term_has_no_unconfirmed_calls() -> None:
    """Whoever led before may have been followed by others; and who does not lead does nothing."""
    stage = staged("--prove=off", mode="InPlaceOrRecreate")
    stage.faults.order(Fault(SILENCE, "patch", PODS, subresource="resize", too_late=True))
    silent(stage, "get", times=1)
    stage.round()
    stage.leads = False
    stage.run(30)
    assert looks(stage) == 1
    stage.parts.executor.forget()
    stage.leads = True
    stage.parts.executor.unconfirmed.tick(stage.clock.now())
    assert looks(stage) == 1


def test_a_lesson_that_is_not_learnt_comes_again() -> None:
    """An error of ours on the way loses nothing."""
    stage = staged("--prove=off", mode="InPlaceOrRecreate", replicas=2)
    stage.faults.order(Fault(SILENCE, "patch", PODS, subresource="resize", too_late=True))
    silent(stage, "get", times=1)
    stage.round()

    def fail(call: Call) -> None:
        raise ZeroDivisionError(call)

    stage.clock.advance(16)
    stage.asked.before = fail
    with pytest.raises(ZeroDivisionError):
        stage.parts.executor.unconfirmed.tick(stage.clock.now())
    stage.asked.before = lambda _call: None
    stage.run(100)
    assert stage.metric("in_place_updated_pods_total") == stage.carried.count("patch", "resize")
    assert stage.requests() == ["200m"] * 2
