"""A pod that begins to lead is resized at once, and VPAs are told who leads."""

from __future__ import annotations

from app.model.errors import ClusterError, NotFound, Refused, Unavailable
from app.model.times import rfc3339
from app.ports import POD_METRICS, PODS, Ref
from app.runtime.exposition import render
from tests import make
from tests.cases import cases
from tests.cluster.numbers import total
from tests.faults import Fault
from tests.updater import stage as staging
from tests.updater.stage import Stage

ROLE = {"plumbline/role-lease": "role=web"}
SMALL, BIG = "100m", "400m"
MINUTE = 60.0


def held(stage: Stage, holder: str) -> None:
    """Let a pod hold the Lease from now on."""
    stage.apply(make.lease_json(holder, acquired=rfc3339(stage.clock.now())))


def staged(*flags: str, stage: Stage | None = None) -> Stage:
    """Return three pods of followers' size, of which web-0 leads and has a leader's size."""
    stage = stage or Stage("--role-leases", *flags)
    for role in ("leader", "follower"):
        selector = {"selector": {"matchLabels": {"role": role}}}
        item = staging.vpa(role, target="StatefulSet/web", mode="InPlaceOrRecreate", spec=selector)
        item["metadata"]["annotations"] = ROLE
        stage.apply(item)
    stage.run(1)
    found = staging.small(replicas=3) | {"kind": "StatefulSet"}
    found["spec"]["serviceName"] = "web"
    stage.apply(found)
    stage.recommend(f"{SMALL}/100Mi = =", "follower")
    stage.recommend(f"{BIG}/100Mi = =", "leader")
    stage.run(30)
    held(stage, "web-0")
    stage.run(2 * MINUTE)
    return stage


def requests(stage: Stage) -> list[str]:
    """Return what the pods ask for, by their names."""
    return [
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        for pod in sorted(stage.pods(), key=lambda one: str(one["metadata"]["name"]))
    ]


def changes(stage: Stage) -> float:
    """Return how many changes of leader were counted."""
    return total(render(stage.registry).decode(), "plumbline_role_changes_total")


def test_a_promotion_waits_for_no_round() -> None:
    """The next leader has its size within two seconds, and rounds come once a minute."""
    stage = staged()
    assert requests(stage) == [BIG, SMALL, SMALL]
    stage.run(5)
    rounds = len(stage.parts.decisions.last_actions())
    held(stage, "web-2")
    stage.run(2)
    assert requests(stage) == [BIG, SMALL, BIG]
    assert len(stage.parts.decisions.last_actions()) == rounds + 1
    assert stage.evicted() == []


def test_a_leader_that_comes_back_under_its_name() -> None:
    """A pod that leads because it has the name that stands in the Lease waits for no round."""
    stage = staged()
    rounds = stage.parts.updater.alive_at
    stage.sandbox.cluster.delete(Ref(PODS, "default", "web-0"))
    stage.run(20)
    assert requests(stage) == [BIG, SMALL, SMALL]
    assert stage.parts.updater.alive_at == rounds


def test_a_lease_that_is_read_before_the_pods() -> None:
    """Who leads at first is known when the pods are, so that the next change counts as one."""
    stage = Stage("--role-leases")
    held(stage, "web-0")
    staged(stage=stage)
    held(stage, "web-1")
    stage.run(5)
    assert changes(stage) == 1
    assert len(stage.events("RoleChanged")) == 2


def test_without_the_flag_rounds_do_it() -> None:
    """Where no Leases are watched there is nothing to be quick for."""
    assert Stage().parts.promotions is None


def test_dry_runs_resize_nothing() -> None:
    """A dry run makes no calls."""
    assert Stage("--role-leases", "--dry-run").parts.promotions is None


def test_what_fails_is_tried_again() -> None:
    """A call that fails is repeated before the next round, and otherwise left to the rounds."""
    stage = staged()
    rounds = stage.parts.updater.alive_at
    error = Unavailable("no answer")
    stage.faults.order(Fault(error, "patch", PODS, subresource="resize", times=1))
    held(stage, "web-1")
    stage.run(20)
    assert stage.parts.updater.alive_at == rounds
    assert requests(stage) == [BIG, BIG, SMALL]
    stage.faults.order(Fault(error, "patch", PODS, subresource="resize", times=5))
    held(stage, "web-2")
    stage.run(8 * MINUTE)
    assert requests(stage) == [BIG, BIG, BIG]


def test_a_standby_leaves_it_to_the_leader() -> None:
    """Only the replica that leads resizes, counts and tells; another one begins where it is."""
    stage = staged()
    stage.leads = False
    held(stage, "web-1")
    stage.run(5)
    assert (requests(stage), changes(stage), stage.events("RoleChanged")) == (
        [BIG, SMALL, SMALL],
        0,
        [],
    )
    stage.leads = True
    stage.run(2)
    assert requests(stage) == [BIG, BIG, SMALL]


def test_vpas_are_told() -> None:
    """Each VPA has one event a minute at most, with who leads in the end; all is counted."""
    stage = staged()
    assert (changes(stage), stage.events("RoleChanged")) == (0, [])
    held(stage, "web-1")
    stage.run(10)
    told = "Now pod web-1 leads, because Lease default/web is held by web-1"
    assert stage.events("RoleChanged") == [told, told]
    for holder in ("web-2", "web-0", "web-2"):
        held(stage, holder)
        stage.run(5)
    assert (changes(stage), len(stage.events("RoleChanged"))) == (4, 2)
    stage.run(MINUTE)
    told = "Now pod web-2 leads, because Lease default/web is held by web-2"
    assert stage.events("RoleChanged")[2:] == [told, told]


def test_a_lease_that_is_not_named_any_more() -> None:
    """Nothing is told of a Lease without VPAs, nor of one of which nothing is known."""
    stage = staged()
    held(stage, "stranger")
    stage.run(5)
    for role in ("leader", "follower"):
        stage.apply(staging.vpa(role, target="StatefulSet/web", mode="Off"))
    held(stage, "web-1")
    stage.run(5)
    assert (changes(stage), stage.events("RoleChanged")) == (0, [])


# --- usage of a former leader


@cases(
    "error expected",
    {
        "measured": (None, [SMALL, BIG, SMALL]),
        "no right": (Refused("forbidden", status=403), [SMALL, BIG, SMALL]),
        "not measured": (NotFound("no metrics"), [SMALL, BIG, SMALL]),
        "no answer": (Unavailable("no answer"), [BIG, BIG, SMALL]),
    },
)
def test_a_former_leader_shrinks(error: ClusterError | None, expected: list[str]) -> None:
    """What uses little becomes small after its time, also where usage may not be read."""
    stage = staged("--former-leader-shrinks-after=1m")
    if error is not None:
        stage.faults.order(Fault(error, "get", POD_METRICS, times=100))
    held(stage, "web-1")
    stage.run(50)
    assert requests(stage) == [BIG, BIG, SMALL]
    stage.run(3 * MINUTE)
    assert requests(stage) == expected


def test_a_former_leader_that_works_on_keeps_its_size() -> None:
    """It is asked of the metrics what it uses, right before it would shrink."""
    stage = staged("--former-leader-shrinks-after=1m")
    stage.recommend("5m/100Mi = =", "follower")
    held(stage, "web-1")
    stage.run(5 * MINUTE)
    assert requests(stage)[:2] == [BIG, BIG]
    assert "RoleSettling" in stage.reasons()
