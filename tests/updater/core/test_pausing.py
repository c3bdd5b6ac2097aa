"""Paused pods: no eviction and no resize, yet their boosts end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from app.model.fields import Json
from app.updater.core.decisions import Action, Reason
from tests import make
from tests.cases import cases
from tests.make import NO_GATES
from tests.updater.core.boosts import BUSY, UNBOOSTED, boost, boosted, scene
from tests.updater.core.scenes import (
    HOUR,
    Scene,
    amounts,
    container,
    killed,
    pending,
    recommended,
    resize_condition,
    running,
    several,
    unscheduled,
    with_status,
)
from tests.updater.core.test_boosted import aged

PAUSED = (Action.WAIT, Reason.PAUSED)
SMALL = running(container("app", "100m/100Mi"))
FITS = running(container("app", "200m/200Mi"))
DEFERRED = [resize_condition("Pending", "Deferred", ago=7200)]
STUCK = with_status(
    running(container("app", "300m/300Mi"), conditions=DEFERRED, age=3 * HOUR),
    "app",
    resources={"requests": amounts("100m/100Mi")},
)


def marked(value: str) -> dict[str, str]:
    """Return the annotation."""
    return {"plumbline/paused": value}


def paused(pod: Json, mode: str) -> Scene:
    """Return a scene of pods like one whose namespace is paused."""
    return Scene(several(pod, 3), mode=mode, others=[make.namespace_json(paused="true")])


@cases(
    "pod mode expected",
    {
        "an eviction": (SMALL, "Recreate", PAUSED),
        "a resize": (SMALL, "InPlaceOrRecreate", PAUSED),
        "an eviction after an OOM kill": (killed(SMALL), "Recreate", PAUSED),
        "an eviction for more alone": (SMALL, "UpscaleOnly", PAUSED),
        "a resize that is stuck": (STUCK, "InPlaceOrRecreate", PAUSED),
        "one that is taken back": (STUCK, "InPlace", PAUSED),
        "a pod without a node": (
            unscheduled(running(container("app", "900m/900Mi"))),
            "Recreate",
            PAUSED,
        ),
        "nothing to do": (FITS, "Recreate", (Action.NONE, Reason.NO_CHANGE)),
        "nothing is done anyway": (SMALL, "Off", (Action.NONE, Reason.MODE_OFF)),
        "nothing could be done anyway": (
            pending(SMALL),
            "InPlace",
            (Action.WAIT, Reason.POD_PENDING),
        ),
    },
)
def test_a_paused_namespace(pod: Json, mode: str, expected: tuple[Action, Reason]) -> None:
    """What would be evicted or resized waits; all others keep their own reason."""
    acts = (Action.EVICT, Action.RESIZE)
    assert (replace(paused(pod, mode), others=()).told()[0] in acts) == (expected == PAUSED)
    assert paused(pod, mode).told() == expected
    assert paused(pod, mode).plan().queues == ()


@cases(
    "others vpa message",
    {
        "its namespace": (
            [make.namespace_json(paused="true")],
            {},
            'namespace default has the annotation plumbline/paused: "true"',
        ),
        "its VPA": (
            [],
            {"annotations": marked("true")},
            'VPA web has the annotation plumbline/paused: "true"',
        ),
        "both": (
            [make.namespace_json(paused="1")],
            {"annotations": marked("t")},
            'VPA web has the annotation plumbline/paused: "t"',
        ),
        "no boolean": (
            [make.namespace_json(paused="till Monday")],
            {"annotations": marked("false")},
            'namespace default has the annotation plumbline/paused: "till Monday", '
            "which is no boolean and pauses",
        ),
        "no boolean at the VPA": (
            [],
            {"annotations": marked("")},
            'VPA web has the annotation plumbline/paused: "", which is no boolean and pauses',
        ),
        "another namespace": ([make.namespace_json("other", paused="true")], {}, None),
        "not any more": ([make.namespace_json(paused="false")], {"annotations": marked("0")}, None),
    },
)
def test_the_reason_names_who_pauses(
    others: Sequence[Json], vpa: Mapping[str, Any], message: str | None
) -> None:
    """The object that carries the annotation is named, so that it can be found and changed."""
    found = Scene(several(SMALL, 3), others=others, vpa=vpa).decision()
    if message is None:
        assert found.action is Action.EVICT
    else:
        assert (found.reason, found.message) == (Reason.PAUSED, message)
        assert found.numbers is not None


DUE = boosted()
MORE = [recommended("200m/2Gi = =")]


@cases(
    "pod expected",
    {
        "due": (DUE, UNBOOSTED),
        "due for long, and too small": (aged(boosted(), 7 * HOUR), UNBOOSTED),
        "not ready": (boosted(since=None), BUSY),
        "OOM-killed": (killed(boosted(since=None)), PAUSED),
    },
)
def test_boosts_of_paused_pods_end(pod: Json, expected: tuple[Action, Reason]) -> None:
    """Their end goes on, also where the pod would otherwise be evicted by now."""
    others = [make.namespace_json(paused="true")]
    assert scene(*several(pod, 3), recommendation=MORE, others=others).told() == expected


def test_a_paused_pod_is_looked_at_when_its_boost_is_over() -> None:
    """The reason is that it is paused; the moment is that of its boost."""
    pod = killed(boosted(since=timedelta(seconds=90)))
    found = scene(
        pod, startup=boost(300), recommendation=MORE, others=[make.namespace_json(paused="true")]
    )
    plain = scene(pod, startup=boost(300), recommendation=MORE)
    assert found.told() == PAUSED
    assert found.decision().until == plain.decision().until is not None


def test_a_paused_pod_whose_boosts_nothing_ends() -> None:
    """Without the gate it is held like any other."""
    pod = boosted(container("app", "300m/900Mi"))
    found = scene(*several(pod, 3), others=[make.namespace_json(paused="true")])
    assert Scene(found.pods, others=found.others, vpa=found.vpa, gates=NO_GATES).told() == PAUSED
