"""Whatever stands in the objects of a cluster, there is a plan, and it can be carried out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.model.errors import BadObject, ClusterError, Invalid, Refused
from app.model.fields import Json
from app.model.snapshot import Snapshot
from app.updater.core.action_queue import QueueCursor
from app.updater.core.decisions import decision_json
from app.updater.core.events import outcome_events
from app.updater.core.memory import Memory
from app.updater.core.outcomes import Outcome, learn
from app.updater.core.patching import annotation_patch, resize_patch
from app.updater.core.plan import Plan, plan
from app.updater.core.rules import UpdateRules
from app.updater.core.unboost import next_look
from tests import make
from tests.make import ALL_GATES, with_value
from tests.updater.core.boosts import boost, boosted, mark
from tests.updater.core.resizes import asking
from tests.updater.core.scenes import (
    NOW,
    OURS,
    UNPROVEN,
    container,
    killed,
    named,
    recommended,
    resize_condition,
    running,
)

SIDE: Final = container("side", "50m/50Mi", "100m/-", resize={"memory": "RestartContainer"})
TIMES: Final = {"vpaInPlaceUpdatedAt": "2026-01-05T09:00:00Z", "vpaObservedContainers": "app, side"}
POD: Final = killed(
    running(
        container("app", "100m/100Mi", "300m/300Mi"),
        SIDE,
        annotations=TIMES,
        conditions=[resize_condition("Pending", "Deferred", ago=9), resize_condition("InProgress")],
    )
)
MARKS: Final = {"vpaCpuUnboostPending/app": "2026-01-05T09:00:00Z"}
PODS: Final = [
    POD,
    running(container("app", "100m/100Mi"), SIDE),
    boosted(container("app", "300m/100Mi"), SIDE, marks={"app": mark("100m/100Mi")}, more=MARKS),
    asking(resize_condition("Pending", "Infeasible")),
]
MODES: Final = ["Recreate", "InPlaceOrRecreate", "InPlace", "UpscaleOnly", "Off"]
LIMITS: Final = [
    make.limits_json("Pod", most=make.amounts("400m", "1Gi")),
    make.limits_json("Container", least=make.amounts("10m", "10Mi")),
]


def vpa(mode: str) -> Json:
    """Return a VPA that says as much as one can say."""
    return make.vpa_json(
        mode=mode,
        boost=boost(60),
        min_replicas=1,
        policies=[make.policy_json("side", boost=boost(10)), make.policy_json("*")],
        recommendations=[recommended("200m/200Mi 150m/150Mi 1/1Gi"), recommended("9/9Gi", "side")],
    )


STRINGS: Final = [
    "", "?", "0", "-1", "1e1000", "1e-12", "9" * 99, "True", "False", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z", "2026-01-05T10:00:00Z", "app", "RestartContainer", "OOMKilled",
]  # fmt: skip
NUMBERS: Final = [0, 1, -1, 2**31 - 1, -(2**31)]


def leaves(value: object, at: str = "") -> Iterator[tuple[str, object]]:
    """Yield the texts and numbers of an object with their paths."""
    match value:
        case dict():
            for key, item in value.items():
                yield from leaves(item, f"{at}[{key}]")
        case list():
            for index, item in enumerate(value):
                yield from leaves(item, f"{at}[{index}]")
        case _ if "." not in at:
            yield at, value


@st.composite
def odd(draw: st.DrawFn, item: Json) -> Json:
    """Return copies of an object with a few values of the right type that are not expected."""
    found = list(leaves({key: item[key] for key in item if key not in ("kind", "apiVersion")}))
    for path, value in draw(st.lists(st.sampled_from(found), max_size=4)):
        others: Sequence[object] = NUMBERS if isinstance(value, int) else STRINGS
        item = with_value(item, path, draw(st.sampled_from(others)))
    return item


def known(items: Sequence[Json]) -> Snapshot:
    """Return what is left of objects when those that cannot be read are left out."""
    found = Snapshot()
    for item in items:
        with suppress(BadObject):
            found = found.changed([make.change(item)])
    return found


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Return a cluster whose objects hold such values."""
    pods = [named(pod, f"web-{number}") for number, pod in enumerate(PODS)]
    others = [
        make.workload_json(replicas=4),
        vpa(draw(st.sampled_from(MODES))),
        make.limit_range_json(*LIMITS),
        make.budget_json(allowed=1),
        make.node_json(),
    ]
    return known([draw(odd(item)) for item in (*pods, *others)])


RULES: Final = [OURS, UNPROVEN, replace(OURS, upscale_only_in_place=True)]
ERRORS: Final[list[ClusterError | None]] = [None, Refused("no"), Invalid("never")]


def learnt(made: Plan, rules: UpdateRules, error: ClusterError | None) -> Memory:
    """Return what is remembered after all steps of a plan ended in the same way."""
    memory = made.memory
    for queue in made.queues:
        walk = QueueCursor(queue)
        while (step := walk.next()) is not None:
            change = step.decision.change
            if change is not None:
                assert resize_patch(step.pod, change) or annotation_patch(step.pod, change)
            outcome = Outcome(queue, step, NOW, error)
            assert len(list(outcome_events(outcome))) <= 2
            memory = learn(memory, [outcome], rules)
    return memory


@given(clusters(), st.sampled_from(RULES), st.sampled_from(ERRORS))
@settings(max_examples=200, deadline=None)
def test_garbage_is_decided_about(
    found: Snapshot, rules: UpdateRules, error: ClusterError | None
) -> None:
    """A plan is made, told, carried out in words and learnt from, twice."""
    memory = Memory()
    for _ in range(2):
        made = plan(found, rules, ALL_GATES, memory, NOW)
        for decision in made.decisions:
            orjson.dumps(decision_json(decision))
        memory = learnt(made, rules, error)


ENDS: Final = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]
PLACES: Final = [
    "status.startTime",
    "metadata.creationTimestamp",
    "metadata.annotations.vpaInPlaceUpdatedAt",
    "metadata.annotations.vpaCpuUnboostPending/app",
    "status.conditions[0].lastTransitionTime",
    "status.conditions[1].lastTransitionTime",
    "status.containerStatuses[0].lastState.terminated.finishedAt",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("moment", [*ENDS, "9999-12-31T23:59:59-23:00"])
@pytest.mark.parametrize("target", ["200m/200Mi = =", "120m/120Mi 50m/50Mi 1/1Gi"])
def test_the_ends_of_the_calendar(place: str, moment: str, target: str) -> None:
    """A time that nothing can be added to stops no round, and no look at a boost."""
    for pod, rules in product(PODS, RULES):
        items = [
            make.vpa_json(mode="Recreate", boost=boost(60), recommendations=[recommended(target)])
        ]
        items += [make.workload_json(replicas=3), named(pod, "web-1"), named(pod, "web-2")]
        with suppress(IndexError):
            items.append(with_value(pod, place, moment))
        found = known(items)
        made = plan(found, rules, ALL_GATES, Memory(), NOW)
        assert len(made.decisions) >= 2
        for decision in made.decisions:
            look = next_look(decision, 0, NOW)
            assert look is not None
            assert look.pause.total_seconds() > 0


AMOUNTS: Final = ["100m/100Mi", "1e1000/1e1000", "1e-12/1e-12", "-1/-1", "0/0"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("request_", AMOUNTS)
@pytest.mark.parametrize("target", [f"{amount} = =" for amount in AMOUNTS])
def test_the_ends_of_quantities(request_: str, target: str, mode: str) -> None:
    """Nor does an amount that no float holds."""
    pods = [named(running(container("app", request_)), f"web-{number}") for number in range(3)]
    vpa_ = make.vpa_json(mode=mode, recommendations=[recommended(target)])
    found = make.snapshot(*pods, make.workload_json(replicas=3), vpa_)
    for rules in RULES:
        made = plan(found, rules, ALL_GATES, Memory(), NOW)
        assert [orjson.dumps(decision_json(each))[:1] for each in made.decisions] == [b"{"] * 3
        learnt(made, rules, None)
        again = plan(found, rules, ALL_GATES, learnt(made, rules, Refused("no")), NOW)
        assert len(again.decisions) == 3
