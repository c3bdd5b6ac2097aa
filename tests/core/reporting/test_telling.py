"""What was found as JSON values."""

from __future__ import annotations

from app.core.reporting.outlook import Turn
from app.core.reporting.standings import Gap, Standing
from app.core.reporting.telling import standing_json, turn_json, vpa_json
from app.core.updating.decisions import Action, Decision, Reason
from app.model.vpa import read_vpa
from tests import make


def test_a_standing() -> None:
    """Amounts are exact and without sign; what is not known is left out."""
    plain = Standing("default", "web", "Off", "StatefulSet/web", 0)
    short = Standing(
        "default",
        "web",
        "Off",
        "StatefulSet/web",
        2,
        "app",
        "cpu",
        gap=Gap(make.quantity("-250m"), -2.5),
        confidence=0.5,
        as_of=make.NOW,
    )
    assert standing_json(plain) == {
        "namespace": "default",
        "vpa": "web",
        "mode": "Off",
        "workload": "StatefulSet/web",
        "pods": 0,
    }
    told = standing_json(short)
    assert (told["shortage"], told["share"], told["confidence"]) == ("250m", 2.5, 0.5)
    assert told["asOf"] == "2026-01-05T10:00:00+00:00"


def test_a_turn() -> None:
    """A decision comes with its time, and with what helps if something does."""
    few = Decision("u", "default", "web-0", "web", Action.WAIT, Reason.TOO_FEW_REPLICAS, "few")
    none = Decision("u", "default", "web-0", "web", Action.NONE, Reason.NO_CHANGE, "fine")
    told = turn_json(Turn(make.NOW, few, make.NOW))
    assert told["advice"].startswith("run more replicas")
    assert told["until"] == told["at"] == "2026-01-05T10:00:00+00:00"
    assert turn_json(Turn(make.NOW, none, None)).keys() == {"at", "action", "reason", "message"}


def test_a_vpa() -> None:
    """What it asks for and what its conditions say, whole or bare."""
    conditions = [{"type": "NoPodsMatched", "status": "True", "reason": "NoPodsMatched"}]
    whole = make.vpa_json(
        selector={"matchLabels": {"role": "leader"}},
        spec={"recommenders": [{"name": "mine"}]},
        status={"conditions": conditions},
    )
    told = vpa_json(read_vpa(whole))
    assert (told["selector"], told["recommenders"]) == ("role=leader", ["mine"])
    assert (told["workload"], told["conditions"]) == ("StatefulSet/web", conditions)
    bare = vpa_json(read_vpa(make.vpa_json(target=None, created=None)))
    assert bare.keys() == {"kind", "namespace", "name", "mode", "conditions"}
