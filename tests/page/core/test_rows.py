"""A row sums up the pods of a workload, and says what is done about most of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from app.diagnosis.core.attention import Attention
from app.diagnosis.core.uncovered import TopWorkload, top_workloads
from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.page.core.fleet import FleetQuery, FleetView, Only, Sort, fleet_view
from app.page.core.picture import Measured, Picture, fleet_of
from app.page.core.rows import Badge, ContainerUsage, ResourceTotals, WorkloadRow
from app.updater.core.memory import Memory
from app.updater.core.plan import plan
from app.updater.core.rules import UpdateRules
from tests import make
from tests.cases import cases
from tests.page.shown import shop


def picture(*objects: Json, measured: Measured | None = None) -> Picture:
    """Return the picture of some objects."""
    snapshot = make.snapshot(*objects)
    made = plan(snapshot, UpdateRules(), make.ALL_GATES, Memory(), make.NOW)
    tops: dict[str, list[TopWorkload]] = {}
    for one in top_workloads(snapshot, {})[0].found:
        tops.setdefault(one.namespace, []).append(one)
    known = measured or Measured()
    fleet = fleet_of(snapshot, made, tops, known, None)
    return Picture(make.NOW, snapshot, made, tops, known, fleet)


def rows(*objects: Json, measured: Measured | None = None) -> list[WorkloadRow]:
    """Return the rows of some objects."""
    fleet = picture(*objects, measured=measured).fleet
    return [row for part in fleet.values() for row in part.rows]


def row(*objects: Json, measured: Measured | None = None) -> WorkloadRow:
    """Return the only row."""
    (found,) = rows(*objects, measured=measured)
    return found


def killed_json(pod: Json, word: str, ago: timedelta) -> Json:
    """Return a pod of which a container ran out of memory."""
    end = {"reason": "OOMKilled", "finishedAt": make.time(ago), "exitCode": 137}
    status = pod["status"]["containerStatuses"][0]
    return make.with_value(pod, "status.containerStatuses", [status | {word: {"terminated": end}}])


def test_amounts_are_those_of_all_pods() -> None:
    """Requests, targets, bounds and usage are summed; what is short is told apart."""
    usage = {
        ("default", "web-0", "app"): ContainerUsage(90, 50 * 2**20),
        ("default", "web-1", "app"): ContainerUsage(None, 70 * 2**20),
    }
    found = row(*shop(bounds="150m/150Mi 400m/400Mi"), measured=Measured(usage))
    assert found.cpu == ResourceTotals(200, 400, 90, 300, 800, saving=0, shortage=200)
    assert found.memory.usage == 120 * 2**20


def test_a_workload_that_requests_too_much_could_be_saved() -> None:
    """What is above the target is a saving."""
    found = row(*shop(count=1), make.vpa_json(cpu="60m", memory="100Mi"))
    assert (found.cpu.saving, found.cpu.shortage, found.cpu.difference) == (40, 0, 40)


def test_a_vpa_without_pods_has_no_amounts() -> None:
    """Without pods there is nothing to sum up, and the reason says why."""
    found = row(make.workload_json(), make.vpa_json(cpu="1"))
    assert (found.reason, found.cpu, found.pods) == ("NoPods", ResourceTotals(), 0)


def test_a_vpa_without_a_recommendation_says_why() -> None:
    """The sentence is that of the recommendation that is missing."""
    found = row(make.workload_json(), make.vpa_json())
    assert found.status.why == "no recommender has looked at it yet"


def test_a_vpa_without_a_target_is_called_as_itself() -> None:
    """An object that names no workload still has a row."""
    found = row(make.vpa_json(target=None))
    assert (found.name, found.workload, found.badges) == ("web", None, ())


@cases(
    "vpa others badge",
    {
        "an HPA": (
            {},
            [make.hpa_json(make.metric_json("cpu", 80))],
            Badge.HORIZONTAL,
        ),
        "a selector": ({"selector": {"matchLabels": {"app": "web"}}}, [], Badge.ROLE),
        "a second VPA": ({}, [make.vpa_json("web-2", mode="Off")], Badge.ROLE),
        "a proof": ({}, [], Badge.PROOF),
    },
)
def test_badges_say_what_is_special(vpa: Json, others: list[Json], badge: Badge) -> None:
    """A badge stands for what decides about a workload beside its numbers."""
    bounds = "150m/150Mi 400m/400Mi"
    objects = shop(*others, bounds=bounds, updatePolicy={"updateMode": "Recreate"}, **vpa)
    assert badge in rows(*objects)[0].badges


@cases(
    "vpa held",
    {
        "what is scaled by": (
            make.vpa_json(cpu="1"),
            ("HorizontalPodAutoscaler/web adds replicas above 80% of the pod's cpu request",),
        ),
        "something else": (make.vpa_json(memory="1Gi"), ()),
    },
)
def test_what_an_hpa_holds(vpa: Json, held: tuple[str, ...]) -> None:
    """It holds nothing of a VPA that does not recommend what it scales by."""
    hpa = make.hpa_json(make.metric_json("cpu", 80))
    (found,) = rows(make.workload_json(), vpa, hpa)
    assert (found.held, Badge.HORIZONTAL in found.badges) == (held, bool(held))


def by_lease(*leases: Json) -> list[WorkloadRow]:
    """Return the rows of a leader and a follower that are told apart by a Lease."""
    found = []
    for role in ("leader", "follower"):
        annotations = {"plumbline/role-lease": "role=web"}
        selector = {"matchLabels": {"role": role}}
        found.append(make.vpa_json(role, annotations=annotations, selector=selector))
    pods = [make.running_json(make.pod_json(name=f"web-{index}")) for index in range(3)]
    return rows(*pods, make.workload_json(replicas=3), *found, *leases)


def test_roles_by_a_lease() -> None:
    """A row names the role that its pods have by a Lease, and why."""
    follower, leader = by_lease(make.lease_json("web-1_4f5c"))
    why = "because Lease default/web is held by web-1_4f5c since 2026-01-05 09:00"

    assert (leader.pods, leader.roles, leader.about_role) == (1, ("leader",), f"leader, {why}")
    assert (follower.pods, follower.roles) == (2, ("follower",))
    assert follower.about_role == f"follower, {why}"
    assert Badge.ROLE not in leader.badges


def test_a_role_that_is_not_known() -> None:
    """Where nobody knows who leads, rows have no pods and say why, before all others."""
    for row in by_lease(make.lease_json("api-1_4f5c")):
        why = "Lease default/web is held by api-1_4f5c, which names no pod of the workload"
        assert (row.pods, row.roles, row.about_role) == (0, (), why)
        assert (row.badges, row.status.why) == ((Badge.ROLE_UNKNOWN,), why)
        assert row.status.level is Attention.BLOCKED


def test_what_an_hpa_holds_is_requested_all_the_same() -> None:
    """It stays as it is, in the row and in the sums, and beside containers that are not held."""
    objects = shop(make.hpa_json(make.metric_json("cpu", 80)), count=2)
    (part,) = picture(*objects).fleet.values()
    (found,) = part.rows
    assert (found.cpu.request, found.cpu.target, found.cpu.difference) == (200, 200, 0)
    assert (part.sums.cpu.request, part.sums.cpu.target) == (200, 200)
    assert found.memory.difference > 0

    metric = make.metric_json("cpu", 80, container="app")
    both = [make.recommendation_json(name, cpu="1") for name in ("app", "log")]
    pod = make.pod_json(make.container_json("app", cpu="3"), make.container_json("log", cpu="5"))
    objects = [make.running_json(pod), make.workload_json(), make.hpa_json(metric)]
    beside = row(*objects, make.vpa_json(recommendations=both)).cpu
    assert (beside.request, beside.target, beside.saving) == (8000, 4000, 4000)


def test_a_vpa_that_cannot_work_needs_a_person() -> None:
    """It stands with what is blocked, is counted there, and is found by its reason."""
    before = picture(*shop(), make.vpa_json("other", target="Deployment/none"))
    wrong = {"default": {"other": "its target does not exist"}}
    fleet = fleet_of(before.snapshot, before.plan, before.tops, before.measured, before, wrong)
    found = fleet["default"].rows[0]
    assert (found.vpa, found.reason, found.status.why) == (
        "other",
        "Mistake",
        "its target does not exist",
    )
    assert (before.fleet["default"].sums.blocked, fleet["default"].sums.blocked) == (0, 1)

    def shown(query: FleetQuery) -> FleetView:
        return fleet_view(fleet, query, lambda _namespace: True, make.NOW)

    assert "Mistake" in shown(FleetQuery()).reasons
    for query in (FleetQuery(only=Only.BLOCKED), FleetQuery(reason="Mistake")):
        assert [one.vpa for one in shown(query).rows] == ["other"]
    assert shown(FleetQuery(sort=Sort.STATUS)).rows[0].vpa == "other"


def test_a_running_boost_has_a_badge() -> None:
    """The webhook's annotation tells of it."""
    pod = make.pod_json(
        cpu="1", annotations={"vpaCpuStartupBoost/app": '{"requests":{"cpu":"100m"},"limits":{}}'}
    )
    found = row(make.running_json(pod), make.workload_json(), make.vpa_json(cpu="100m"))
    assert Badge.BOOST in found.badges


@cases("word", {"just now": ("state",), "before its restart": ("lastState",)})
def test_kills_are_known_from_statuses(word: str) -> None:
    """The last time that a container ran out of memory counts for a day."""
    first, *others = shop()
    killed = killed_json(first, word, timedelta(hours=2))
    assert row(killed, *others).killed_at == make.NOW - timedelta(hours=2)
    (part,) = picture(killed, *others).fleet.values()
    assert part.sums.killed == 1


def test_a_workload_without_a_vpa_is_not_sized() -> None:
    """Its pods are found through what they belong to, and it has no targets."""
    pod = make.running_json(make.pod_json(owner="ReplicaSet/api-1", cpu="1", memory="1Gi"))
    ended = make.pod_json(name="old", owner="ReplicaSet/api-1", status={"phase": "Failed"})
    orphan = make.running_json(make.pod_json(name="alone", owner=None))
    owned = make.workload_json("ReplicaSet/api-1", owner="Deployment/api")
    usage = Measured({("default", "web-0", "app"): ContainerUsage(100, 5)})
    found = row(pod, ended, orphan, owned, make.workload_json("Deployment/api"), measured=usage)
    assert found.workload == ObjectKey("", "Deployment", "api")
    assert (found.pods, found.vpa, found.reason) == (1, "", "NotSized")
    assert found.cpu == ResourceTotals(request=1000, usage=100)


def test_jobs_that_run_once_are_left_out() -> None:
    """A recommendation would come too late for them."""
    assert rows(make.workload_json("Job/load")) == []


def test_unchanged_namespaces_are_taken_over() -> None:
    """As long as objects, decisions and usage are the same the rows are the same values."""
    before = picture(*shop())
    (rows_before,) = before.fleet.values()

    def again(measured: Measured) -> object:
        fleet = fleet_of(before.snapshot, before.plan, before.tops, measured, before)
        return fleet["default"]

    assert again(before.measured) is rows_before
    assert again(Measured()) is not rows_before


def test_what_is_counted_for_a_day_is_counted_again_every_hour() -> None:
    """The rows of an hour ago are made again."""
    before = picture(*shop())
    later = replace(before.plan, now=make.NOW + timedelta(hours=1))
    again = fleet_of(before.snapshot, later, before.tops, before.measured, before)
    assert again["default"] is not before.fleet["default"]
