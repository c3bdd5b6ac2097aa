"""What is watched of a cluster becomes pictures; what cannot be read is told, and costs no more."""

from __future__ import annotations

from app.flags.command_line import parse
from app.kube.manifests import documents
from app.model.errors import Refused, Unavailable
from app.model.fields import Json
from app.page.flags import PageSettings
from app.page.pictures import Pictures, decision_rules
from app.page.sources import ClusterSource
from app.ports import CHECKPOINTS, EVENTS, POD_METRICS, PODS, Ref
from app.run.simulated import SimulatedRuntime
from tests import make
from tests.faults import Fault, Faults
from tests.page.shown import answer
from tests.reached_limits import ReachedLimits
from tests.sandbox.worlds import SteppedSandbox, deployment
from tests.sandbox_objects import pods_in

VPA = make.vpa_json(target="Deployment/web", cpu="200m", memory="200Mi", mode="Off", created=None)
PAGE = "/namespaces/default/vpas/web"


class Watched:
    """A Deployment with its VPA in memory, and the page that watches it."""

    def __init__(self, *flags: str) -> None:
        world = SteppedSandbox()
        self.sandbox = world.sandbox
        self.sandbox.apply(*documents.objects("crd"))
        world.run(deployment("web", replicas=2, load="cpu: constant 50m"), VPA, seconds=60)
        told = ["--use-admission-controller-status=false", *flags]
        settings = parse(PageSettings, told, {})
        self.faults = Faults()
        runtime = SimulatedRuntime(self.sandbox, self.faults.before(self.sandbox.cluster))
        self.source = ClusterSource(settings, runtime, ReachedLimits())
        self.pictures = Pictures(self.source, decision_rules(settings), 10.0, None)

    def look(self, seconds: float = 1) -> Pictures:
        """Let time pass, and look again."""
        self.sandbox.advance(seconds)
        self.pictures.tick(self.sandbox.clock.now())
        return self.pictures

    def pods(self) -> list[str]:
        """Return the names of the pods."""
        return [pod["metadata"]["name"] for pod in pods_in(self.sandbox)]


def started(*flags: str) -> Watched:
    """Return one that watches."""
    found = Watched(*flags)
    found.source.start()
    found.look()
    return found


def test_nothing_is_shown_before_all_is_read() -> None:
    """The first picture is whole."""
    found = Watched()
    assert found.look().latest is None
    assert "not read yet" in found.pictures.problem()
    found.source.start()
    assert found.look().latest is not None
    assert not found.pictures.problem()
    found.source.stop()


def test_a_watched_cluster_is_shown() -> None:
    """Pods, their usage and what a new one would get come from the cluster."""
    found = started()
    (row,) = answer(found.pictures, "/fleet.json").json()["rows"]
    assert (row["pods"], row["reason"]) == (2, "ModeOff")
    assert row["cpu"]["usage"] > 0
    told = answer(found.pictures, f"{PAGE}.json").json()
    assert len(told["pods"]) == 2
    assert told["creation"]["message"] == "VPA web is in mode Off"


def test_what_changes_is_in_the_next_picture() -> None:
    """Namespaces that did not change are taken over."""
    found = started()
    before = found.look().latest
    assert before is not None
    found.sandbox.cluster.delete(Ref(PODS, "default", found.pods()[0]))
    after = found.look(5).latest
    assert after is not None
    assert after.fleet["default"] is not before.fleet["default"]


def test_what_helps_but_cannot_be_read_is_told() -> None:
    """The page goes on without usage, histories and the text of objects."""
    found = Watched()
    for resource in (POD_METRICS, CHECKPOINTS):
        found.faults.order(Fault(Unavailable("away"), "list", resource, times=99))
    found.faults.order(Fault(Refused("no"), "get", PODS, times=99))
    found.source.start()
    picture = found.look().latest
    assert picture is not None
    assert list(picture.notes) == [
        "usage cannot be read: away",
        "checkpoints cannot be read: away",
    ]
    assert answer(found.pictures, PAGE).status_code == 200
    found.faults.clear()
    found.look(400)
    assert found.pictures.latest is not None
    assert not found.pictures.latest.notes


def test_silence_is_told() -> None:
    """A cluster of which nothing was heard for minutes is not shown as if it were now."""
    found = started()
    found.source._watch.stale = _silent  # type: ignore[method-assign]
    page = answer(found.look())
    assert "not up to date" in page.text
    assert "silent for more than 120 s" in page.text


def _silent(longest_seconds: float) -> str:
    return f"silent for more than {longest_seconds:.0f} s"


def test_a_cluster_that_goes_away_leaves_its_last_picture() -> None:
    """The page says since when, and why."""
    found = started()
    found.source.problem = lambda: "pods were last seen 130 s ago"  # type: ignore[method-assign]
    page = answer(found.look(130))
    assert page.status_code == 200
    assert "not up to date, but 2m old: pods were last seen 130 s ago" in page.text


def test_a_cluster_that_gives_no_answer_is_told_at_once() -> None:
    """All pages stay, with the age of what they show; nobody waits, and pages ask nothing."""
    found = started("--use-admission-controller-status=true")
    pod = found.pods()[0]
    before = found.look(5).latest
    assert before is not None
    away = [Fault(Unavailable("away"), verb, times=999) for verb in ("request", "get", "list")]
    for fault in away:
        found.faults.order(fault)
    found.look(15)
    asked = away[1].times
    for path in ("/", "/feed", "/installation", PAGE, f"/namespaces/default/pods/{pod}"):
        page = answer(found.pictures, path)
        assert page.status_code == 200
        told = "not up to date, but 15s old: the API server gives no answer: away"
        assert told in page.text, path
        at = answer(found.pictures, f"{path if path != '/' else '/fleet'}.json").json()["at"]
        assert at == make.time(before.now)
    assert away[1].times == asked

    found.faults.clear()
    latest = found.look(2).latest
    assert latest is not None
    assert latest.now > before.now
    assert "not up to date" not in answer(found.pictures).text


def test_what_the_updater_did_is_known_from_events() -> None:
    """Events of others do not count."""
    found = started()
    pod = found.pods()[0]
    for name, component in (("done", "vpa-updater"), ("other", "kubelet")):
        event = resized(pod, name, found) | {"source": {"component": component}}
        found.sandbox.cluster.create(Ref(EVENTS, "default"), event)
    found.look()
    assert [one.component for one in found.source.events] == ["vpa-updater"]
    assert "Pod was resized" in answer(found.pictures, f"/namespaces/default/pods/{pod}.json").text


def test_what_the_updater_did_is_known_when_its_events_are_gone() -> None:
    """A cluster keeps Events for an hour; here they stand on charts and in the feed for longer."""
    found = started()
    pod = found.pods()[0]
    found.sandbox.cluster.create(Ref(EVENTS, "default"), resized(pod, "done", found))
    found.look()
    found.sandbox.cluster.delete(Ref(EVENTS, "default", "done"))
    found.look(2 * 3600)

    assert [one["pod"] for one in answer(found.pictures, "/feed.json").json()["entries"]] == [pod]
    marks = answer(found.pictures, f"{PAGE}.json?range=24h").json()["charts"][0]["marks"]
    assert [one["kind"] for one in marks] == ["resized"]
    found.look(15 * 86_400)
    found.sandbox.cluster.create(Ref(EVENTS, "default"), resized(pod, "later", found))
    found.look()
    assert len(found.source.events) == 1


def resized(pod: str, name: str, found: Watched) -> Json:
    """Return the Event of a resize."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": pod, "uid": "u"},
        "reason": "InPlaceResizedByVPA",
        "message": "Pod was resized",
        "source": {"component": "vpa-updater"},
        "lastTimestamp": make.time(found.sandbox.clock.now()),
    }


def test_pages_of_objects_stay_when_the_cluster_goes_away() -> None:
    """They are made of what is watched, say what lacks, and the cluster is not asked each time."""
    found = started()
    pod = found.pods()[0]
    fault = Fault(Unavailable("away"), "get", times=99)
    found.faults.order(fault)
    for path in (PAGE, f"/namespaces/default/pods/{pod}"):
        page = answer(found.pictures, path)
        assert page.status_code == 200
        assert "cannot be read as they were written: away" in page.text
        assert pod in page.text
    assert not list(answer(found.pictures, f"{PAGE}.json").json().get("copied", ()))
    assert fault.times == 98
    found.faults.clear()
    found.sandbox.advance(11)
    assert "cannot be read" not in answer(found.pictures, PAGE).text
