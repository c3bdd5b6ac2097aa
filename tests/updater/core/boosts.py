"""Scenes of boosted pods, for the tests around the end of boosts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta

from app.model.fields import Json
from app.model.pods import UNBOOST_KEY_PREFIX
from app.updater.core.decisions import Action, Reason
from app.updater.core.memory import Memory
from app.updater.core.rules import UpdateRules
from tests import make
from tests.updater.core.scenes import (
    MINUTE,
    UNPROVEN,
    Scene,
    amounts,
    container,
    recommended,
    running,
    with_status,
)

SECOND = timedelta(seconds=1)
BOOST = "vpaCpuStartupBoost/"


def mark(requests: str, limits: str = "-") -> str:
    """Return what the webhook writes about a container's original resources."""
    return json.dumps({"requests": amounts(requests), "limits": amounts(limits)})


def boosted(
    *containers: Json,
    marks: Mapping[str, str] | None = None,
    since: timedelta | None = 2 * MINUTE,
    more: Mapping[str, str] | None = None,
    conditions: Sequence[Json] = (),
) -> Json:
    """Return a boosted pod, Ready since so long; marks are by container."""
    found = {"app": mark("100m/100Mi")} if marks is None else marks
    annotations = {BOOST + name: text for name, text in found.items()} | dict(more or {})
    return running(
        *(containers or (container("app", "300m/100Mi"),)),
        annotations=annotations,
        age=MINUTE if since is None else since,
        ready=since is not None,
        conditions=conditions,
    )


def boost(seconds: int | None = None) -> Json:
    """Return a boost by factor 3."""
    return make.boost_json(factor=3, duration_seconds=seconds)


def policy(name: str, seconds: int | None = None) -> Json:
    """Return a container's policy with a boost of its own."""
    return make.policy_json(name, boost=boost(seconds))


C1, C2 = policy("c1", 60), policy("c2", 300)
TWO = {"c1": mark("100m"), "c2": mark("100m")}
BOOSTS = boost()


def scene(
    *pods: Json,
    mode: str | None = "Recreate",
    recommendation: Sequence[Json] | None = None,
    rules: UpdateRules = UNPROVEN,
    memory: Memory | None = None,
    replicas: int | None = None,
    others: Sequence[Json] = (),
    policies: Sequence[Json] | None = None,
    startup: Json | None = BOOSTS,
    advised: bool = True,
) -> Scene:
    """Return a scene of boosted pods with a boost in their VPA."""
    vpa: Json = {"boost": startup, "policies": policies}
    return Scene(
        pods,
        [recommended("200m/200Mi = =")] if recommendation is None else recommendation,
        mode=mode,
        rules=rules,
        memory=memory or Memory(),
        replicas=replicas,
        others=others,
        vpa=vpa if advised else vpa | {"recommendations": None},
    )


LIMITED = container("app", "300m/100Mi", "600m/100Mi")
AT = "2026-01-05T10:00:00Z"
BUSY = (Action.WAIT, Reason.BOOST_RUNNING)
UNBOOSTED = (Action.UNBOOST, Reason.BOOST_OVER)


def asks_for_less(ago: timedelta = SECOND, conditions: Sequence[Json] = ()) -> Json:
    """Return a pod whose resize back was accepted and not carried out yet."""
    marks = {UNBOOST_KEY_PREFIX + "app": make.time(ago) or ""}
    pod = boosted(container("app", "200m/100Mi"), more=marks, conditions=conditions)
    return with_status(pod, "app", resources={"requests": amounts("300m/100Mi")})
