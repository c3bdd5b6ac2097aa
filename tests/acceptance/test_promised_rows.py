"""What design papers promise of running pods, beside what every suite looks at."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.model.fields import Json
from app.model.update_modes import UpdateMode
from app.ports import PODS
from tests.acceptance.rights import allow_leases
from tests.acceptance.rows import Rows, row_test
from tests.acceptance.space import APP, SMALL, Box, boost, mode, selecting
from tests.acceptance.stage import LARGE, LOAD, RESIZING, Stage, ready_since
from tests.acceptance.test_updating_rows import FAST, FLAGS, HIGHER_CPU
from tests.acceptance.webhook import beating
from tests.cluster.api import Refusal
from tests.cluster.numbers import total
from tests.cluster.programs import eventually

__all__ = ["FLAGS"]

WEBHOOK = True
WORKERS = {"updater": (*FAST, "--in-place-deferred-resize-timeout=20s")}
ROWS = Rows()
test_row = row_test(ROWS)

LOWER_MEMORY: Json = {"resources": ["memory"], "changeRequirement": "TargetLowerThanRequests"}
BOTH: Json = {"evictionRequirements": [HIGHER_CPU, LOWER_MEMORY]}
TWO = (Box("hamster", "100m/100Mi"), Box("hamster2", "100m/100Mi"))
STARTING = "startup: 1 6, cpu: constant 10m"  # six seconds at one core
PROBE: Json = {"readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}}
LONG_STARTING = "startup: 1 60, cpu: constant 10m"
SLACK_SECONDS = 20.0  # what a machine may add on which all rows start at the same moment


# --- mode UpscaleOnly


@ROWS.row("SX-01", "SX-02")
def upscale_only(stage: Stage) -> None:
    """Nobody is evicted to get less, but who comes anew gets it."""
    stage.start(SMALL if stage.name == "SX-01" else LARGE)
    stage.vpa("UpscaleOnly", recommended="200m/200Mi")
    if stage.name == "SX-01":
        stage.evicts()
    else:
        stage.quiet()
        stage.delete_one()
        assert stage.requests() == ["200m", "500m", "500m"]


@ROWS.row("SX-03")
def changed_mode(stage: Stage) -> None:
    """A change of the mode is obeyed in the next round, there and back."""
    stage.start(LARGE, replicas=6)
    stage.budget(1)  # one after another, so that some are left when the mode changes
    stage.vpa("UpscaleOnly", recommended="200m/200Mi")
    stage.quiet()
    stage.change_vpa({"updatePolicy": {"updateMode": "Recreate"}})
    stage.evicts()
    stage.change_vpa({"updatePolicy": {"updateMode": "UpscaleOnly"}})
    stage.updater.wait_rounds(2)
    stage.settle()
    before = stage.uids()
    assert "500m" in stage.requests(), "some are left to be evicted"
    stage.updater.wait_rounds()
    assert stage.uids() == before


# --- eviction requirements


@ROWS.row("SX-04", "SX-05", "SX-06", "SX-10")
def requirements(stage: Stage) -> None:
    """All requirements must be met, each by some container."""
    one, two, policy, evicted = {
        "SX-04": ("200m/50Mi", "100m/100Mi", BOTH, True),
        "SX-05": ("200m/200Mi", "100m/100Mi", BOTH, False),
        "SX-06": ("200m/200Mi", "100m/100Mi", {}, True),
        "SX-10": ("200m/100Mi", "100m/50Mi", BOTH, True),
    }[stage.name]
    stage.start(*TWO)
    stage.vpa("Recreate", policy=policy)
    stage.recommend(one, more={"hamster2": two})
    stage.evicts_only_if(evicted)


@ROWS.row("SX-07", "SX-08", "SX-09")
def overlapping_requirements(stage: Stage) -> None:
    """A resource stands in one requirement at most."""
    both = ["cpu", "memory"]
    lists = {"SX-07": [["cpu"], ["cpu"]], "SX-08": [both, ["cpu"]], "SX-09": [both, ["memory"]]}
    word = "TargetHigherThanRequests"
    found = [{"resources": names, "changeRequirement": word} for names in lists[stage.name]]
    with pytest.raises(Refusal, match="evictionRequirements"):
        stage.vpa("Recreate", policy={"evictionRequirements": found})


# --- startup boosts


def tripled(**cpu: object) -> Json:
    """Return the spec of a VPA that triples cpu at the start."""
    return boost(type="Factor", factor=3, **cpu)


def boosted(
    stage: Stage, spec: Json, *boxes: Box, mode: str = "Recreate", is_probed: bool = False
) -> None:
    """Start pods that are boosted when they come."""
    boxes = boxes or (SMALL,)
    stage.vpa(mode, **spec)
    stage.recommend("100m/100Mi", more={box.name: "100m/100Mi" for box in boxes})
    if is_probed:
        stage.start(*boxes, replicas=0, annotations={LOAD: STARTING}, change=probe)
    else:
        stage.start(*boxes, replicas=0)
    stage.scale(2)


@ROWS.row("SX-11", "SX-12", "SX-13", "SX-14")
def boosts_end(stage: Stage) -> None:
    """Soon after Ready and the duration, a pod asks for less cpu, and is not evicted for it."""
    duration = {"durationSeconds": 15} if stage.name in ("SX-12", "SX-14") else {}
    is_probed = stage.name in ("SX-13", "SX-14")
    boosted(stage, tripled(**duration), is_probed=is_probed)
    if is_probed or duration:
        assert stage.requests() == ["300m", "300m"]
    stage.resizes(SMALL)
    stage.eventually(lambda: len(waits(stage)) == 2, "both resizes are told of")
    least = duration.get("durationSeconds", 0)
    assert all(least <= found <= least + SLACK_SECONDS for found in waits(stage))


def waits(stage: Stage) -> list[float]:
    """Return how long after it was ready each pod was resized, as the cluster tells."""
    resized = stage.told("InPlaceResizedByVPA")
    ready = {pod["metadata"]["uid"]: ready_since(pod) for pod in stage.pods()}
    told = resized.keys() & ready.keys()  # events come a little later than what they tell
    return [(resized[uid] - ready[uid]).total_seconds() for uid in told]


@ROWS.row("SX-15")
def some_or_all(stage: Stage) -> None:
    """A boost of some containers ends in place, as one of all does."""
    policies = [{"containerName": APP, **tripled(durationSeconds=10)}]
    boosted(stage, {"resourcePolicy": {"containerPolicies": policies}}, *TWO)
    assert stage.requests() == ["300m", "300m"]
    assert stage.requests("hamster2") == ["100m", "100m"]
    stage.resizes(*TWO)
    policies.append({**policies[0], "containerName": "hamster2"})
    stage.change_vpa({"resourcePolicy": {"containerPolicies": policies}})
    stage.updater.wait_rounds(2)
    stage.admin.delete_all(PODS, stage.space.name)
    stage.eventually(lambda: stage.requests() == ["300m", "300m"], "new pods")
    assert stage.requests("hamster2") == ["300m", "300m"]
    stage.resizes(*TWO)


@ROWS.row("SX-16")
def stuck_boost(stage: Stage) -> None:
    """A pod whose boost cannot be ended is never evicted for it, and is told of."""
    boosted(stage, tripled(durationSeconds=20))
    stage.refuse("resize")
    stage.wait_ready(2)
    stage.updater.wait_rounds(20)
    stage.quiet()
    assert stage.requests() == ["300m", "300m"]
    stage.refuse_nothing()
    stage.resizes(SMALL)


@ROWS.row(*(f"SX-17 {mode}" for mode in UpdateMode))
def back_to_what(stage: Stage) -> None:
    """A pod goes back to its spec in mode Off, else to what is recommended now, even if more."""
    mode = stage.name.partition(" ")[2]
    boosted(stage, tripled(durationSeconds=20), Box(requests="150m/"), mode=mode)
    stage.wait_ready(2)
    before = stage.uids()
    stage.recommend("400m/")
    cpu = "150m" if mode == "Off" else "400m"
    stage.eventually(lambda: stage.requests() == [cpu, cpu], f"pods ask for {cpu}")
    assert stage.uids() == before


@ROWS.row("SX-18")
def boosted_only(stage: Stage) -> None:
    """A container that takes no part otherwise is boosted and unboosted all the same."""
    cpu = {"type": "Quantity", "quantity": "2", "durationSeconds": 15}
    policy = {"containerName": APP, "mode": "Off", "startupBoost": {"cpu": cpu}}
    boosted(stage, {"resourcePolicy": {"containerPolicies": [policy]}})
    assert stage.requests() == ["2100m", "2100m"]
    stage.resizes(SMALL)
    stage.recommend("900m/900Mi")
    stage.quiet()
    assert stage.requests() == ["100m", "100m"]


@ROWS.row("SX-19")
def switched_off(stage: Stage) -> None:
    """A factor of one switches the boost off for a container."""
    policy = {"containerName": "hamster2", "startupBoost": {"cpu": {"type": "Factor", "factor": 1}}}
    spec = {"resourcePolicy": {"containerPolicies": [policy]}, **tripled(durationSeconds=20)}
    boosted(stage, spec, *TWO)
    assert stage.requests() == ["300m", "300m"]
    assert stage.requests("hamster2") == ["100m", "100m"]


# --- selectors


@ROWS.row("SX-21", "SX-22", "SX-23")
def two_for_one_target(stage: Stage) -> None:
    """Two VPAs for one target must select by other values of the same key."""
    first, second, allowed = {
        "SX-21": ({}, selecting(role="leader"), False),
        "SX-22": (selecting(role="leader"), selecting(zone="a"), False),
        "SX-23": (selecting(role="leader"), selecting(role="follower"), True),
    }[stage.name]
    stage.vpa(name="first", **first)
    if allowed:
        stage.vpa(name="second", **second)
    else:
        with pytest.raises(Refusal, match="first"):
            stage.vpa(name="second", **second)


@ROWS.row("SX-24")
def leaders(stage: Stage) -> None:
    """A pod that becomes the leader gets the leader's size where it is; all share one budget."""
    shared(stage)
    before = stage.uids()
    stage.relabel("hamster-0", "leader")
    stage.eventually(lambda: stage.requests() == ["100m"] * 4 + ["400m"], "the leader is larger")
    assert stage.uids() == before
    assert not stage.events("EvictedByVPA")


@ROWS.row("SX-24 budget")
def one_budget(stage: Stage) -> None:
    """Of a Deployment's four pods two may go, however many VPAs share them."""

    def change(template: Json) -> None:
        follow(template)
        probe(template)

    stage.start(replicas=4, annotations={LOAD: LONG_STARTING}, change=change)
    for pod in stage.pods()[:2]:
        stage.relabel(pod["metadata"]["name"], "leader")
    before = stage.uids()
    for role in ("leader", "follower"):
        stage.vpa("Recreate", name=role, recommended="400m/400Mi", **selecting(role=role))
    stage.eventually(lambda: len(before & stage.uids()) == 2, "two went")
    stage.updater.wait_rounds(5)  # in which nobody new gets ready
    assert len(before & stage.uids()) == 2


@ROWS.row("SX-25")
def guests(stage: Stage) -> None:
    """A pod that no VPA of its owner selects is left alone, and that is told."""
    shared(stage)
    stage.relabel("hamster-4", "guest")
    stage.recommend("200m/100Mi", name="follower")
    stage.eventually(lambda: stage.requests() == ["100m"] + ["200m"] * 4, "the others are larger")
    stage.updater.wait_rounds()
    assert stage.requests() == ["100m"] + ["200m"] * 4
    assert "NoVPASelectorMatch" in stage.reasons()


def follow(template: Json) -> None:
    """Let pods be followers."""
    template["metadata"]["labels"]["role"] = "follower"


def probe(template: Json) -> None:
    """Let containers say when they are ready."""
    for each in template["spec"]["containers"]:
        each.update(PROBE)


def shared(stage: Stage) -> None:
    """Let a leader's VPA and a followers' VPA share a StatefulSet of five."""
    stage.start(kind="StatefulSet", replicas=5, change=follow)
    for role, cpu in (("leader", "400m"), ("follower", "100m")):
        stage.vpa("InPlaceOrRecreate", name=role, kind="StatefulSet", **selecting(role=role))
        stage.recommend(f"{cpu}/100Mi", name=role)


# --- numbers, resizes that fail, living VPAs

NUMBERS_OF_EVICTING = (
    "controlled_pods_total",
    "evictable_pods_total",
    "vpas_with_evictable_pods_total",
    "vpas_with_evicted_pods_total",
)
FAILED = "vpa_updater_failed_in_place_update_attempts_total"
NUMBERS_OF_RESIZING = (
    "in_place_updatable_pods_total",
    "vpas_with_in_place_updatable_pods_total",
    "vpas_with_in_place_updated_pods_total",
)


@ROWS.row("SX-26", alone=True)
def monitoring(stage: Stage) -> None:
    """Every number moves with what is done, and tells of which VPA."""
    allow_leases(stage.admin, "updater", stage.space.name)
    place = f"--admission-controller-status-lease-namespace={stage.space.name}"
    updater = stage.worker("updater", *FAST, place)

    def moves(*names: str, **labels: str) -> None:
        left = {f"vpa_updater_{name}" for name in names}

        def look() -> bool:
            page = updater.page("/metrics")
            left.difference_update([name for name in left if total(page, name, **labels) > 0])
            assert not left, left
            return True

        # What is told of a round stands until the next one.
        eventually(look, "numbers move", seconds=180, every=0.3)

    ours = {"vpa_size_log2": "1", "vpa_namespace": stage.space.name, "vpa_name": "vpa"}
    stage.start()
    stage.vpa("Recreate", recommended="200m/200Mi")
    moves("admission_controller_status_invalid_total", reason="error")
    with beating(stage.admin, stage.space.name):
        moves(*NUMBERS_OF_EVICTING, update_mode="Recreate", vpa_size_log2="1")
        moves("evicted_pods_total", update_mode="Recreate", **ours)
        for step in ("ListVPAs", "ListPods", "FilterPods", "AdmissionInit", "EvictPods", "total"):
            moves("execution_latency_seconds_count", step=step)
        stage.change_vpa(mode("InPlace"))
        stage.recommend("999/200Mi")
        failed = "failed_in_place_update_attempts_total"
        moves(failed, reason="InPlaceUpdateInfeasible", **ours)
        moves("in_place_infeasible_skip_pods_total", **ours)
        stage.recommend("300m/300Mi")
        moves(*NUMBERS_OF_RESIZING, vpa_size_log2="1")
        moves("in_place_updated_pods_total", **ours)
        stage.refuse("eviction")
        stage.change_vpa(mode("Recreate"))
        stage.recommend("500m/500Mi")
        failed = "failed_eviction_attempts_total"
        moves(failed, reason="EvictionError", update_mode="Recreate", **ours)


@ROWS.row("SX-28", "SX-29", alone=True)
def no_eviction_instead(stage: Stage) -> None:
    """A resize that fails is not followed by an eviction that would not be allowed."""
    stage.worker("updater", *FAST, "--in-place-skip-disruption-budget")
    stage.start(replicas=1 if stage.name == "SX-28" else 3)
    stage.refuse("resize")
    needed: Json = {} if stage.name == "SX-28" else {"evictionRequirements": [LOWER_MEMORY]}
    stage.vpa("InPlaceOrRecreate", policy=needed, recommended="200m/200Mi")
    stage.eventually(lambda: stage.updater.number(FAILED) >= 1, "a resize failed")
    stage.quiet()


@ROWS.row("SX-30")
def infeasible(stage: Stage) -> None:
    """In mode InPlace what no node can give is not asked for again, less of it is."""
    place = {"vpa_namespace": stage.space.name}
    stage.start(replicas=2)
    stage.vpa("InPlace", recommended="999/100Mi 200m/100Mi 200m/100Mi")
    stage.quiet()
    skipped = stage.updater.number("vpa_updater_in_place_infeasible_skip_pods_total", **place)
    assert stage.updater.number(FAILED, **place) <= 2
    assert skipped > 2
    stage.recommend("1/100Mi")
    stage.resizes(Box(requests="1/100Mi"))
    before = stage.updater.number(FAILED, **place)
    stage.recommend("999/100Mi")
    stage.eventually(lambda: stage.updater.number(FAILED, **place) > before, "it is tried anew")
    assert not stage.events("EvictedByVPA")


@ROWS.row("SX-31", "SX-31 deferred")
def long_lasting(stage: Stage) -> None:
    """In mode InPlace a resize that takes long is neither repeated nor followed by an eviction."""

    def generations() -> list[int]:
        return sorted(pod["metadata"]["generation"] for pod in stage.pods())

    is_under_way: Callable[[], object]
    if stage.name == "SX-31":
        stage.start(replicas=2, annotations={RESIZING: "after 10m"})
        recommended, is_under_way = "200m/200Mi", stage.is_resizing
    else:
        stage.start(replicas=2, on="crowd-2")
        recommended, is_under_way = "4/100Mi 200m/100Mi 200m/100Mi", stage.deferred
    stage.vpa("InPlace", recommended=recommended)
    stage.eventually(is_under_way, "a resize is under way")
    stage.updater.wait_rounds(3)
    before = generations()
    stage.quiet(40)
    assert generations() == before


@ROWS.row("SX-33")
def changed_replicas(stage: Stage) -> None:
    """A change of minReplicas is obeyed."""
    stage.start(replicas=1)
    stage.vpa("Recreate", recommended="200m/200Mi")
    stage.quiet()
    stage.change_vpa({"updatePolicy": {"minReplicas": 1}})
    stage.evicts()


@ROWS.row("LI-04", "LI-05", alone=True)
def flags(stage: Stage) -> None:
    """Flags make groups of one, and lives of a minute, enough."""
    flag, replicas, lower = {
        "LI-04": ("--min-replicas=1", 1, "200m/200Mi"),
        "LI-05": ("--in-recommendation-bounds-eviction-lifetime-threshold=10s", 3, "50m/50Mi"),
    }[stage.name]
    stage.worker("updater", *FAST, "--use-admission-controller-status=false", flag)
    stage.start(replicas=replicas)
    stage.vpa("Recreate", recommended=f"200m/200Mi {lower} 300m/300Mi")
    stage.evicts()
