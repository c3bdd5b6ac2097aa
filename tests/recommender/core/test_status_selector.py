"""Which statuses are written, and what stays published."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from app.model.fields import Json
from app.model.kinds import Condition
from app.model.selectors import Selector
from app.recommender.core.checkpoints import Checkpoint, StoredHistogram
from app.recommender.core.moments import DAY, HOUR, nanoseconds
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.status import Publication, Why
from app.recommender.core.targets import ObservedVpa
from app.recommender.core.usage import ABSENT, PastUsage
from tests import make
from tests.cases import cases
from tests.recommender.core.scene import EAGER, GI, START, Scene, running, sawtooth

LEADERS = {"matchLabels": {"role": "leader"}}
EXISTS = {"matchExpressions": [{"key": "role", "operator": "Exists"}]}

STANDS = [
    make.recommendation_json(
        name, cpu="900m", memory="3Gi", lower=make.amounts("1m", "1Mi"), upper=make.amounts("9")
    )
    for name in ("app", "log")
]


@cases(
    "rules least most",
    {"every minute": (EAGER, 1439, 1440), "by tolerance and turn": (RecommenderRules(), 100, 160)},
)
def test_writes_of_a_day(rules: RecommenderRules, least: int, most: int) -> None:
    """How often one steady VPA is written on its second day."""
    scene = running(rules)
    sawtooth(scene, 0, 1440)
    scene.tick()
    before = scene.writes
    for minute in range(1440, 2880):
        sawtooth(scene, minute, minute + 1)
        scene.tick()

    assert least <= scene.writes - before <= most


def ten_days(name: str) -> Checkpoint:
    """Return ten days of history of a VPA."""
    start = nanoseconds(START)
    history = StoredHistogram(start, {30: 10000}, 1000.0)
    found = Checkpoint("default", f"{name}-app", name, "app", history, history)
    return replace(found, first_ns=start - 10 * DAY, last_ns=start, count=14400)


def test_turns_are_spread() -> None:
    """VPAs that began together do not refresh together, but each in its time."""
    scene = Scene()
    for number in range(40):
        name = f"vpa-{number}"
        scene.vpa(name, of={"n": str(number)}, restored=False)
        scene.pod(f"pod-{number}", labels={"n": str(number)})
        scene.model.restore([ten_days(name)], scene.now, only=[("default", name)])
    written = []
    for minute in range(1, 32):
        scene.go(minute)
        for number in range(40):
            scene.use(680, 680_000_000, pod=f"pod-{number}")
        written.append(len(scene.tick()))

    assert written[0] == 40
    assert [sum(written[turn : turn + 10]) for turn in (1, 11, 21)] == [40, 40, 40]
    assert max(written[1:]) <= 5


def seasoned() -> Scene:
    """Return a scene with ten days of history, whose VPA was published at minute 1."""
    scene = Scene()
    scene.vpa(restored=False)
    scene.pod()
    scene.model.restore([ten_days("web")], scene.now)
    scene.go(1)
    scene.use(680, 680_000_000)
    scene.tick()
    return scene


def test_a_clock_that_was_put_right() -> None:
    """Bounds that moved slightly do not wait until the time has come that was thought to be."""
    scene = seasoned()
    scene.use(680, 680_000_000, at=scene.at(2))
    scene.go(-1440)

    assert [one.why for one in scene.tick()] == [Why.REFRESH]


@pytest.mark.parametrize("is_compared", [True, False], ids=["compared", "not compared"])
def test_slight_moves_do_not_wait_for_another(is_compared: bool) -> None:
    """Bounds that moved slightly are written in their turn, also if nothing moves any more.

    So it is whether they were compared with what stands before, for another reason, or not.
    """
    scene = seasoned()
    assert scene.tick() == []
    scene.go(2)
    scene.use(680, 680_000_000)
    if is_compared:
        scene.pod("web-1")
    assert scene.tick() == []
    written = []
    for minute in range(3, 14):
        scene.go(minute)
        written += scene.tick()

    assert [one.why for one in written] == [Why.REFRESH]


def test_a_slight_move_that_was_not_written_comes_next() -> None:
    """A refresh whose write failed or was put off does not wait for another turn."""
    scene = seasoned()
    assert scene.tick() == []
    minute, refresh = 2.0, list[Publication]()
    while not refresh:
        scene.go(minute)
        scene.use(680, 680_000_000)
        refresh = scene.model.tick(scene.now)
        minute += 1
    scene.model.not_published("default", "web")
    scene.go(minute)
    again = scene.model.tick(scene.now)

    assert [one.why for one in refresh + again] == [Why.REFRESH, Why.REFRESH]
    assert scene.model.tick(scene.now) == []


def test_what_was_sent_stands() -> None:
    """A status counts as published before the watch shows it, and is not written again."""
    scene = running()
    scene.use(100, GI)
    assert [one.why for one in scene.model.tick(scene.now)] == [Why.FIRST]
    scene.pod("web-1")

    assert scene.model.tick(scene.now) == []


def test_target_changes_are_told_at_once() -> None:
    """A changed target does not wait for a turn; unchanged statuses are not written."""
    scene = running()
    scene.use(100, GI)
    assert [one.why for one in scene.tick()] == [Why.FIRST]
    assert scene.tick() == []
    scene.go(1)
    scene.use(9000, GI)

    assert [one.why for one in scene.tick()] == [Why.TARGET]


def test_edits_are_acknowledged() -> None:
    """A new generation is observed with the next tick, and policies apply."""
    scene = Scene()
    vpa = scene.vpa()
    scene.pod()
    scene.use(100, GI)
    scene.tick()
    edited = make.vpa(policies=[make.policy_json("*", min_allowed={"cpu": "500m"})])
    status = scene.vpas["web"].vpa
    scene.change(replace(status, policies=edited.policies, generation=vpa.generation + 1))
    (found,) = scene.tick()

    assert found.why is Why.GENERATION
    assert found.status.observed_generation == vpa.generation + 1
    assert scene.shown()["app"]["target"].startswith("500m")
    assert scene.shown()["app"]["uncapped"].startswith("126m")


def test_what_others_wrote_is_put_right() -> None:
    """A status that was wiped is written again; conditions of others stay."""
    scene = running()
    scene.use(100, GI)
    scene.tick()
    custom = Condition("Custom", "True", last_transition=scene.now)
    wiped = replace(scene.vpas["web"].vpa, recommendation=None, conditions=(custom,))
    scene.change(wiped)
    scene.tick()

    assert "app" in scene.shown()
    assert list(scene.conditions()) == ["Custom", "RecommendationProvided"]


def test_restart_writes_nothing_new() -> None:
    """After a restart, statuses that still hold are left alone."""
    scene = Scene()
    for number in range(10):
        scene.vpa(f"vpa-{number}", of={"n": str(number)})
        scene.pod(f"pod-{number}", labels={"n": str(number)})
        scene.use(100, GI, pod=f"pod-{number}")
    scene.tick()
    scene.restart()

    assert scene.tick() == []


def test_all_off() -> None:
    """A VPA whose containers are all Off recommends nothing, but learns."""
    scene = Scene(EAGER)
    scene.vpa(policies=[make.policy_json("*", mode="Off")])
    scene.pod()
    scene.use(100, GI)
    scene.tick()

    assert scene.conditions() == {"RecommendationProvided": ("False", "", "")}
    assert scene.vpas["web"].vpa.recommendation == ()
    assert len(scene.store()) == 1


@cases(
    "policy others cpu expected",
    {
        "all is known": ({}, [], 100, ("True", "")),
        "cpu is not": ({}, [], ABSENT, ("False", "NotLearned")),
        "cpu is not, nor is it controlled": (
            {"resources": ["memory"]},
            [],
            ABSENT,
            ("True", ""),
        ),
        "another container is not": ({}, ["log"], 100, ("False", "NotLearned")),
    },
)
def test_what_has_no_target(
    policy: Json, others: list[str], cpu: int, expected: tuple[str, str]
) -> None:
    """Only where everything that is controlled has a target is a recommendation provided."""
    scene = Scene(EAGER)
    scene.vpa(policies=[make.policy_json("app", **policy)])
    scene.pod("web-0", "app", *others)
    scene.use(cpu, GI)
    scene.tick()

    assert scene.conditions()["RecommendationProvided"][:2] == expected


def test_what_has_no_target_and_nobody_runs() -> None:
    """A container that is in no living pod needs no recommendation."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod("web-0", "app")
    scene.pod("web-1", "app", "log")
    scene.use(100, GI)
    scene.tick()
    before = scene.conditions()["RecommendationProvided"][0]
    scene.drop("web-1")
    scene.tick()

    assert (before, scene.conditions()["RecommendationProvided"][0]) == ("False", "True")


def test_vpa_without_generation() -> None:
    """An object without generation has none to observe."""
    scene = Scene(EAGER)
    vpa = scene.vpa()
    scene.change(replace(vpa, generation=0))
    (found,) = scene.tick()

    assert found.status.observed_generation is None
    assert scene.tick() == []


def overlapping() -> Scene:
    """Return a scene in which a young VPA also selects what an old one does."""
    scene = Scene()
    scene.vpa("old", selector=LEADERS, created=START - timedelta(days=9))
    scene.vpa("young", selector=EXISTS, created=START - timedelta(days=1))
    scene.vpa("all")
    scene.pod(role="leader")
    scene.use(100, GI)
    scene.tick()
    return scene


def test_the_weaker_one_is_told() -> None:
    """Both learn; the younger one says that another comes first."""
    scene = overlapping()

    message = 'VPA "old" selects some of the same pods and comes first'
    assert scene.conditions("young")["SelectorOverlap"] == ("True", "OverlappingPods", message)
    assert "SelectorOverlap" not in scene.conditions("old")
    assert "SelectorOverlap" not in scene.conditions("all")
    assert scene.shown("young") == scene.shown("old")
    assert scene.model.overlapping_pods() == {"default": 1}


@pytest.mark.parametrize("way", ["label", "pod", "vpa"])
def test_overlaps_end(way: str) -> None:
    """When no pod is claimed twice any more, the condition goes."""
    scene = overlapping()
    scene.go(1)
    if way == "label":
        scene.pod(role="follower")
    elif way == "pod":
        scene.drop("web-0")
    else:
        scene.model.vpa_gone(("default", "old"), scene.now)
        del scene.vpas["old"]
    scene.tick()
    scene.go(2)

    assert "SelectorOverlap" not in scene.conditions("young")
    assert scene.model.overlapping_pods() == {}
    assert scene.tick() == []


def test_overlaps_that_stay_are_told_once() -> None:
    """A condition that holds is not written again."""
    scene = overlapping()
    scene.go(1)

    assert scene.tick() == []
    assert "SelectorOverlap" in scene.conditions("young")


def test_a_vpa_that_failed_is_tried_again() -> None:
    """It is told of at the next tick after the defect, although nothing changed since."""
    scene = running(RecommenderRules())
    scene.use(100, GI)
    tracked = scene.members.vpas["default", "web"]
    tracked.sent, tracked.sent_for = "broken", tracked.observed  # type: ignore[assignment]
    assert scene.tick() == []
    assert len(scene.model.skipped.taken()) == 1

    tracked.sent = None
    assert [one.name for one in scene.tick()] == ["web"]
    assert scene.tick() == []


def standing(
    rules: RecommenderRules = EAGER,
    *,
    restored: bool = True,
    policies: list[dict[str, Any]] | None = None,
) -> Scene:
    """Return a scene with a VPA for which something stands published already."""
    scene = Scene(rules)
    vpa = make.vpa("web", policies=policies, recommendations=STANDS, target="StatefulSet/web")
    scene.see(ObservedVpa(vpa, Selector.of_labels(make.LABELS)))
    if restored:
        scene.model.restore([], scene.now)
    return scene


def targets(scene: Scene) -> dict[str, str]:
    """Tick, and return the targets."""
    scene.tick()
    return {name: one["target"] for name, one in scene.shown().items()}


def test_unread_history() -> None:
    """Until its history is read, everything stays as it stands."""
    scene = standing(restored=False)
    scene.pod("web-0", "app")
    scene.use(100, GI)
    assert targets(scene) == {"app": "900m 3Gi", "log": "900m 3Gi"}

    scene.model.restore([], scene.now)

    assert targets(scene) == {"app": "126m 1238659775"}


@cases(
    "cpu memory expected",
    {
        "nothing sampled": (-1, -1, "900m 3Gi"),
        "cpu sampled": (100, -1, "126m 3Gi"),
        "memory sampled": (-1, GI, "900m 1238659775"),
        "both": (100, GI, "126m 1238659775"),
    },
)
def test_resources_without_samples(cpu: int, memory: int, expected: str) -> None:
    """A resource that was never sampled keeps what stands; containers that are gone do not."""
    scene = standing()
    scene.pod("web-0", "app")
    scene.use(cpu, memory)

    assert targets(scene) == {"app": expected}
    upper = scene.shown()["app"]["upper"]
    assert upper.startswith("9 " if cpu < 0 else "100G")


@cases(
    "policy expected",
    {
        "off": (make.policy_json("app", mode="Off"), {"log": "900m 3Gi"}),
        "cpu only": (
            make.policy_json("app", resources=["cpu"]),
            {"app": "900m -", "log": "900m 3Gi"},
        ),
    },
)
def test_policies_hold(policy: dict[str, Any], expected: dict[str, str]) -> None:
    """Nothing is kept that the policy does not want."""
    scene = standing(policies=[policy])
    scene.pod("web-0", "app", "log")

    assert targets(scene) == expected


def test_no_container_in_sight() -> None:
    """Without any container a recommendation stays for as long as history would."""
    scene = standing()
    assert targets(scene) == {"app": "900m 3Gi", "log": "900m 3Gi"}
    assert scene.conditions()["RecommendationProvided"][0] == "True"
    scene.go(8 * 1440)
    scene.change(replace(scene.vpas["web"].vpa, generation=2))

    assert targets(scene) == {}


FORGETFUL = replace(EAGER, expects_past=True)


@cases(
    "cpu memory expected",
    {
        "less than stands": (100, GI, "900m 3Gi"),
        "more CPU": (2000, GI, "2406m 3Gi"),
        "more memory": (100, 4 * GI, "900m 4992073454"),
    },
)
def test_until_the_past_is_known_amounts_only_grow(cpu: int, memory: int, expected: str) -> None:
    """A few samples after a start do not outweigh all that was known before it."""
    scene = standing(FORGETFUL)
    scene.pod("web-0", "app")
    scene.use(cpu, memory)

    assert targets(scene) == {"app": expected, "log": "900m 3Gi"}


def test_a_native_sidecar_that_is_left_alone_does_not_wait_for_its_past() -> None:
    """What stood of it is over at once; what stood of a container not seen yet stays."""
    scene = standing(replace(FORGETFUL, native_sidecars=False))
    scene.pod("web-0", "app")
    scene.use(2000, GI)
    assert set(targets(scene)) == {"app", "log"}
    log = make.container_json("log", restartPolicy="Always")
    scene.model.pod_seen(make.pod(name="web-1", init=[log], status={"phase": "Running"}), scene.now)

    assert set(targets(scene)) == {"app"}


def test_a_peak_after_the_start_is_forgotten_as_any_other() -> None:
    """What is not lowered is what stood before, not what was learned since."""
    scene = standing(FORGETFUL)
    scene.pod("web-0", "app")
    scene.use(2000, GI)
    assert targets(scene)["app"] == "2406m 3Gi"

    for minute in range(1, 100):
        scene.go(minute)
        scene.use(100, GI)
    assert targets(scene)["app"] == "900m 3Gi"


def test_when_the_past_is_known_it_counts() -> None:
    """What was learned stands, be it less; what was not told of stays as it is."""
    scene = standing(FORGETFUL)
    scene.pod("web-0", "app", "log")
    scene.use(100, GI)
    scene.use(100, GI, container="log")
    used = np.full((1, 1), 100), np.full((1, 1), GI)
    times = np.array([nanoseconds(START) - HOUR])
    scene.model.learn_past(PastUsage({}, [("default", "web-0", "app")], times, *used), scene.now)

    assert targets(scene) == {"app": "126m 1238659775", "log": "900m 3Gi"}


def test_history_that_cannot_be_read() -> None:
    """A recommendation is not lowered either when a checkpoint is broken."""
    scene = standing(restored=False)
    scene.pod("web-0", "app", "log")
    scene.use(100, GI)
    scene.use(100, GI, container="log")
    scene.model.restore([known("app")], scene.now, lost={("default", "web"), ("default", "db")})

    assert targets(scene) == {"app": "126m 1238659775", "log": "900m 3Gi"}


def test_a_checkpoint_with_a_broken_date() -> None:
    """It is not used, and what stands is not lowered."""
    scene = standing(restored=False)
    scene.pod("web-0", "app")
    scene.use(100, GI)
    broken = replace(known("app"), last_ns=nanoseconds(START) + 999 * DAY)
    assert len(scene.model.restore([broken], scene.now)) == 1

    assert targets(scene)["app"] == "900m 3Gi"


def known(container: str) -> Checkpoint:
    """Return a checkpoint of an hour ago with one sample."""
    hour_ago = nanoseconds(START) - HOUR
    cpu = StoredHistogram(hour_ago, {8: 10_000}, 0.1)
    name = f"web-{container}"
    return Checkpoint(
        "default", name, "web", container, cpu, first_ns=hour_ago, last_ns=hour_ago, count=1
    )


def test_a_past_that_never_comes() -> None:
    """After a day enough was learned without it."""
    scene = standing(FORGETFUL)
    scene.pod("web-0", "app")
    scene.go(1440)
    scene.use(100, GI)

    assert targets(scene) == {"app": "126m 1238659775"}


@cases(
    "policy expected",
    {
        "off": (make.policy_json("log", mode="Off"), {"app": "900m 3Gi"}),
        "at most": (
            make.policy_json("app", max_allowed=make.amounts("500m", "2Gi")),
            {"app": "500m 2Gi", "log": "900m 3Gi"},
        ),
        "at least": (
            make.policy_json("app", min_allowed=make.amounts("1")),
            {"app": "1 3Gi", "log": "900m 3Gi"},
        ),
    },
)
def test_policies_hold_for_what_stood(policy: dict[str, Any], expected: dict[str, str]) -> None:
    """A container that the policy leaves out is not kept, and its caps hold."""
    scene = standing(FORGETFUL, policies=[policy])
    scene.pod("web-0", "app")
    scene.use(100, GI)

    assert targets(scene) == expected
