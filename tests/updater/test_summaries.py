"""The annotation on a VPA: written when its words change, and only then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.kube.manifests import documents
from app.model.errors import ClusterError, Conflict, NotFound, Refused, Unavailable
from app.model.vpa import Vpa
from app.ports import VPAS, PatchKind, Ref
from app.sandbox.clock import SteppedClock
from app.sandbox.sandbox import Sandbox
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.summaries import ANNOTATION, Summaries
from tests.faults import Fault, Faults
from tests.sandbox.worlds import snapshot_of
from tests.updater.stage import vpa


class Scene:
    """Two VPAs in a cluster, and what is offered about them."""

    def __init__(self) -> None:
        self.sandbox = Sandbox(SteppedClock())
        self.sandbox.apply(*documents.objects("crd"), vpa("web"), vpa("db"))
        self.faults = Faults()
        self.summaries = Summaries(self.faults.before(self.sandbox.cluster))

    @property
    def vpas(self) -> dict[str, Vpa]:
        """The VPAs as they are known."""
        return dict(snapshot_of(self.sandbox).of("default").vpas)

    def offer(self, *reasons: tuple[str, Reason]) -> None:
        """Offer decisions about pods, each by its VPA and reason."""
        decisions = [
            Decision(f"uid-{number}", "default", f"pod-{number}", name, Action.WAIT, reason, "")
            for number, (name, reason) in enumerate(reasons)
        ]
        self.summaries.offer(self.vpas, decisions)

    def tick(self) -> float:
        """Write what waits."""
        return self.summaries.tick(self.sandbox.clock.now())

    def text(self, name: str = "web") -> str | None:
        """Return what stands on a VPA."""
        return self.vpas[name].annotations.get(ANNOTATION)

    def version(self) -> str:
        """The version of one of them; every write makes it another."""
        return str(
            self.sandbox.cluster.get(Ref(VPAS, "default", "web"))["metadata"]["resourceVersion"]
        )

    def fail(self, error: ClusterError, times: int = 1) -> None:
        """Let the next writes fail."""
        self.faults.order(Fault(error, "patch", VPAS, times=times))


def test_it_sums_up() -> None:
    """Status, most frequent reason, and how many pods have which; nothing without pods."""
    scene = Scene()
    scene.offer(("web", Reason.TOO_YOUNG), ("web", Reason.TOO_YOUNG), ("web", Reason.PDB_BLOCKED))
    scene.tick()
    assert scene.text() == "False, InRangeTooYoung: 3 pods: 2 InRangeTooYoung, 1 PDBBlocked"
    assert scene.text("db") is None


def test_it_is_written_once() -> None:
    """The same words cost no second write, and pods that went are told of."""
    scene = Scene()
    for _ in range(3):
        scene.offer(("web", Reason.TOO_YOUNG))
        scene.tick()
    version = scene.version()
    scene.offer(("web", Reason.TOO_YOUNG))
    scene.tick()
    assert scene.version() == version
    scene.offer()
    scene.tick()
    assert scene.text() == "False, NoPods: no pods"


def test_it_is_written_once_though_the_watch_lags() -> None:
    """What was written is believed for two minutes; other words are written at once."""
    scene = Scene()
    seen = scene.vpas
    decision = Decision("u", "default", "p", "web", Action.WAIT, Reason.TOO_YOUNG, "")

    def written(reason: Reason) -> bool:
        version = scene.version()
        scene.summaries.offer(seen, [replace(decision, reason=reason)])
        scene.tick()
        return scene.version() != version

    assert written(Reason.TOO_YOUNG)
    body = {"metadata": {"annotations": {ANNOTATION: "by somebody else"}}}
    scene.sandbox.cluster.patch(Ref(VPAS, "default", "web"), body, kind=PatchKind.MERGE)
    assert not written(Reason.TOO_YOUNG)
    assert written(Reason.PDB_BLOCKED)
    assert written(Reason.TOO_YOUNG)
    scene.sandbox.cluster.patch(Ref(VPAS, "default", "web"), body, kind=PatchKind.MERGE)
    scene.sandbox.advance(121)
    scene.tick()
    assert written(Reason.TOO_YOUNG)


def test_only_the_latest_words_are_written() -> None:
    """What changed back before it was written is not written at all."""
    scene = Scene()
    scene.offer(("web", Reason.TOO_YOUNG))
    scene.tick()
    version = scene.version()
    scene.offer(("web", Reason.PDB_BLOCKED))
    scene.offer(("web", Reason.TOO_YOUNG))
    scene.tick()
    assert scene.version() == version


@pytest.mark.parametrize("error", [NotFound("gone"), Conflict("another uid")])
def test_one_vpa_holds_up_no_other(error: ClusterError) -> None:
    """A VPA that went or was made anew is passed over."""
    scene = Scene()
    scene.fail(error)
    scene.offer(("web", Reason.TOO_YOUNG), ("db", Reason.TOO_YOUNG))
    scene.tick()
    assert [scene.text(name) is None for name in ("web", "db")].count(True) == 1


def test_trouble_delays() -> None:
    """While the API server is away the words wait."""
    scene = Scene()
    scene.fail(Unavailable("down"))
    scene.offer(("web", Reason.TOO_YOUNG))
    with pytest.raises(Unavailable):
        scene.tick()
    scene.tick()
    assert scene.text() is not None


def test_a_namespace_that_takes_no_writes_holds_up_no_other() -> None:
    """A webhook of somebody's may fail for each write there; it is tried again now and then."""
    scene = Scene()
    other = vpa("other")
    other["metadata"]["namespace"] = "kube-system"
    assert scene.sandbox.apply(other) == []
    found = snapshot_of(scene.sandbox).of("kube-system").vpas
    decision = Decision("uid", "kube-system", "pod", "other", Action.WAIT, Reason.MODE_OFF, "")
    scene.offer(("web", Reason.MODE_OFF), ("db", Reason.MODE_OFF))
    scene.summaries.offer(found, [decision])
    scene.fail(Unavailable("failed calling webhook", status=500))
    scene.tick()
    written = snapshot_of(scene.sandbox).of("kube-system").vpas["other"].annotations.get(ANNOTATION)
    assert (scene.text(), scene.text("db"), written is None) == (None, None, False)
    scene.sandbox.advance(29)
    scene.tick()
    assert scene.text() is None
    scene.sandbox.advance(1)
    scene.tick()
    assert (scene.text() is None, scene.text("db") is None) == (False, False)


def test_without_the_right_nothing_is_tried_for_a_while() -> None:
    """One refusal is enough for ten minutes; then it is tried again."""
    scene = Scene()
    scene.fail(Refused("forbidden"))
    scene.offer(("web", Reason.TOO_YOUNG), ("db", Reason.TOO_YOUNG))
    scene.tick()
    scene.sandbox.advance(599)
    scene.tick()
    assert scene.text("web") is scene.text("db") is None
    scene.sandbox.advance(1)
    scene.offer(("web", Reason.TOO_YOUNG), ("db", Reason.TOO_YOUNG))
    scene.tick()
    assert None not in (scene.text("web"), scene.text("db"))


def test_another_vpa_of_the_same_name_is_left_alone() -> None:
    """The words belong to the VPA that was looked at."""
    scene = Scene()
    scene.offer(("web", Reason.TOO_YOUNG))
    scene.sandbox.cluster.delete(Ref(VPAS, "default", "web"))
    scene.sandbox.apply(vpa("web"))
    scene.tick()
    assert scene.text() is None
