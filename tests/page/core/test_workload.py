"""What was explained becomes a view."""

from __future__ import annotations

from app.model.fields import Json
from app.page.core.workload import workload_view
from tests.cases import cases

CPU = {"had": {"request": "1"}, "gets": {"request": "2"}}


def told(**more: object) -> Json:
    """Return what is explained of a workload."""
    place = {"namespace": "shop", "kind": "Deployment", "name": "web"}
    return {**place, "creation": None} | more


@cases(
    "boost shown",
    {
        "none": (None, ""),
        "refused": ("refused: the feature gate is off", "refused: the feature gate is off"),
        "running": ({"from": "1", "to": "2"}, "1 to 2"),
        "held": ({"from": "1", "to": "2", "heldBy": "a flag"}, "1 to 2, held by a flag"),
    },
)
def test_a_boost_is_one_sentence(boost: object, shown: str) -> None:
    """Whatever became of it."""
    story = CPU | ({} if boost is None else {"boost": boost})
    creation = {
        "reason": "Sized",
        "message": "",
        "vpa": {
            "name": "web",
            "mode": "Recreate",
            "why": "",
            "weaker": [{"name": "b", "why": "c"}],
        },
        "containers": [{"name": "app", "cpu": story, "recommendation": "none yet"}],
    }
    view = workload_view(told(creation=creation), None)
    assert view.creation is not None
    assert [line.boost for line in view.creation.lines] == [shown]
    assert (view.creation.weaker, view.creation.silent) == (["b: c"], ["app: none yet"])
    assert (view.vpa, view.mode) == ("web", "Recreate")


def test_what_is_missing_stays_empty() -> None:
    """A workload of which little is known has little to show."""
    view = workload_view(told(noPods=True, conditions=[{"type": "A", "status": "True"}]), None)
    assert (view.vpa, view.creation, view.has_no_pods) == ("", None, True)
    assert view.conditions[0].type == "A"


def test_the_latest_event_is_first() -> None:
    """What happened is shown the other way round than it is told."""
    events = [
        {
            "at": f"2026-01-05T10:0{minute}:00Z",
            "on": "pod/web",
            "reason": "R",
            "message": str(minute),
        }
        for minute in (1, 2)
    ]
    assert [one.message for one in workload_view(told(events=events), None).events] == ["2", "1"]
