"""Pods on trial, made as their owner would make them; and calls without an answer."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from itertools import count
from typing import cast

import pytest

from app.model.errors import ClusterError, Invalid, NotSent, Refused, Unavailable
from app.model.kinds import ObjectKey, owner_key
from app.model.pods import Pod
from app.ports import PODS, REPLICA_SETS, Cluster, PatchKind, Ref
from app.updater.calls import PodCalls, dry_run_pod
from app.updater.core.decisions import PodChange
from tests import make
from tests.cases import cases
from tests.faults import Fault
from tests.updater.stage import LEASE, Call, Stage, small, staged, vpa

POD = make.running(make.pod_json())


def trial(stage: Stage, owner: ObjectKey) -> Pod | None:
    """Create a pod of an owner on trial."""
    return dry_run_pod(cast("Cluster", stage.asked), owner, POD)


@pytest.fixture
def stage() -> Stage:
    """A cluster with a Deployment."""
    found = Stage()
    found.apply(small(replicas=2))
    found.run(5)
    return found


def replica_set(stage: Stage) -> ObjectKey:
    """Return the owner of the pods."""
    (found,) = stage.sandbox.cluster.list(REPLICA_SETS, "default").items
    return owner_key("apps/v1", "ReplicaSet", found["metadata"]["name"])


def test_a_trial_is_a_pod_of_its_owner(stage: Stage) -> None:
    """It has the labels, the owner and the containers of the next pod, and is not stored."""
    owner = replica_set(stage)
    found = trial(stage, owner)
    assert found is not None
    assert found.labels["app"] == "web"
    assert found.controller is not None
    assert found.controller.key == owner
    assert found.name.startswith(owner.name)
    assert [item.name for item in found.containers] == ["app"]
    assert len(stage.pods()) == 2


@pytest.mark.parametrize("error", [Refused("exceeded quota"), Invalid("no"), Unavailable("down")])
def test_a_trial_that_fails_tells_nothing(stage: Stage, error: ClusterError) -> None:
    """Whatever was refused, it is not the webhook's fault."""
    stage.faults.order(Fault(error, "create", PODS))
    assert trial(stage, replica_set(stage)) is None


@cases(
    "owner is_known",
    {
        "custom": (owner_key("example.com/v1", "Gadget", "web"), False),
        "gone": (owner_key("apps/v1", "ReplicaSet", "gone"), False),
        "built in": (owner_key("apps/v1", "Deployment", "web"), True),
    },
)
def test_owners_without_a_template(stage: Stage, owner: ObjectKey, is_known: bool) -> None:
    """Of a custom or missing owner nothing can be told; any built-in one has a template."""
    assert (trial(stage, owner) is not None) is is_known


SILENCE = Unavailable("no answer in time")
one_by_one = partial(staged, "--update-concurrency=1")  # pods that should be twice as big


def silent(
    stage: Stage, verb: str, *, name: str = "", done: bool = False, times: int = 9999
) -> None:
    """Let calls about pods stay without an answer."""
    stage.faults.order(Fault(SILENCE, verb, PODS, name=name, times=times, too_late=done))


def looks(stage: Stage) -> int:
    """Return how often a pod was asked about."""
    return sum(call.verb == "get" and call.name != LEASE for call in stage.asked.calls)


@pytest.mark.parametrize("verbs", [("evict",), ("evict", "get")], ids=["evictions", "all"])
@pytest.mark.parametrize("flags", [(), ("--prove=dry-run",)])
def test_unconfirmed_evictions_that_do_not_help(
    verbs: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    """Replacements are awaited and judged as if there had been an answer; pauses grow."""
    stage = one_by_one(*flags)
    for verb in verbs:
        silent(stage, verb, done=verb == "evict")
    if flags:
        silent(stage, "create")  # no trial tells beforehand
    stage.webhook_works = False
    stage.run(32 * 60)
    assert len(stage.evicted()) == 3  # after five minutes, and after ten more
    assert "RecreatedWithoutChange" in stage.reasons()


def test_what_the_watch_shows_done_is_done() -> None:
    """However long the API server is silent; and it is counted once."""
    stage = one_by_one("--prove=off")
    silent(stage, "evict", done=True, times=1)
    silent(stage, "get")
    stage.round()
    assert stage.metric("evicted_pods_total") == len(stage.evicted()) - 1
    stage.run(5)
    assert stage.metric("evicted_pods_total") == len(stage.evicted())
    stage.run(300)
    assert stage.metric("evicted_pods_total") == len(stage.evicted()) == 4


def test_what_the_watch_never_shows_was_not_done() -> None:
    """The watch may lag; when it had its time the pod may be tried again."""
    stage = one_by_one()
    silent(stage, "evict", times=1)
    silent(stage, "get")
    stage.round()
    stage.run(115)
    assert stage.evicted() == []
    assert "ProofPending" in stage.reasons()
    stage.run(70)
    assert len(stage.evicted()) >= 1


def test_one_pod_that_cannot_be_read_holds_up_no_other() -> None:
    """Each of the others is settled as soon as it may be."""
    stage = one_by_one("--prove=off")
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
    assert stage.evicted() == [second]


def test_a_clock_that_is_set_in_a_silence() -> None:
    """An unconfirmed call is as old as it is; what was not done is taken back all the same."""
    stage = one_by_one()
    silent(stage, "evict", times=1)
    silent(stage, "get", times=1)
    stage.round()
    stage.wall.ahead = timedelta(hours=1)
    stage.run(20)
    stage.round()
    assert len(stage.evicted()) == 1


def test_ends_of_boosts_do_not_wait_for_unconfirmed_calls() -> None:
    """No pod with an unconfirmed call is asked about while boosts end."""
    stage = one_by_one("--prove=off")
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


@pytest.mark.parametrize("is_switched_off", [True, False])
def test_a_call_that_is_not_made_replaces_no_unconfirmed_one(is_switched_off: bool) -> None:
    """When a second call comes to nothing at the last look, or is not sent, the first counts."""
    stage = one_by_one("--prove=off", mode="InPlaceOrRecreate", replicas=2)
    silent(stage, "patch", times=1)
    silent(stage, "get")
    stage.round()
    (name,) = (call.name for call in stage.asked.calls if call.verb == "patch")
    pod = Ref(PODS, "default", name)
    marked = {"metadata": {"annotations": {"example.com/mark": ""}}}
    stage.sandbox.cluster.patch(pod, marked, kind=PatchKind.MERGE)
    stage.clock.advance(14)
    looks_of_round = count(1)

    def switch_off() -> None:
        if next(looks_of_round) == 3:  # after those of the plan and of the first check
            stage.apply(vpa(mode="Off"))
            stage.run_watch()

    if is_switched_off:
        stage.before_look = switch_off
    else:
        stage.faults.order(Fault(NotSent("not sent"), "patch", PODS, name=name))
    stage.round()
    assert (stage.carried.count("patch", "resize"), stage.reasons()[0]) == (0, "PlanOutdated")
    resize = Ref(PODS, "default", name, subresource="resize")
    path = "/spec/containers/0/resources/requests"
    asked = [{"op": "replace", "path": path, "value": {"cpu": "200m", "memory": "200Mi"}}]
    stage.sandbox.cluster.patch(resize, asked)  # the first call arrives at last
    stage.run(10)
    assert stage.metric("in_place_updated_pods_total") == 1


def test_marks_without_time(caplog: pytest.LogCaptureFixture) -> None:
    """A resize that was accepted counts, also when its marks are not sent any more."""
    stage = one_by_one("--prove=off", mode="InPlaceOrRecreate", replicas=2)
    stage.faults.order(Fault(NotSent("not sent"), "patch", PODS))
    calls = PodCalls(lambda: stage.faults.before(stage.sandbox.cluster))
    calls.annotate(POD, PodChange(annotations=(("example.com/mark", ""),)))
    assert [record.message for record in caplog.records] == ["pod not annotated"]


def test_a_new_term_has_no_unconfirmed_calls() -> None:
    """Other processes may have led meanwhile; and a process that does not lead does nothing."""
    stage = one_by_one("--prove=off", mode="InPlaceOrRecreate")
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


def test_a_call_that_could_not_be_settled_is_settled_later() -> None:
    """An error of ours on the way loses nothing."""
    stage = one_by_one("--prove=off", mode="InPlaceOrRecreate", replicas=2)
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
