"""The whole autoscaler on a cluster in memory, stepped: what flows are tested on.

Strategy: nothing is left out but the real time. Reviews go over HTTPS to the webhook, which
registered itself; recommender and updater are the processes that a cluster runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.admission.flags import AdmissionSettings
from app.flags.command_line import parse
from app.ports import PODS, VPAS, Json, PatchKind, Ref
from app.recommender.flags import RecommenderSettings
from app.run.embedded_webhook import Listeners
from app.run.flags import RunSettings
from app.run.modes import InMemoryMode
from app.run.world import ProcessSettings, World, read_manifests
from app.runtime.http_server import bound
from app.sandbox.load import ANNOTATION
from app.updater.flags import UpdaterSettings
from tests import make
from tests.sandbox_objects import events_in, pods_in

NAMESPACE = "shop"
MINUTE = 60.0
_GATES = "--feature-gates=AllAlpha=true"
_ANY_PORT = "--address=127.0.0.1:0"


def process_settings(
    *flags: str, recommender: Sequence[str] = (), updater: Sequence[str] = ()
) -> ProcessSettings:
    """Return how the three are told to work; the updater does all in the thread of the test."""
    one_thread = ("--update-concurrency=1", "--concurrent-cpu-startup-boost-syncs=1")
    return ProcessSettings(
        parse(AdmissionSettings, [_GATES, *flags], {}),
        parse(RecommenderSettings, [_GATES, _ANY_PORT, *flags, *recommender], {}),
        parse(UpdaterSettings, [_GATES, _ANY_PORT, *one_thread, *flags, *updater], {}),
    )


def listeners(port: int = 0) -> Listeners:
    """Return sockets for reviews and for the webhook's health."""
    return bound("127.0.0.1", port, "--port"), bound("127.0.0.1", 0, "--port")


@dataclass(frozen=True)
class Autoscaler:
    """The three at work, and questions about what they do."""

    world: World

    def apply(self, *items: Json) -> None:
        """Bring objects into the cluster."""
        assert self.world.sandbox.apply(*items) == []

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.world.sandbox.advance(seconds)

    def pods(self, selector: str = "") -> list[Json]:
        """Return the pods that are not on their way out, in the order of their names."""
        found = pods_in(self.world.sandbox, NAMESPACE, selector)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def requests(self, resource: str = "cpu", selector: str = "") -> list[str]:
        """Return what the first containers of pods ask for."""
        return [
            pod["spec"]["containers"][0]["resources"]["requests"][resource]
            for pod in self.pods(selector)
        ]

    def target(self, vpa: str) -> Mapping[str, str]:
        """Return what a VPA recommends for its first container."""
        found = self.world.sandbox.cluster.get(Ref(VPAS, NAMESPACE, vpa))
        target: Mapping[str, str] = found["status"]["recommendation"]["containerRecommendations"][
            0
        ]["target"]
        return target

    def reasons(self, vpa: str) -> set[str]:
        """Return why things are done, or not, about the pods of a VPA, as of the last round."""
        decisions = self.world.updater.decisions.decisions(NAMESPACE)
        return {str(one.reason) for one in decisions if one.vpa == vpa}

    def events(self, reason: str) -> list[str]:
        """Return the names of the pods of which something was told."""
        return [
            event["involvedObject"]["name"]
            for event in events_in(self.world.sandbox, NAMESPACE, reason)
            if event["involvedObject"]["kind"] == "Pod"
        ]

    def label(self, pod: str, **labels: str) -> None:
        """Give a pod labels."""
        body = {"metadata": {"labels": labels}}
        self.world.sandbox.cluster.patch(Ref(PODS, NAMESPACE, pod), body, kind=PatchKind.MERGE)


@contextmanager
def autoscaler(
    *items: Json,
    flags: Sequence[str] = (),
    recommender: Sequence[str] = (),
    updater: Sequence[str] = (),
) -> Iterator[Autoscaler]:
    """Start the three, all with some flags, and bring objects in; end all at the end."""
    settings = process_settings(*flags, recommender=recommender, updater=updater)
    world = World(settings, listeners())
    try:
        world.start()
        found = Autoscaler(world)
        found.apply(*items)
        yield found
    finally:
        world.stop()


@contextmanager
def in_memory(objects: Path, *flags: str) -> Iterator[InMemoryMode]:
    """Start what `plumbline run` starts, with the objects of a file; end all at the end."""
    words = ["--recommender-port=0", "--updater-port=0", "--page-port=0", *flags]
    mode = InMemoryMode(parse(RunSettings, words, {}), read_manifests([objects]), listeners())
    try:
        mode.start()
        yield mode
    finally:
        mode.stop()


def workload(
    name: str = "web",
    *,
    kind: str = "Deployment",
    load: str = "",
    replicas: int = 2,
    labels: Mapping[str, str] | None = None,
) -> Json:
    """Return a workload whose pods use what `load` says."""
    container = make.container_json(
        image="app:1",
        readinessProbe={"httpGet": {"port": 8080}, "periodSeconds": 1},
        resources={"requests": {"cpu": "100m", "memory": "100Mi"}},
    )
    found = make.workload_json(
        f"{kind}/{name}",
        namespace=NAMESPACE,
        labels={"app": name},
        replicas=replicas,
        containers=[container],
    )
    found["spec"]["template"]["metadata"]["labels"] |= labels or {}
    found["spec"]["template"]["metadata"]["annotations"] = {ANNOTATION: load}
    return found


def vpa(
    name: str = "web", *, target: str = "Deployment/web", mode: str = "Recreate", **spec: object
) -> Json:
    """Return a VPA; `spec` are further members."""
    return make.vpa_json(
        name, namespace=NAMESPACE, target=target, mode=mode, created=None, spec=spec
    )
