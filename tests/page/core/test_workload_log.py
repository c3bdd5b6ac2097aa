"""What usage is compared with, now and before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from app.diagnosis.core.pod_events import PodEvent
from app.model.pods import Pod
from app.model.quantity import CPU
from app.page.core.charts import ChartLevel, LevelKind, MarkKind
from app.page.core.workload_log import WorkloadLog, event_marks
from tests import make
from tests.make import NOW
from tests.page.core.usage_samples import minutes

PODS = [
    make.pod(name="a", cpu="100m", memory="1Mi", cpu_limit="1"),
    make.pod(name="b", cpu="300m", memory="1Mi"),
    make.pod(name="c", cpu="200m"),
]
BOUNDS = make.recommendation_json(
    cpu="250m", lower=make.amounts("200m"), upper=make.amounts("400m")
)
VPA = make.vpa(recommendations=[BOUNDS])


def requests(log: WorkloadLog, at: datetime, *amounts: str) -> None:
    """Note one pod that requests this and that, a minute apart."""
    for number, cpu in enumerate(amounts):
        log.note("default", [(VPA, [make.pod(cpu=cpu)])], at + minutes(number))


def changes(log: WorkloadLog) -> list[tuple[datetime, int]]:
    """Return how the request of CPU changed."""
    return list(log.levels(VPA, PODS, NOW + minutes(9))["app", CPU][LevelKind.REQUEST].changes)


def test_without_a_look() -> None:
    """Before anything was noted a level is as if it had always been so."""
    assert WorkloadLog().levels(VPA, PODS, NOW)["app", CPU][LevelKind.TARGET] == ChartLevel(250)


def test_the_first_look() -> None:
    """What is seen for the first time is as if it had always been so, until a minute is over."""
    log = WorkloadLog()
    requests(log, NOW, "1")

    found = [log.levels(VPA, PODS, NOW + minutes(n))["app", CPU] for n in (0, 2)]
    assert [len(one[LevelKind.REQUEST].changes) for one in found] == [0, 1]


def test_changes() -> None:
    """A change is kept with its time; one below a percent is none."""
    log = WorkloadLog()
    requests(log, NOW, "1", "1005m", "500m")

    assert changes(log) == [(NOW, 1000), (NOW + minutes(2), 500)]


def test_a_day() -> None:
    """Of what is older than a day only the last one is kept, as it still counts."""
    log = WorkloadLog()
    requests(log, NOW, "1", "2", "3")
    requests(log, NOW + timedelta(days=2), "4")

    assert [amount for _, amount in changes(log)] == [3000, 4000]


def test_changes_are_few() -> None:
    """However often something changes, the newest changes are kept."""
    log = WorkloadLog()
    requests(log, NOW, *(f"{number}" for number in range(1, 100)))

    assert len(changes(log)) == 48
    assert changes(log)[-1][1] == 99_000


def test_what_is_gone() -> None:
    """VPAs and namespaces that went are forgotten."""
    log = WorkloadLog()
    requests(log, NOW, "1")
    log.note("default", [], NOW)
    assert changes(log) == []

    requests(log, NOW, "1")
    log.keep({"other"})
    assert changes(log) == []


KILLED = {
    "name": "app",
    "lastState": {"terminated": {"reason": "OOMKilled", "finishedAt": make.time(minutes(30))}},
}


def labelled(name: str, revision: str) -> Pod:
    """Return a pod of a revision."""
    labels = make.LABELS | {"pod-template-hash": revision}
    return make.pod(name=name, labels=labels, created=NOW - minutes(5))


def marks(*pictures: Sequence[Pod], at: datetime = NOW) -> list[tuple[MarkKind, str]]:
    """Note pictures, and return what happened."""
    log = WorkloadLog()
    for pods in pictures:
        log.note("default", [(VPA, pods)], at)
    return [(mark.kind, mark.text) for mark in log.marks(VPA)]


def test_kills() -> None:
    """A container that ran out of memory is one mark, however often it is seen."""
    alone = make.pod(status={"containerStatuses": [KILLED]})
    limited = make.pod(
        make.container_json(memory_limit="128Mi"), status={"containerStatuses": [KILLED]}
    )

    assert marks([alone], [alone]) == [(MarkKind.KILL, "web-0: app")]
    assert marks([limited]) == [(MarkKind.KILL, "web-0: app, limit 128Mi")]


def test_kills_stay_when_their_pods_are_gone() -> None:
    """They are told by namespace, with the pod."""
    log = WorkloadLog()
    killed = make.pod(annotations={"vpaCpuStartupBoost/app": "{}"}, created=NOW)
    killed = replace(killed, statuses=make.pod(status={"containerStatuses": [KILLED]}).statuses)
    for pods in ([killed], []):
        log.note("default", [(VPA, pods)], NOW)

    assert [(where, one.pod, one.kind) for where, one in log.kills()] == [
        ("default", "web-0", MarkKind.KILL)
    ]


def test_boosts() -> None:
    """A pod that was created with a boost is a mark at that time."""
    pod = make.pod(created=NOW, annotations={"vpaCpuStartupBoost/app": "{}"})

    assert marks([pod]) == [(MarkKind.BOOST, "web-0: app")]


def test_rollouts() -> None:
    """Pods of a template that was not seen before are a new version; the first look is none."""
    old, new, other = labelled("a", "1"), labelled("b", "2"), labelled("c", "2")

    assert marks([old], [old, new], [new, other]) == [
        (MarkKind.ROLLOUT, "b is the first pod of it")
    ]
    assert marks([make.pod()], [make.pod(name="b")]) == []


LEADER, FOLLOWER = (
    make.vpa(name, selector={"matchLabels": {"role": name}}) for name in ("leader", "follower")
)
DB = [make.pod(name=f"db-{number}") for number in range(3)]


def test_roles_that_move() -> None:
    """A pod that comes from the other VPA has the role since then; one that was away has it still.

    What was seen first tells nothing of before.
    """
    log = WorkloadLog()
    looks: list[tuple[list[Pod], list[Pod]]] = [
        (DB[:1], DB[1:]),
        ([], DB[2:]),  # two are created again
        (DB[:1], DB[1:]),
        (DB[1:2], [DB[0], DB[2]]),
    ]
    sinces = []
    for number, (leaders, followers) in enumerate(looks):
        found = [(LEADER, leaders), (FOLLOWER, followers), (VPA, [make.pod(name="x")])]
        log.note("default", found, NOW + minutes(number))
        sinces.append([log.role_since(vpa, pods) for vpa, pods in found])

    moved = NOW + minutes(3)
    assert sinces == [[None] * 3, [None] * 3, [None] * 3, [moved, moved, None]]
    told = [(mark.at, mark.kind, mark.text) for mark in log.marks(LEADER)]
    assert told == [(moved, MarkKind.ROLE, "db-1 has it since then")]
    assert [mark.text for mark in log.marks(FOLLOWER)] == ["db-0 has it since then"]


def test_pods_that_are_away_are_few() -> None:
    """Only the newest are remembered, and those of a namespace that went not at all."""
    log = WorkloadLog()
    for number in range(200):
        log.note("default", [(LEADER, [make.pod(name=f"db-{number}")])], NOW)
    assert len(log._roles["default"]) == 101
    log.keep([])
    assert log.role_since(LEADER, DB) is None
    assert not log._roles


def test_marks_are_few() -> None:
    """The newest of a fortnight are kept."""
    boosted = {"vpaCpuStartupBoost/app": "{}"}
    pods = [
        make.pod(
            name=f"p{number}",
            created=NOW + minutes(number),
            annotations=boosted,
            metadata={"uid": f"u{number}"},
        )
        for number in range(60)
    ]

    assert marks(pods)[0] == (MarkKind.BOOST, "p20: app")
    assert marks(pods, [], at=NOW + timedelta(days=15)) == []


def test_events() -> None:
    """What the updater reports about pods is a mark; other events are not."""
    reasons = ("EvictedByVPA", "InPlaceResizedByVPA", "Other")
    events = [
        PodEvent(NOW, "default", "a", "u", one, "why", "vpa-updater", 1, "") for one in reasons
    ]

    assert [(mark.kind, mark.text) for mark in event_marks(events)] == [
        (MarkKind.EVICTION, "a: why"),
        (MarkKind.RESIZE, "a: why"),
    ]
