"""Rounds of the updater on a whole cluster: what is done, in which order, and what is told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.commands.explain_past import cluster_events
from app.diagnosis.core.pod_events import PodEvents
from app.kube.files import Unreadable
from app.model.fields import Json
from app.ports import PODS, VPAS, Ref
from app.runtime.exposition import render
from tests import make
from tests.cases import cases
from tests.sandbox_objects import pods_in
from tests.updater.stage import Call, Stage, in_other, small, staged, vpa

BOOST = make.boost_json(factor=2)


def workloads(*names: str, flags: Sequence[str] = (), replicas: int = 2) -> Stage:
    """Return a cluster with some workloads whose pods should be twice as big."""
    stage = Stage(*flags)
    stage.apply(*(small(name, replicas=replicas) for name in names))
    stage.apply(*(vpa(name, target=f"Deployment/{name}") for name in names))
    stage.run(20)
    for name in names:
        stage.recommend("200m/200Mi = =", name)
    return stage


# --- rounds


def test_the_first_round_comes_at_once() -> None:
    """No interval passes after a start; from then on rounds keep their distance."""
    stage = staged("--prove=off")
    stage.restart()
    stage.run(1)
    assert stage.asked.count("evict") == 2
    stage.run(50)
    assert stage.asked.count("evict") == 2
    stage.run(10)
    assert stage.asked.count("evict") == 4


@pytest.mark.parametrize(("works", "counts"), [(True, [4, 18]), (False, [4, 4])])
def test_after_a_start_few_pods_go_first(works: bool, counts: list[int]) -> None:
    """Of however many workloads; when one of them came back right the others follow soon."""
    names = [f"web-{number}" for number in range(14)]
    stage = workloads(*names)
    stage.webhook_works = works
    stage.restart()
    found = []
    for seconds in (0.5, 10):
        stage.run(seconds)
        found.append(stage.carried.count("evict"))
    assert found == counts


def test_nothing_is_done_without_leading() -> None:
    """A standby makes no rounds, and counts as alive all the same."""
    stage = staged()
    stage.leads = False
    stage.restart()
    stage.run(300)
    assert stage.asked.calls == []
    assert stage.parts.updater.alive_at == pytest.approx(stage.clock.monotonic(), abs=0.2)


def test_a_process_that_leads_no_more_publishes_no_more() -> None:
    """Its last numbers would stay for ever, and with them the alerts that they raised."""
    stage = staged()
    stage.round()
    assert stage.metric("pod_decisions") == 4
    stage.leads = False
    stage.round()
    assert (stage.metric("pod_decisions"), stage.metric("controlled_pods_total")) == (0, 0)
    assert (stage.reasons(), stage.parts.decisions.round_at) == ([], None)
    assert stage.metric("evicted_pods_total") == 1  # what was counted stays
    stage.leads = True
    stage.round()
    assert stage.metric("pod_decisions") == 4


# --- proof


def test_a_useless_webhook_stops_its_workload() -> None:
    """Pods that come back unchanged are told of, and the pauses between them grow."""
    stage = staged()
    stage.webhook_works = False
    stage.run(1800)
    assert 2 <= stage.asked.count("evict") <= 4
    assert "RecreatedWithoutChange" in stage.reasons()
    assert stage.events("RecreatedWithoutChange")
    stage.webhook_works = True
    stage.run(1800)
    assert stage.requests() == ["200m"] * 4


@pytest.mark.parametrize(("works", "evictions"), [(True, 4), (False, 0)])
def test_a_trial_comes_before_the_canary(works: bool, evictions: int) -> None:
    """With --prove=dry-run a pod is created on trial; one that comes back unchanged stops all."""
    stage = staged("--prove=dry-run")
    stage.webhook_works = works
    stage.run(300)
    assert stage.asked.count("create") >= 1
    assert stage.asked.count("evict") == evictions
    assert ("RecreatedWithoutChange" in stage.reasons()) is not works
    assert len(pods_in(stage.sandbox, "default")) == 4


# --- pace


def test_the_rate_is_kept() -> None:
    """Evictions wait for their tokens; those that get none in a round are told so."""
    stage = staged("--prove=off", "--eviction-rate-limit=0.02", replicas=10)
    began = stage.clock.monotonic()
    stage.run(120)
    passed = stage.clock.monotonic() - began
    assert 2 <= stage.asked.count("evict") <= 1 + passed * 0.02
    assert "RateLimited" in stage.reasons()
    reason = "EvictionRateLimiterWaitFailed"
    assert stage.metric("failed_eviction_attempts_total", reason=reason) > 0
    stage.run(600)
    assert stage.requests() == ["200m"] * 10


def two_workloads(*flags: str) -> Stage:
    """Return a cluster in which one workload is to be evicted first, and one resized."""
    stage = Stage("--prove=off", "--update-concurrency=1", *flags)
    stage.apply(small("far"), vpa("far", target="Deployment/far"))
    stage.apply(small("near"), vpa("near", target="Deployment/near", mode="InPlaceOrRecreate"))
    stage.run(20)
    stage.recommend("400m/400Mi = =", "far")
    stage.recommend("200m/200Mi = =", "near")
    return stage


def moments(stage: Stage) -> dict[str, list[int]]:
    """Return in which second of a round which workload was acted upon."""
    found: dict[str, list[int]] = {}
    began = stage.clock.monotonic()

    def look(call: Call) -> None:
        if call.verb == "evict" or call.subresource == "resize":
            moment = round(stage.clock.monotonic() - began)
            found.setdefault(call.name.partition("-")[0], []).append(moment)

    stage.asked.before = look
    stage.round()
    return found


def test_namespaces_do_not_wait_for_one_another() -> None:
    """Each has the rate, and one whose tokens are used up holds up no other."""
    stage = two_workloads("--namespace-eviction-rate-limit=0.04")
    stage.leads = False
    stage.apply(in_other(small()), in_other(vpa()))
    stage.run(20)
    stage.leads = True
    stage.recommend("200m/200Mi = =", namespace="other")
    assert moments(stage) == {"far": [0, 25], "near": [0, 25], "web": [0, 25]}


def test_what_had_its_token_was_not_rate_limited() -> None:
    """A round that ends while its trial goes on is not the limiter's fault."""
    flags = ("--prove=dry-run", "--update-concurrency=1", "--eviction-rate-limit=0.04")
    stage = workloads("far", "near", flags=flags)

    def dawdle(call: Call) -> None:
        if call.verb == "create" and stage.asked.count("evict") == 1:
            stage.clock.advance(60)

    stage.asked.after = dawdle
    stage.round()
    assert stage.asked.count("evict") == 1
    assert stage.metric("failed_eviction_attempts_total") == 0


def test_what_waited_until_the_end_was_rate_limited() -> None:
    """A step that finds the round over when it may have a token again counts as such."""
    stage = two_workloads("--eviction-rate-limit=0.04")

    def dawdle(call: Call) -> None:
        if call.verb == "evict" and stage.asked.count("evict") == 2:
            stage.clock.advance(60)

    stage.asked.after = dawdle
    stage.round()
    reason = "InPlaceUpdateRateLimiterWaitFailed"
    assert stage.metric("failed_in_place_update_attempts_total", reason=reason) == 1
    assert "RateLimited" in stage.reasons()


def test_a_lost_lead_ends_the_waiting() -> None:
    """What waits for a token learns of it soon, and is told of it; it was not rate-limited."""
    stage = staged("--prove=off", "--update-concurrency=1", "--eviction-rate-limit=0.1")
    stage.sandbox.clock.call_later(5, lambda: setattr(stage, "leads", False))
    began = stage.clock.monotonic()
    stage.round()
    assert stage.clock.monotonic() - began < 6
    budget, outdated = "BudgetExhausted", "PlanOutdated"
    assert sorted(stage.reasons()) == [budget, budget, "Evicted", outdated]
    assert stage.metric("failed_eviction_attempts_total") == 0


def test_many_workers_do_the_same() -> None:
    """Owners are served side by side, each in its order; the outcome is the same."""
    names = [f"app-{number}" for number in range(12)]
    stage = workloads(*names, flags=("--prove=off", "--update-concurrency=8"), replicas=4)
    stage.run(61)
    assert stage.carried.count("evict") == 2 * len(names)
    stage.run(120)
    assert set(stage.requests()) == {"200m"}


# --- what is told


def test_a_vpa_carries_a_summary() -> None:
    """What is done about its pods stands on the VPA until it changes, if only because all go."""
    stage = staged("--prove=off", "--vpa-summaries")
    stage.run(61)
    assert stage.summary() == "True, Evicted: 4 pods: 2 BudgetExhausted, 2 Evicted"
    stage.run(180)
    assert stage.summary() == "False, NoChange: 4 pods: 4 NoChange"
    before = stage.asked.count("patch")
    stage.run(600)
    assert stage.asked.count("patch") == before
    stage.apply(small(replicas=0))
    stage.run(120)
    assert stage.summary() == "False, NoPods: no pods"


def test_summaries_must_be_asked_for() -> None:
    """Nothing is written to VPAs otherwise: it needs a right over all that is in them."""
    stage = staged()
    stage.run(120)
    assert stage.summary() is None


def test_overlaps_are_told_once() -> None:
    """Of two VPAs on the same pods the weaker one is told."""
    stage = staged()
    stage.apply(vpa("later"))
    stage.run(300)
    (told,) = stage.events("SelectorOverlap")
    assert told == "VPA web claims the same pods and comes first"


@pytest.mark.parametrize("mode", ["Off", "Initial", "Recreate"])
def test_pods_under_a_vpa_are_counted(mode: str) -> None:
    """Also those that nothing is done about, for their mode or for want of a webhook."""
    stage = staged(mode=mode)
    stage.webhook_beats = False
    stage.run(10 * 60)
    assert stage.metric("controlled_pods_total") == 4


def test_numbers_go_with_their_vpa() -> None:
    """A VPA that has no pods for a while keeps what was counted for it; a deleted one does not."""
    stage = staged("--prove=off")
    stage.run(61)
    stage.apply(small(replicas=0))
    stage.run(120)
    assert stage.metric("controlled_pods_total") == 0
    assert stage.metric("evicted_pods_total", vpa_name="web") == 2
    stage.apply(small(replicas=4))
    stage.run(61)
    assert stage.metric("controlled_pods_total") == 4
    stage.sandbox.cluster.delete(Ref(VPAS, "default", "web"))
    stage.run(61)
    assert stage.metric("evicted_pods_total", vpa_name="web") == 0
    assert stage.metric("controlled_pods_total") == 0
    assert len(stage.pods()) == 4


@cases(
    "mode spec evictions resizes",
    {
        "evicts": ("Recreate", {}, 2, 0),
        "resizes": ("InPlace", {}, 0, 3),
        "both": ("InPlaceOrRecreate", {}, 2, 3),
        "neither": ("Off", {}, 0, 0),
        "ends boosts": ("Off", {"startupBoost": BOOST}, 0, 1),
        "ends boosts of a container": (
            "Off",
            {"resourcePolicy": {"containerPolicies": [make.policy_json(boost=BOOST)]}},
            0,
            1,
        ),
        "resizes promoted pods": ("Recreate", {"selector": {"matchLabels": {"app": "web"}}}, 2, 3),
        "promoted or not": ("Initial", {"selector": {"matchLabels": {"app": "web"}}}, 0, 0),
    },
)
def test_failures_are_shown_before_the_first(
    mode: str, spec: Json, evictions: int, resizes: int
) -> None:
    """A counter is at zero before it counts, or an alert on its increase misses the first."""
    stage = staged()
    stage.apply(vpa(mode=mode, spec=spec))
    stage.round()
    page = render(stage.registry).decode()
    shown = [line for line in page.splitlines() if line.endswith(" 0.0")]
    for name, amount in (("eviction", evictions), ("in_place_update", resizes)):
        full = f"vpa_updater_failed_{name}_attempts_total{{"
        assert sum(line.startswith(full) for line in shown) == amount


def test_what_an_outage_held_up_is_caught_up() -> None:
    """A webhook that is back begins a round at once, and more follow as budgets allow."""
    stage = workloads(*[f"web-{number}" for number in range(5)], replicas=20)
    stage.run(200)
    assert stage.requests() == ["200m"] * 100
    stage.webhook_works = stage.webhook_beats = False
    stage.run(70)
    for pod in stage.pods():
        stage.sandbox.cluster.delete(Ref(PODS, "default", pod["metadata"]["name"]))
    stage.run(60)
    assert stage.requests() == ["100m"] * 100
    stage.webhook_works = stage.webhook_beats = True
    stage.beat()
    stage.run(10)
    assert stage.requests() == ["200m"] * 100


def test_what_happened_is_told_after_the_pod_and_the_updater_are_gone() -> None:
    """Events say when and why a pod was evicted, and are found by its name as `explain` asks."""
    stage = staged("--prove=off")
    before = {pod["metadata"]["name"] for pod in stage.pods()}
    stage.round()
    stage.run(120)
    stage.restart()
    evicted, *_ = sorted(before - {pod["metadata"]["name"] for pod in stage.pods()})
    problems: list[Unreadable] = []
    for namespace in ("", "default"):
        items = cluster_events(stage.sandbox.cluster, namespace, [evicted], problems)
        found = PodEvents(items).of("default", evicted)
        (event,) = (one for one in found if one.is_of_updater)
        assert event.reason == "EvictedByVPA"
        assert event.message.endswith(
            "VPA web: cpu 100m is below its lower bound 200m: 100m -> 200m; memory 100Mi -> 200Mi"
        )
    assert problems == []
