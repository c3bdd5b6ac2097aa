"""Operators pause a namespace or a VPA: nothing is evicted or resized there, and boosts end."""

from __future__ import annotations

from app.ports import NAMESPACES, PODS, VPAS, PatchKind, Ref
from tests.cases import cases
from tests.updater.stage import Call, Stage, in_other, small, staged, vpa
from tests.updater.test_boosts import boosting

NAMESPACE, VPA = Ref(NAMESPACES, "", "default"), Ref(VPAS, "default", "web")


def annotate(stage: Stage, place: Ref, value: str | None) -> None:
    """Pause a namespace or a VPA, or pause it no more."""
    body = {"metadata": {"annotations": {"plumbline/paused": value}}}
    stage.sandbox.cluster.patch(place, body, kind=PatchKind.MERGE)


def acted(stage: Stage) -> int:
    """Return how many evictions and resizes reached the cluster."""
    return len(stage.evicted()) + stage.carried.count("patch", "resize")


@cases(
    "place mode value",
    {
        "a namespace, evictions": (NAMESPACE, "Recreate", "true"),
        "a namespace, resizes": (NAMESPACE, "InPlaceOrRecreate", "true"),
        "a VPA, evictions": (VPA, "Recreate", "true"),
        "a VPA, resizes": (VPA, "InPlaceOrRecreate", "true"),
        "what is no boolean": (NAMESPACE, "Recreate", "please"),
    },
)
def test_nothing_is_done_while_it_is_paused(place: Ref, mode: str, value: str) -> None:
    """All pods wait with the reason, which decisions, metric and summary show; then they go."""
    stage = staged("--vpa-summaries", mode=mode)
    annotate(stage, place, value)
    stage.run(300)
    assert acted(stage) == 0
    assert stage.reasons() == ["Paused"] * 4
    assert stage.metric("pod_decisions", reason="Paused") == 4
    assert stage.summary() == "False, Paused: 4 pods: 4 Paused"
    annotate(stage, place, None)
    stage.run(300)
    assert stage.requests() == ["200m"] * 4
    assert stage.metric("pod_decisions", reason="Paused") == 0


def test_others_go_on() -> None:
    """A paused VPA holds up no other of its namespace, a paused namespace none of another."""
    stage = staged()
    stage.apply(small("api"), vpa("api", target="Deployment/api"))
    stage.apply(in_other(small()), in_other(vpa()))
    stage.run(20)
    stage.recommend("200m/200Mi = =", "api")
    stage.recommend("200m/200Mi = =", namespace="other")
    annotate(stage, VPA, "true")
    stage.run(300)
    pods = {name.rsplit("-", 2)[0] for name in stage.evicted()}
    assert stage.requests() == ["100m"] * 4 + ["200m"] * 4
    assert pods == {"api", "web"}
    assert sum(call.namespace == "other" for call in stage.carried.calls if call.verb == "evict")


def test_new_pods_are_sized() -> None:
    """To pause stops what is done to running pods alone."""
    stage = staged()
    annotate(stage, NAMESPACE, "true")
    name = stage.pods()[0]["metadata"]["name"]
    stage.sandbox.cluster.delete(Ref(PODS, "default", name))
    stage.run(60)
    assert stage.requests() == ["100m"] * 3 + ["200m"]


@cases("place", {"a namespace": (NAMESPACE,), "a VPA": (VPA,)})
def test_boosts_end_while_it_is_paused(place: Ref) -> None:
    """Else pods would keep more than they need until updates are resumed."""
    stage = boosting(seconds=30)
    stage.recommend("100m/900Mi = =")  # which would evict them
    annotate(stage, place, "true")
    stage.run(27)
    assert stage.requests() == ["300m"] * 4
    stage.run(10)
    assert stage.requests() == ["100m"] * 4
    stage.run(120)
    assert (stage.evicted(), stage.reasons()) == ([], ["Paused"] * 4)


@cases("place", {"a namespace": (NAMESPACE,), "a VPA": (VPA,)})
def test_what_is_paused_in_the_middle_of_a_round(place: Ref) -> None:
    """What was planned and not called yet is not called any more, and says why."""
    stage = staged("--prove=off")

    def pause(call: Call) -> None:
        if call.verb == "evict":
            annotate(stage, place, "true")
            stage.run_watch()

    stage.carried.after = pause
    stage.round()
    assert len(stage.evicted()) == 1
    assert sorted(stage.reasons()) == ["Evicted", "Paused", "Paused", "Paused"]
    stage.run(300)
    assert len(stage.evicted()) == 1
