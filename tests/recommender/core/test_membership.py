"""VPAs and pods come, change and go; rows follow."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from app.model.kinds import ObjectKey
from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.membership import MOST_ROWS
from app.recommender.core.moments import DAY, HOUR
from app.recommender.core.rules import RecommenderLimit, RecommenderRules, container_rules
from app.recommender.core.tables import NOWHERE, RowTable
from app.recommender.core.tracked import MOST_DETACHED, NO_OWNER, DetachedRows
from tests import make
from tests.cases import cases
from tests.recommender.core.past_usage import past
from tests.recommender.core.scene import EAGER, GI, MI, WEB, Scene, running

LEADERS = {"matchLabels": {"role": "leader"}}
FOLLOWERS = {"matchLabels": {"role": "follower"}}
CROWDED = (RecommenderLimit.VPA_CONTAINERS, "default/web")


def counts(scene: Scene) -> dict[str, int]:
    """Store everything and return the number of samples by checkpoint."""
    scene.store()
    return {name: one.count for name, one in scene.stored.items()}


def split() -> Scene:
    """Return a scene with a VPA for leaders and one for followers."""
    scene = Scene(EAGER)
    scene.vpa("leader", selector=LEADERS)
    scene.vpa("follower", selector=FOLLOWERS)
    return scene


def test_role_that_flaps_goes_on_with_its_interval() -> None:
    """Leader, follower and leader again within an hour make one peak, not two."""
    scene = split()
    scene.pod(role="leader")
    scene.use(2000, 4 * GI)
    for minute, role in ((20, "follower"), (40, "leader")):
        scene.go(minute)
        scene.pod(role=role)
        scene.use(2000, 3 * GI)

    scene.store()
    assert len(scene.stored["leader-app"].windows) == 1
    assert scene.stored["leader-app"].memory.total == 0.0
    assert scene.stored["follower-app"].windows[0].usage_bytes == 3 * GI


def test_nothing_is_taken_back_from_another_row() -> None:
    """A promoted pod leaves its peak where it was made."""
    scene = split()
    scene.pod("web-0", role="leader")
    scene.pod("web-1", role="follower")
    scene.use(2000, 2 * GI, pod="web-0")
    scene.use(100, GI, pod="web-1")
    scene.go(1)
    scene.pod("web-1", role="leader")
    scene.go(2)
    scene.use(2000, 4 * GI, pod="web-1")
    scene.go(3 * 1440)

    scene.store()
    assert scene.stored["leader-app"].memory.total == pytest.approx(2.0, rel=1e-3)
    assert scene.stored["follower-app"].memory.total == 1.0


@cases(
    "top matched",
    {
        "owned by the target": (WEB, True),
        "owned by another": (ObjectKey("", "StatefulSet", "db"), False),
        "owned by none": (NO_OWNER, False),
        "owner not known": (None, False),
    },
)
def test_ownership(top: ObjectKey | None, matched: bool) -> None:
    """A VPA with a selector wants pods of its target only."""
    scene = split()
    scene.pod(role="leader", top=top)
    scene.tick()

    assert ("NoPodsMatched" not in scene.conditions("leader")) is matched


def test_an_owner_that_cannot_be_looked_up_changes_nothing() -> None:
    """A pod whose owner is not known for a while stays where it is."""
    scene = split()
    scene.pod(role="leader")
    scene.pod(role="leader", top=None)
    scene.tick()
    assert "NoPodsMatched" not in scene.conditions("leader")

    scene.pod(role="leader", top=NO_OWNER)
    scene.go(1)
    scene.tick()

    assert "NoPodsMatched" in scene.conditions("leader")


def test_vacant_role_keeps_its_recommendation() -> None:
    """A role that no pod has stays published for the next one."""
    scene = split()
    scene.pod(role="leader")
    scene.use(2000, 4 * GI)
    scene.tick()
    scene.pod(role="follower")
    scene.go(3 * 1440)
    scene.tick()

    assert scene.shown("leader")["app"]["target"] == "2406m 4992073454"
    assert scene.conditions("leader")["NoPodsMatched"][0] == "True"
    assert scene.conditions("leader")["RecommendationProvided"][0] == "True"


def test_vpa_that_comes_later_and_changes_its_mind() -> None:
    """VPAs find the pods that are there; an edited selector changes them, not the history."""
    scene = Scene(EAGER)
    scene.pod("web-0", role="leader")
    scene.pod("web-1", role="follower")
    vpa = scene.vpa("web", selector=LEADERS)
    scene.use(2000, 4 * GI, pod="web-0")
    scene.use(100, GI, pod="web-1")
    scene.change(replace(vpa, selector=make.vpa(selector=FOLLOWERS).selector))
    scene.go(1)
    scene.use(2000, 4 * GI, pod="web-0")
    scene.use(100, GI, pod="web-1")

    assert counts(scene) == {"web-app": 2}


def test_broken_target_keeps_everything() -> None:
    """A target that cannot be resolved sets a condition and nothing else, for an hour."""
    scene = running(EAGER)
    scene.use(1000, GI)
    scene.tick()
    known = scene.shown()
    scene.resolve(problem="cannot be read")
    scene.go(1)
    scene.use(1000, GI)
    scene.tick()
    assert scene.shown()["app"]["target"] == known["app"]["target"]
    assert list(scene.conditions()) == ["ConfigUnsupported", "RecommendationProvided"]
    scene.resolve(problem="still not")
    scene.go(61)
    scene.tick()
    assert "NoPodsMatched" in scene.conditions()
    assert scene.shown()["app"]["target"] == known["app"]["target"]

    scene.resolve()
    scene.go(62)
    scene.use(1000, GI)
    scene.tick()

    assert list(scene.conditions()) == ["RecommendationProvided"]
    assert counts(scene) == {"web-app": 3}


def test_other_target_begins_anew_and_can_be_undone() -> None:
    """Another target has another history; the old one waits for its return."""
    scene = Scene(EAGER)
    vpa = scene.vpa()
    scene.pod()
    scene.use(1000, GI)
    scene.tick()
    scene.change(replace(vpa, target=make.vpa(target="Deployment/db").target))
    scene.go(1)
    scene.use(50, 400 * MI)
    scene.tick()
    assert scene.shown()["app"]["target"].startswith("63m")
    scene.change(replace(scene.vpas["web"].vpa, target=vpa.target))
    scene.go(2)
    scene.tick()

    assert scene.shown()["app"]["target"].startswith("1168m")


@cases("minutes target", {"within the hour": (59, "1168m"), "later": (130, "-")})
def test_vpa_that_comes_back(minutes: int, target: str) -> None:
    """A VPA that was deleted and made again goes on where it stopped."""
    scene = running(EAGER)
    scene.use(1000, GI)
    scene.tick()
    scene.model.vpa_gone(("default", "web"), scene.now)
    scene.model.vpa_gone(("default", "web"), scene.now)
    scene.use(1000, GI, at=scene.at(0.5))
    for minute in range(10, minutes + 1, 10):
        scene.go(minute)
        scene.tick()
    scene.go(minutes)
    scene.vpa(created=scene.now)
    scene.tick()

    shown = scene.shown().get("app", {"target": "-"})
    assert shown["target"].startswith(target)
    assert "NoPodsMatched" not in scene.conditions()


def test_pending_and_replaced_pods() -> None:
    """Pending pods are not followed; a pod of another uid is another pod."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod(phase="Pending")
    scene.use(1000, GI)
    scene.pod(uid="one")
    scene.use(1000, 2 * GI)
    scene.pod(uid="two")
    scene.use(1000, GI)
    scene.pod(phase="Pending", uid="two")
    scene.go(1)
    scene.tick()
    scene.use(1000, GI)

    assert scene.model.tally.unknown == 2
    assert counts(scene) == {"web-app": 2}
    assert scene.stored["web-app"].memory.total == 2.0


def test_pods_that_went_stay_until_the_next_tick() -> None:
    """A pod that went can still be killed; one that is seen again has not gone."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod("web-0", uid="same")
    scene.pod("web-1")
    for name in ("web-0", "web-1"):
        scene.model.pod_gone("default", name)
    scene.model.pod_gone("default", "ghost")
    scene.killed(1000 * MI, pod="web-1")
    scene.pod("web-0", uid="same")
    scene.go(1)
    scene.tick()
    scene.killed(1000 * MI, pod="web-1")
    scene.use(100, GI, pod="web-0")

    tally = scene.model.tally
    assert (tally.kills, tally.kills_unknown, tally.cpu) == (1, 1, 1)


def test_containers_come_and_stay() -> None:
    """A container that appears in a pod takes part; one that is taken out stays for its samples."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod("web-0", "app", uid="same")
    scene.pod("web-0", "app", "log", uid="same")
    scene.pod("web-0", "app", uid="same")
    scene.use(100, GI, container="log")
    scene.use(100, GI)

    assert counts(scene) == {"web-app": 1, "web-log": 1}


def test_native_sidecars() -> None:
    """A proxy that moves to the init containers keeps its history; what only sets up has none."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod("web-0", "app", "proxy")
    scene.use(100, GI, container="proxy")
    init = [make.container_json("proxy", restartPolicy="Always"), make.container_json("setup")]
    scene.model.pod_seen(make.pod(name="web-1", init=init, status={"phase": "Running"}), scene.now)
    scene.drop("web-0")
    for container in ("app", "proxy", "setup"):
        scene.use(100, GI, pod="web-1", container=container)
    scene.tick()

    assert counts(scene) == {"web-app": 1, "web-proxy": 2}
    assert list(scene.shown()) == ["app", "proxy"]


@pytest.mark.parametrize("memory_saver", [False, True])
def test_a_pod_that_no_vpa_selects(memory_saver: bool) -> None:
    """It has no history, whatever the flag; once a VPA comes it counts for that from then on."""
    scene = Scene(replace(EAGER, memory_saver=memory_saver))
    scene.pod()
    scene.use(100, GI)
    assert scene.model.row_count == 0
    scene.vpa()
    scene.go(1)
    scene.use(100, GI)

    assert counts(scene) == {"web-app": 1}


def test_native_sidecars_that_are_left_alone() -> None:
    """Where a flag says so, a sidecar has no history, and its kills count for nothing."""
    scene = Scene(replace(EAGER, native_sidecars=False))
    scene.vpa()
    proxy = make.container_json("proxy", restartPolicy="Always")
    killed = {"terminated": {"reason": "OOMKilled", "finishedAt": make.time(scene.now)}}
    statuses = [{"name": "proxy", "lastState": killed}]
    pod = make.pod(init=[proxy], status={"phase": "Running", "initContainerStatuses": statuses})
    scene.model.pod_seen(pod, scene.now)
    for container in ("app", "proxy"):
        scene.use(100, GI, container=container)
    scene.tick()

    assert counts(scene) == {"web-app": 1}
    assert (scene.model.tally.unknown, scene.model.tally.kills) == (1, 0)


@pytest.mark.parametrize("is_read_late", [False, True])
def test_history_of_sidecars_that_are_left_alone(is_read_late: bool) -> None:
    """What was learned before the flag was set is neither shown, nor counted, nor written again."""
    before = Scene(EAGER)
    before.vpa()
    before.pod("web-0", "app", "proxy")
    before.use(1, MI)
    before.use(1, MI, container="proxy")
    stored = before.model.checkpoints(before.now, None)

    scene = Scene(replace(EAGER, native_sidecars=False))
    scene.vpa(restored=False)
    proxy = make.container_json("proxy", restartPolicy="Always")
    pod = make.pod(init=[proxy], status={"phase": "Running"})
    if is_read_late:
        scene.model.pod_seen(pod, scene.now)
    scene.model.restore(stored, scene.now)
    scene.model.pod_seen(pod, scene.now)
    scene.use(1, MI)
    scene.tick()

    least_of_a_pod = "25m 250Mi"
    assert {name: one["target"] for name, one in scene.shown().items()} == {"app": least_of_a_pod}
    assert [one.container for one in scene.model.checkpoints(scene.now, None)] == ["app"]


def test_rows_that_expired_under_a_pod_that_is_over() -> None:
    """A pod that is over for longer than history lasts leaves without its row."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod("web-0", "app", uid="same")
    scene.use(100, GI)
    scene.pod("web-0", "app", uid="same", phase="Succeeded")
    scene.go(9 * 1440)
    scene.tick()
    assert scene.model.row_count == 0

    scene.use(100, GI)
    scene.killed(GI)
    scene.pod("web-0", "app", uid="same", phase="Failed")
    scene.pod("web-0", "app", uid="same", phase="Running")
    scene.drop("web-0")
    scene.go(9 * 1440 + 1)
    scene.tick()

    assert scene.model.tally.kills == 0
    assert "NoPodsMatched" in scene.conditions()


@pytest.mark.parametrize("way", ["goes", "moves", "is replaced", "loses its VPA"])
def test_a_pod_that_was_over_when_its_row_began_anew(way: str) -> None:
    """A Job that ended before anything was learned of it leaves later ones alone when it goes."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod("job-1", phase="Succeeded", top=NO_OWNER)
    scene.tick()
    assert scene.model.row_count == 0

    scene.go(90)
    scene.pod("job-2")
    match way:
        case "goes":
            scene.drop("job-1")
        case "moves":
            scene.pod("job-1", phase="Succeeded", labels={"app": "elsewhere"})
        case "is replaced":
            scene.pod("job-1", phase="Succeeded", uid="another")
        case _:
            scene.model.vpa_gone(("default", "web"), scene.now)
            scene.see(scene.vpas["web"])
    scene.use(100, GI, pod="job-2")
    scene.tick()
    assert scene.shown()["app"]["target"] == "126m 1238659775"


def test_seeing_the_same_again_changes_nothing() -> None:
    """What is shown twice is taken once."""
    scene = running(EAGER)
    scene.use(100, GI)
    scene.tick()
    pod, top = scene.pods["web-0"]
    scene.model.pod_seen(pod, scene.now, top=top)
    scene.see(scene.vpas["web"])

    assert scene.tick() == []
    assert scene.model.tally.kills == 0


KEY = ("default", "web")


def rows_of(table: RowTable, *containers: str) -> dict[str, int]:
    """Begin rows that belong to the first VPA."""
    rows = {}
    for container in containers:
        row = rows[container] = table.start(container, 0)
        table.follow(row, 0, container_rules(make.vpa(), container, RecommenderRules()))
    return rows


def test_rows_come_back_to_their_target() -> None:
    """What a VPA left for another target it gets back for the same one, once."""
    table = RowTable(RecommenderRules().aggregation)
    detached, rows = DetachedRows(table, Counter()), rows_of(table, "app")
    detached.detach(KEY, ("Deployment", "web"), rows)

    assert table.vpa[rows["app"]] == NOWHERE
    assert detached.take_back(KEY, ("Deployment", "db")) is None
    assert detached.take_back(KEY, ("Deployment", "web")) == rows
    assert detached.take_back(KEY, ("Deployment", "web")) is None


def test_nobody_came_back() -> None:
    """Rows go when their time is over, or when their history has expired."""
    table = RowTable(RecommenderRules().aggregation)
    detached = DetachedRows(table, Counter())
    detached.detach(KEY, None, rows_of(table, "app"), until_ns=HOUR)
    detached.detach(KEY, ("Deployment", "web"), rows_of(table, "app", "log"))
    table.last_any[1] = DAY

    assert detached.take_expired(HOUR - 1) == []
    assert detached.take_expired(HOUR) == [(KEY, 0)]
    assert detached.take_expired(8 * DAY) == [(KEY, 2)]
    assert detached.take_expired(9 * DAY) == [(KEY, 1)]
    assert detached.take_back(KEY, ("Deployment", "web")) is None


def finished(scene: Scene, numbers: range) -> None:
    """Let pods run and finish, each with a container of another name."""
    for number in numbers:
        name, container = f"job-{number}", f"step-{number}"
        scene.pod(name, container)
        scene.use(100, GI, pod=name, container=container)
        scene.pod(name, container, phase="Succeeded")
        scene.drop(name)
        if number % 100 == 99:
            scene.go(number / 100)
            scene.store()
            scene.tick()


def test_invented_names_of_containers_displace_each_other() -> None:
    """A VPA follows 500 containers; the longest silent ones make room, but no living one."""
    scene = running(EAGER)
    scene.use(1000, GI)
    finished(scene, range(2_000))
    gone = dict(scene.model.abandoned())
    rows = scene.members.vpas["default", "web"].rows
    reached = scene.model.limits_reached()

    assert len(rows) == scene.model.row_count <= MOST_ROWS
    assert {"app", "step-1999", "step-1600"} <= rows.keys()
    assert {"step-0", "step-1499"} & rows.keys() == set()
    assert gone.keys() == {"default"}
    assert reached[CROWDED] > 20
    assert scene.model.limits_reached() == {}


def test_checkpoints_of_displaced_containers_are_deleted() -> None:
    """What had to make room leaves no checkpoint, unless its container has begun again."""
    scene = Scene(EAGER)
    scene.vpa()
    finished(scene, range(600))
    scene.pod("again", "step-0")
    gone = {name for _, name in scene.model.abandoned()}

    assert "web-step-1" in gone
    assert "web-step-0" not in gone
    assert len(gone) == 600 + 1 - scene.model.row_count - 1


def test_more_living_containers_than_are_followed() -> None:
    """Living containers are not displaced; those beyond the limit are not followed."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod("web-0", *(f"c-{number}" for number in range(600)))
    for name in ("c-0", "c-599"):
        scene.use(100, GI, container=name)
    scene.pod("web-0", *(f"c-{number}" for number in range(600)), phase="Succeeded")
    scene.drop("web-0")

    assert scene.model.row_count == MOST_ROWS
    assert scene.model.limits_reached() == {CROWDED: 100}


def test_vpas_that_come_and_go_leave_limited_rows() -> None:
    """Rows of 7,000 deleted VPAs of a namespace do not pile up until their hour is over."""
    scene = Scene(EAGER)
    scene.pod("web-0")
    for number in range(7_000):
        scene.vpa(f"web-{number}", restored=False)
        scene.model.vpa_gone(("default", f"web-{number}"), scene.now)
        if number % 1000 == 999:
            scene.tick()

    assert scene.model.row_count == MOST_DETACHED
    assert scene.members.rows.capacity < 2 * MOST_DETACHED
    assert scene.model.limits_reached() == {
        (RecommenderLimit.DETACHED_HISTORIES, "default"): 7_000 - MOST_DETACHED
    }


def test_history_of_more_containers_than_are_followed() -> None:
    """Past and checkpoints take no room from living containers, and begin no further rows."""
    scene = Scene(EAGER)
    scene.vpa(restored=False)
    names = [f"c-{number}" for number in range(MOST_ROWS)]
    scene.pod("web-0", *names)
    told = {f"old/{name}": [(100, GI)] for name in ("c-0", "one", "more")}
    scene.model.learn_past(past(told, scene.now), scene.now)
    stored = [Checkpoint("default", f"web-{name}", "web", name, count=7) for name in ("c-0", "one")]
    scene.model.restore(stored, scene.now)

    tracked = scene.members.vpas["default", "web"]
    assert tracked.rows.keys() == set(names)
    assert scene.members.rows.counts[tracked.rows["c-0"]] == 1 + 7
    assert scene.model.limits_reached() == {CROWDED: 3}


def test_a_deleted_vpa_without_rows_leaves_nothing() -> None:
    """A VPA that comes back without rows reads its checkpoints as a new one does."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.model.vpa_gone(("default", "web"), scene.now)
    scene.vpa(restored=False)

    assert scene.model.awaited() == [("default", "web")]


def test_what_conditions_say_changes_alone() -> None:
    """A VPA of which only that is new who leads, or what scales it, is published again."""
    scene = Scene(EAGER)
    scene.vpa("web")
    (tracked,) = scene.members.vpas.values()
    table = scene.members.vpa_table
    table.is_dirty[tracked.line] = False
    scene.members.see_vpa(tracked.observed, 0)
    assert not table.is_dirty[tracked.line]
    unknown = replace(tracked.vpa, role_problem=("NoLease", "it is missing"))
    scene.members.see_vpa(replace(tracked.observed, vpa=unknown), 0)
    assert table.is_dirty[tracked.line]
    assert tracked.vpa.role_problem is not None
