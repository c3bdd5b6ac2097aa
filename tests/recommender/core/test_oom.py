"""OOM kills are found, counted once and answered with memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.model.pods import Pod, read_pod
from app.recommender.core.moments import EARLIEST, nanoseconds
from app.recommender.core.oom import (
    OomRecord,
    evicted,
    memory_request,
    needed_memory,
    new_kills,
    reduced,
)
from app.recommender.core.rules import RecommenderRules
from tests import make
from tests.cases import cases
from tests.recommender.core.scene import EAGER, GI, MI, Scene

KILLED_AT = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)


@cases(
    "request_mi peak_mi ratio bump expected",
    {
        "by ratio": (1000, 0, 1.2, 100, 1200),
        "at least so much more": (1, 0, 1.2, 100, 101),
        "both alike": (500, 0, 1.2, 100, 600),
        "from the peak": (1000, 3000, 1.2, 100, 3600),
        "own ratio": (1024, 0, 3.0, 100, 3072),
        "nothing known": (0, 0, 1.2, 100, 100),
        "no bump at all": (512, 0, 1.0, 0, 512),
        "no end of a bump": (512, 0, 1.0, 10**24, 512 + 10**14 / MI),
    },
)
def test_needed_memory(
    request_mi: int, peak_mi: int, ratio: float, bump: int, expected: int
) -> None:
    """More than was there, by ratio and at least by the smallest bump."""
    found = needed_memory(request_mi * MI, peak_mi * MI, ratio=ratio, bump_bytes=float(bump * MI))

    assert found == expected * MI


def status(
    state: str,
    *,
    restarts: int = 0,
    reason: str = "OOMKilled",
    last: str | None = None,
    finished: datetime | None = KILLED_AT,
) -> dict[str, Any]:
    """Return a container status in a state; `last` is the reason of the end before."""
    ended = {"finishedAt": make.time(finished)} if finished else {}
    states: dict[str, Any] = {
        "running": {"running": {}},
        "waiting": {"waiting": {"reason": "CrashLoopBackOff"}},
        "terminated": {"terminated": {"reason": reason, **ended}},
    }
    return {
        "name": "app",
        "restartCount": restarts,
        "state": states[state],
        "lastState": {"terminated": {"reason": last, **ended}} if last else {},
    }


def pod(state: dict[str, Any], memory: str = "1024") -> Pod:
    """Return a pod whose container has a status and a request."""
    return make.pod(memory=memory, status={"phase": "Running", "containerStatuses": [state]})


KILLED_AGAIN = status("running", restarts=1, last="OOMKilled")
FAILED_BEFORE = status("terminated", reason="Error", finished=KILLED_AT - timedelta(minutes=1))

transitions = cases(
    "before after expected",
    {
        "killed, request of then": (status("running"), status("terminated"), [2048]),
        "killed and started again unseen": (status("running"), KILLED_AGAIN, [1024]),
        "another end after another": (FAILED_BEFORE, status("terminated", restarts=1), [2048]),
        "out of the crash loop": (status("waiting", last="OOMKilled"), KILLED_AGAIN, []),
        "nothing has changed": (status("terminated"), status("terminated"), []),
        "told again": (KILLED_AGAIN, KILLED_AGAIN, []),
        "another reason": (status("running"), status("running", restarts=1, last="Error"), []),
    },
)


@transitions
def test_kills(before: dict[str, Any], after: dict[str, Any], expected: list[int]) -> None:
    """A transition tells of kills, with the request of the state that tells of the end."""
    found = new_kills(pod(before, "1024"), pod(after, "2048"))

    assert [record.memory_bytes for record in found] == expected


def test_record() -> None:
    """A record names the container and when it ended."""
    after = pod(status("terminated"))
    expected = OomRecord("default", "web-0", "app", nanoseconds(KILLED_AT), 1024, "uid-web-0")

    assert new_kills(None, after) == [expected]


def test_first_sight() -> None:
    """A pod that tells of kills when it is first seen counts."""
    after = pod(status("terminated", restarts=1, last="OOMKilled", finished=None))

    assert [record.time_ns for record in new_kills(None, after)] == [EARLIEST, EARLIEST]


def test_kills_without_time_are_told_apart_by_restarts() -> None:
    """Where the kubelet gives no time, the number of restarts tells kills apart."""
    before = pod(status("running", restarts=1, last="OOMKilled", finished=None))
    same = pod(status("running", restarts=1, last="OOMKilled", finished=None))
    again = pod(status("running", restarts=2, last="OOMKilled", finished=None))

    assert (len(new_kills(before, same)), len(new_kills(before, again))) == (0, 1)


def test_containers_that_were_not_there_before() -> None:
    """A status that appears tells of its kills."""
    before = make.pod(status={"phase": "Running"})
    after = pod(status("terminated"))

    assert len(new_kills(before, after)) == 1


@cases(
    "resources memory expected",
    {
        "the kubelet's": ({"requests": {"memory": "250Mi"}}, "1Mi", 250 * MI),
        "the spec's": (None, "1Mi", MI),
        "the kubelet knows of none": ({}, "1Mi", 0),
        "none": (None, None, 0),
        "garbage": (None, "-1Mi", 0),
    },
)
def test_memory_request(resources: object, memory: str | None, expected: int) -> None:
    """The kubelet's word goes before the spec's."""
    item = make.pod_json(memory=memory)
    item["status"] = {"containerStatuses": [{"name": "app", "resources": resources}]}

    assert memory_request(read_pod(item), "app") == expected


def test_kills_of_sidecars() -> None:
    """A native sidecar that is killed is told of, another init container is not."""
    killed = {"terminated": {"reason": "OOMKilled", "finishedAt": "2026-01-05T00:00:00Z"}}
    item = make.pod_json(
        init=[
            make.container_json("setup", memory="1Mi"),
            make.container_json("proxy", memory="2Mi") | {"restartPolicy": "Always"},
        ]
    )
    item["status"] = {
        "initContainerStatuses": [
            {"name": name, "lastState": killed} for name in ("setup", "proxy")
        ]
    }
    found = new_kills(None, read_pod(item))
    assert [(one.container, one.memory_bytes) for one in found] == [("proxy", 2 * MI)]


def test_memory_request_of_an_unknown_container() -> None:
    """What is in no spec requests nothing."""
    assert memory_request(make.pod(memory="1Mi"), "other") == 0


def event(containers: str, usage: str, starved: str, **more: object) -> dict[str, Any]:
    """Return an eviction event of the kubelet."""
    annotations = {
        "offending_containers": containers,
        "offending_containers_usage": usage,
        "starved_resource": starved,
    }
    return {
        "reason": "Evicted",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-0", "uid": "u"},
        "metadata": {"creationTimestamp": make.time(KILLED_AT), "annotations": annotations},
    } | more


@cases(
    "blamed share expected",
    {
        "one container": (event("c1", "1024Ki", "memory"), False, [("c1", MI)]),
        "two": (
            event("c1,c2", "1024Ki,2048Ki", "memory,memory"),
            False,
            [("c1", MI), ("c2", 2 * MI)],
        ),
        "only one for memory": (
            event("c1,c2", "1024Ki,2048Ki", "memory,evictable"),
            False,
            [("c1", MI)],
        ),
        "one word, as upstream": (event("c1,c2", "1024Ki,2048Ki", "memory"), False, []),
        "one word stands for all": (
            event("c1,c2", "1024Ki,2048Ki", "memory"),
            True,
            [("c1", MI), ("c2", 2 * MI)],
        ),
        "no quantity": (event("c1,c2", "many,1", "memory"), True, [("c2", 1)]),
        "too much": (event("c1,c2", "1e30,1", "memory"), True, [("c2", 1)]),
        "another event": (event("c1", "1", "memory", reason="Killing"), True, []),
        "no pod": (event("c1", "1", "memory", involvedObject={"kind": "Node"}), True, []),
        "bare": ({"reason": "Evicted", "involvedObject": {"kind": "Pod"}}, True, []),
        "garbage": (event("c1", "1", "memory", metadata=7), True, []),
    },
)
def test_evicted(blamed: dict[str, Any], share: bool, expected: list[tuple[str, int]]) -> None:
    """An eviction tells which containers used how much of what was short."""
    found = evicted(blamed, share_resource=share)

    assert [(record.container, record.memory_bytes) for record in found] == expected


@cases(
    "blamed is_kept",
    {
        "an eviction": (event("c1,c2", "1,2", "memory"), True),
        "with annotations of others": (
            event("c1", "1", "memory") | {"note": "x" * 10**6, "count": 3},
            True,
        ),
        "larger than any kubelet's": (event("c1," * 10_000, "1," * 10_000, "memory"), False),
        "a large name": (event("c1", "1", "x" * 10**6), False),
        "no object": (event("c1", "1", "memory", involvedObject=5), False),
        "no metadata": (event("c1", "1", "memory", metadata=None), False),
        "odd annotations": (event("c1", "1", "memory", metadata={"annotations": 5}), True),
    },
)
def test_what_is_kept_of_an_event(blamed: dict[str, Any], is_kept: bool) -> None:
    """Of an event that is kept until a round, only what counts is kept, and nothing large."""
    kept = reduced(blamed)

    assert (kept is not None) == is_kept
    if kept is not None:
        assert len(repr(kept)) < 1000
        assert evicted(kept, share_resource=True) == evicted(blamed, share_resource=True)


def test_eviction_record() -> None:
    """An eviction is dated by its event, if it has a date."""
    dated = evicted(event("c1", "1", "memory"), share_resource=True)
    metadata = {"annotations": event("c1", "1", "memory")["metadata"]["annotations"]}
    undated = evicted(event("c1", "1", "memory", metadata=metadata), share_resource=True)

    assert dated == [OomRecord("default", "web-0", "c1", nanoseconds(KILLED_AT), 1, "u")]
    assert undated[0].time_ns == EARLIEST


def started(rules: RecommenderRules = EAGER, *, policy: dict[str, Any] | None = None) -> Scene:
    """Return a scene with one pod."""
    scene = Scene(rules)
    scene.vpa(policies=None if policy is None else [policy])
    scene.pod()
    return scene


def target(scene: Scene) -> int:
    """Tick, and return the memory target in bytes."""
    scene.tick()
    return make.quantity(scene.shown()["app"]["target"].split()[1]).units


def peaks(scene: Scene) -> list[tuple[int, int]]:
    """Return the running peaks of usage and kills, in Mi."""
    scene.store()
    windows = scene.stored["web-app"].windows
    return [(one.usage_bytes // MI, one.oom_bytes // MI) for one in windows]


@cases(
    "order expected peak",
    {
        "in order": ("used killed", 4_506_574_562, (3072, 3686)),
        "usage is told later": ("killed used", 4_506_574_562, (3072, 3686)),
        "told twice": ("killed used killed", 4_506_574_562, (3072, 3686)),
        "usage rises": ("killed below used", 4_506_574_562, (3072, 3686)),
        "usage from after it": ("killed after", 3_861_631_195, (3072, 200)),
        "older than the last": ("killed after used", 3_861_631_195, (3072, 200)),
    },
)
def test_order_of_usage_and_kill(order: str, expected: int, peak: tuple[int, int]) -> None:
    """Usage from before a kill counts, and the kill builds on it, whichever is told first."""
    scene = started()
    scene.go(2)
    for told in order.split():
        match told:
            case "used":
                scene.use(memory=3 * GI, at=scene.at(1.8))
            case "below":
                scene.use(memory=2 * GI, at=scene.at(1.7))
            case "after":
                scene.use(memory=3 * GI, at=scene.at(1.95))
            case _:
                scene.killed(100 * MI, at=scene.at(1.9))
                scene.tick(urgent=True)

    assert peaks(scene) == [peak]
    assert target(scene) == expected


def test_kill_dated_ahead() -> None:
    """Usage that is told after a kill was heard of is no older than it, whatever its date."""
    scene = started()
    scene.killed(100 * MI, at=scene.at(600))
    scene.go(1)
    scene.use(memory=300 * MI)

    assert peaks(scene) == [(300, 200)]


@cases(
    "policy request_mi expected",
    {
        "a ratio of its own": ({"oomBumpUpRatio": "3"}, 1024, 3072),
        "none at all": ({"oomBumpUpRatio": "1", "oomMinBumpUp": "0"}, 512, 512),
    },
)
def test_own_bump(policy: dict[str, Any], request_mi: int, expected: int) -> None:
    """A policy sets its own bump; without it the flags' holds again."""
    scene = started(replace(EAGER, per_vpa_config=True), policy=make.policy_json("app", **policy))
    scene.killed(request_mi * MI)
    assert peaks(scene) == [(0, expected)]

    scene.vpa()
    scene.go(1440)
    scene.killed(2000 * MI)

    assert peaks(scene) == [(0, 2400)]


@cases(
    "interval hours counted",
    {
        "older than a day": (None, 30, 0),
        "a day old": (None, 24, 1),
        "older than the policy's interval": (3600, 2, 0),
        "yet to come": (None, -48, 0),
    },
)
def test_late_kills(interval: int | None, hours: int, counted: int) -> None:
    """Kills that are too old, or yet to come, do not count."""
    policy = make.policy_json("app", memoryAggregationIntervalSeconds=interval)
    scene = started(replace(EAGER, per_vpa_config=True), policy=policy)
    scene.use(memory=100 * MI)
    scene.killed(1000 * MI, at=scene.now - timedelta(hours=hours))

    tally = scene.model.tally
    assert (tally.kills, tally.kills_late) == (counted, 1 - counted)


@cases(
    "request_mi kills expected",
    {
        "one": (1000, 1, 1200),
        "the second builds on the first": (1000, 2, 1440),
        "the third on the second": (1000, 3, 1728),
        "a night of them asks for twice the request": (1000, 100, 2000),
        "for one bump where that is more": (64, 100, 164),
    },
)
def test_repeated_kills(request_mi: int, kills: int, expected: int) -> None:
    """A container that is killed again before it got more is far too small: kills build up."""
    scene = started()
    for minute in range(0, 5 * kills, 5):
        scene.go(minute)
        scene.killed(request_mi * MI)
        scene.tick()

    assert peaks(scene) == [(0, expected)]
    for seconds in (10, 20):
        scene.use(1, 10 * MI, at=scene.at(seconds / 60))
    assert peaks(scene) == [(10, expected)]  # what is told of usage later is no kill


@cases(
    "request_mi before used after expected",
    {
        "the limit rises with usage": (500, 9, 990, 3, (990, 1728)),
        "up from usage, then built up": (1000, 5, 1900, 1, (1900, 2400)),
        "twice the usage at most": (1000, 5, 1900, 9, (1900, 3800)),
    },
)
def test_usage_below_the_peak_of_kills(
    request_mi: int, before: int, used: int, after: int, expected: tuple[int, int]
) -> None:
    """What is used counts when the next kill is judged, also where kills have asked for more."""
    scene = started()
    for minute in range(before):
        scene.go(minute)
        scene.killed(request_mi * MI)
    scene.go(before)
    scene.use(memory=used * MI)
    for minute in range(before + 1, before + 1 + after):
        scene.go(minute)
        scene.killed(request_mi * MI)

    assert peaks(scene) == [expected]


def test_late_usage_below_the_peak_of_kills() -> None:
    """Usage from before two kills lets the newest ask for more than both did together."""
    scene = started()
    for minute in (5, 10):
        scene.go(minute)
        scene.killed(1000 * MI)
    scene.use(memory=1300 * MI, at=scene.at(4))

    assert peaks(scene) == [(1300, 1560)]


def test_kill_after_the_interval() -> None:
    """A kill begins the next interval, from the old peak, which stays."""
    scene = started()
    scene.use(memory=2000 * MI)
    scene.go(48 * 60)
    scene.killed(1000 * MI)

    assert peaks(scene) == [(0, 2400)]
    assert scene.stored["web-app"].memory.total == 1.0


def test_each_kill_counts_once() -> None:
    """The same kill told twice, by whomever, counts once; other pods' kills are their own."""
    scene = started()
    scene.pod("web-1")
    for pod in ("web-0", "web-0", "web-1"):
        scene.killed(1000 * MI, pod=pod)

    tally = scene.model.tally
    assert (tally.kills, tally.kills_repeated) == (2, 1)
    assert len(peaks(scene)) == 2


def end(finished: datetime | None) -> dict[str, Any]:
    """Return how a container ended, or that it runs."""
    if finished is None:
        return {"running": {}}
    return {"terminated": {"reason": "OOMKilled", "finishedAt": make.time(finished)}}


def killed_pod(
    scene: Scene, finished: datetime, again: datetime | None = None, *, restarts: int = 1
) -> None:
    """Show a pod that tells of a kill, or of two."""
    states = {"lastState": end(finished), "state": end(again)}
    told = {"name": "app", "restartCount": restarts, **states}
    scene.pod(memory="1000Mi", status={"containerStatuses": [told]})


def test_pods_that_tell_of_kills() -> None:
    """A pod that tells of a kill when it is first seen counts, unless it is too long ago."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.go(30)
    killed_pod(scene, scene.at(20))
    killed_pod(scene, scene.at(20))
    scene.drop("web-0")
    scene.tick()
    killed_pod(scene, scene.at(-1440))

    assert scene.model.tally.kills == 1
    assert scene.model.tally.kills_late == 1


@pytest.mark.parametrize("is_first", [True, False], ids=["a VPA that comes", "a target found"])
def test_kills_of_pods_that_a_vpa_gets(is_first: bool) -> None:
    """What pods tell of kills counts for a VPA that gets them later, and once."""
    scene = Scene(EAGER)
    if not is_first:
        scene.vpa(problem="no such Deployment")
    scene.go(30)
    killed_pod(scene, scene.at(20))
    assert scene.model.tally.kills == 0

    for _ in range(2):
        scene.vpa()
    assert scene.model.tally.kills == 1
    assert target(scene) == 1_470_157_273


@pytest.mark.parametrize(
    "minutes", [[20], [20, 25], [20, 40 + 1440]], ids=["one", "two", "in two intervals"]
)
def test_a_restart_does_not_count_again(minutes: list[int]) -> None:
    """Kills that history holds are not counted once more by the next process."""
    scene = started()
    scene.use(memory=100 * MI)
    scene.go(minutes[0] + 5)
    killed_pod(scene, scene.at(minutes[0]))
    scene.go(minutes[-1] + 10)
    killed_pod(scene, *map(scene.at, minutes))
    scene.tick()
    before = scene.shown()
    scene.restart()
    scene.tick()

    assert scene.model.tally.kills == 0
    assert scene.model.tally.kills_repeated == len(minutes)
    assert scene.shown() == before


def test_no_more_kills_are_kept_than_may_be_told_again() -> None:
    """However often a container is killed, what is remembered of it does not grow."""
    scene = started()
    for minute in range(50):
        scene.go(minute)
        scene.killed(1000 * MI)
    scene.store()

    assert scene.model.tally.kills == 50
    kept = [second for _, second in scene.stored["web-app"].kills]
    assert kept == [int(scene.at(minute).timestamp()) for minute in (49, 48, 47)]


def test_a_kill_that_was_not_stored_counts_again() -> None:
    """What was lost with the process is found again."""
    scene = started()
    scene.use(100, 100 * MI)
    scene.store()
    scene.go(30)
    killed_pod(scene, scene.at(20))
    scene.restart(flush=False)

    assert scene.model.tally.kills == 1


@pytest.mark.parametrize("restores", [True, False])
def test_kills_wait_for_history(restores: bool) -> None:
    """While it is not known what history holds, kills are held back, until the next tick."""
    scene = started()
    killed_pod(scene, scene.at(0))
    scene.store()
    rest = Scene(EAGER)
    rest.vpa(restored=False)
    killed_pod(rest, scene.at(0))
    assert rest.model.tally.kills == 0

    if restores:
        rest.model.restore(scene.stored.values(), rest.now)
    rest.tick()

    assert rest.model.tally.kills == (0 if restores else 1)


def test_kills_of_others() -> None:
    """Unknown pods, containers and uids are told apart from those that are there."""
    scene = started()
    time_ns = 1
    scene.model.killed(
        [
            OomRecord("default", "web-9", "app", time_ns, GI),
            OomRecord("default", "web-0", "ghost", time_ns, GI),
            OomRecord("default", "web-0", "app", time_ns, GI, uid="other"),
        ],
        scene.now,
    )

    assert scene.model.tally.kills_unknown == 3


def test_kills_of_pods_without_a_vpa() -> None:
    """A kill that feeds nothing is not counted, nor remembered."""
    scene = Scene(EAGER)
    scene.pod()
    scene.killed(GI)

    assert scene.model.tally.kills == 0


def capped(rules: RecommenderRules) -> Scene:
    """Return a scene whose pod is killed every day because its maximum is too small."""
    scene = started(rules, policy=make.policy_json("app", max_allowed={"memory": "1000Mi"}))
    for day in range(3):
        scene.go(day * 1440)
        scene.use(100, 900 * MI)
        scene.killed(1000 * MI, at=scene.at(day * 1440 + 1))
        scene.tick()
    return scene


def test_the_same_peak_is_not_made_every_day() -> None:
    """A peak that stands already is not invented again while it is honoured."""
    scene = capped(EAGER)

    assert peaks(scene) == [(900, 0)]
    assert scene.model.tally.kills_equal == 2
    assert scene.model.tally.kills == 3


def test_a_peak_that_has_faded_is_made_again() -> None:
    """Once what is published falls below it, the peak counts again."""
    scene = capped(EAGER)
    for day in range(3, 14):
        scene.go(day * 1440)
        scene.use(100, 500 * MI)
        scene.tick()
    scene.killed(1000 * MI)

    assert peaks(scene) == [(500, 1200)]


def test_kills_of_pods_that_went_are_forgotten() -> None:
    """Nothing is kept of containers that are gone."""
    scene = started()
    scene.killed(1000 * MI)
    scene.drop("web-0")
    scene.go(61)
    scene.tick()
    scene.go(122)
    scene.tick()
    scene.pod()
    scene.killed(1000 * MI, at=scene.at(0))

    assert scene.model.tally.kills == 2


def test_a_broken_kill_costs_only_itself() -> None:
    """A kill at which our own code fails is kept by name, the next one counts."""
    scene = started()
    broken = OomRecord("default", "web-0", "app", None, MI)  # type: ignore[arg-type]
    good = OomRecord("default", "web-0", "app", nanoseconds(scene.now), 1000 * MI)
    scene.model.killed([broken, good], scene.now)

    assert [(one.kind, one.name) for one in scene.model.skipped.taken()] == [
        ("kill", "default/web-0/app")
    ]
    assert scene.model.tally.kills == 1
