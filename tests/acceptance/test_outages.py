"""The API server goes and comes back while webhook and updater are at work."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex

import httpx
import pytest

from app.ports import PODS, VPAS
from tests.acceptance.cluster import Cluster
from tests.acceptance.load import owned_pod
from tests.acceptance.logs import Logs
from tests.acceptance.process import halted
from tests.acceptance.space import APP, SMALL, Box, Space, annotation, boxes_of, canonical
from tests.acceptance.stage import Stage, Team
from tests.acceptance.webhook import Webhook, renewed
from tests.acceptance.worker import Start
from tests.cluster.api import Api, Refusal
from tests.cluster.control_plane import ControlPlane
from tests.cluster.programs import during, eventually

AWAY_SECONDS = 5.0  # in which pauses that double come to be long
RESOURCE = "verticalpodautoscalers"
AGE = "plumbline_watch_last_event_age_seconds"


class Scene:
    """A controller whose pods are sized."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.owner = space.sized_owner("200m/200Mi")
        self.wait_for("200m/200Mi")

    def recommend(self, sizes: str) -> None:
        """Change what is recommended."""
        self.space.recommend({APP: sizes})

    def is_sized_by(self, webhook: Webhook) -> bool:
        """Say whether the webhook sizes a pod, whatever becomes of the API server."""
        return "patch" in webhook.asked(self.space.name, owned_pod(self.owner))

    def wait_for(self, sizes: str) -> None:
        """Return when new pods get these sizes."""
        wanted = (canonical(Box(requests=sizes)),)

        def look() -> bool:
            pod = self.space.create(owned_pod(self.owner), dry_run=True)
            return boxes_of(pod) == wanted

        eventually(look, f"pods get {sizes}")


@pytest.fixture
def scene(space: Space, webhook: Webhook) -> Scene:
    """Something that goes on before, and should afterwards."""
    assert webhook.problem() == "OK"
    return Scene(space)


def test_api_server_restarts(
    admin: Api, plane: ControlPlane, webhook: Webhook, scene: Scene
) -> None:
    """Killed and started again, it finds a webhook that goes on, and tells it what is new."""
    last = eventually(lambda: renewed(admin), "a beat")
    plane.api_server.kill()
    assert scene.is_sized_by(webhook), "reviews are answered from what is known"
    eventually(lambda: webhook.logged("will ask again"), "the webhook has noticed")
    plane.start_api_server()
    scene.recommend("300m/300Mi")
    scene.wait_for("300m/300Mi")
    eventually(lambda: renewed(admin) > last, "a beat")
    eventually(lambda: webhook.problem() == "OK", "ready")


def test_start_without_an_api_server(
    cluster: Cluster,
    plane: ControlPlane,
    logs: Logs,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """A webhook that starts first waits for the API server, and says so."""
    flags = ("--register-webhook=false",)
    early = Webhook(cluster, tmp_path, flags, name="early")
    request.addfinalizer(early.program.kill)
    plane.api_server.kill()
    logs.add(early.program.name, early.program.log)
    early.program.start()
    eventually(lambda: early.problem() == "there is no certificate yet", "it waits")
    plane.start_api_server()
    eventually(lambda: early.problem() == "OK", "it is ready")


def test_webhook_dies_during_a_rollout(webhook: Webhook, space: Space, logs: Logs) -> None:
    """No pod is blocked meanwhile; those that were missed are sized when they come again."""
    count = 200
    space.vpa()
    space.recommend({APP: "250m/200Mi"})
    space.deployment(SMALL, replicas=count)
    space.pods(count // 4)
    webhook.program.kill()
    found = space.pods(count)
    assert len(found) == count
    assert not all(annotation(pod, "vpaUpdates") for pod in found), "some came without a webhook"
    webhook.start(logs)
    webhook.wait_until_called()
    space.admin.delete_all(PODS, space.name)

    def look() -> bool:
        found = space.admin.list(PODS, space.name)
        return len(found) == count and all(annotation(pod, "vpaUpdates") for pod in found)

    eventually(look, "all pods are new and sized", seconds=180, every=1)


def test_history_is_compacted(
    plane: ControlPlane, webhook: Webhook, scene: Scene, admin: Api
) -> None:
    """Versions that were watched from are gone (410): all is read again, deletions included."""
    space = scene.space
    space.vpa("gone", kind="StatefulSet", target="gone")
    with halted(webhook.program):
        scene.recommend("400m/400Mi")
        admin.delete(VPAS, space.name, "gone")
        plane.api_server.kill()
        plane.compact()
        plane.start_api_server()
    scene.wait_for("400m/400Mi")
    space.vpa("again", kind="StatefulSet", target="gone")
    eventually(lambda: webhook.problem() == "OK", "ready")
    assert webhook.number(AGE, resource=RESOURCE) < 60
    assert webhook.logged("too old resource version")


def test_etcd_restarts(plane: ControlPlane, webhook: Webhook, scene: Scene) -> None:
    """While the API server cannot write, reviews are answered; afterwards all goes on."""
    plane.etcd.kill()
    assert scene.is_sized_by(webhook)
    plane.etcd.start()
    eventually(lambda: writes(lambda: scene.recommend("500m/500Mi")), "the API server writes")
    scene.wait_for("500m/500Mi")
    eventually(lambda: webhook.problem() == "OK", "ready")


def test_pods_follow_when_the_api_server_is_back(
    cluster: Cluster, plane: ControlPlane, webhook: Webhook, scene: Scene, start: Start
) -> None:
    """New pods are sized 5 s later, and 10 s later pods are evicted and asked to resize.

    Kubelets and controllers, which watch again after pauses of up to a minute, follow in the end.
    """
    team = Team(cluster, start, webhook)
    with Stage(team, "away", f"away-{token_hex(3)}") as resized:
        evicted = resized.other()
        for stage, mode in ((resized, "InPlaceOrRecreate"), (evicted, "Recreate")):
            stage.vpa(mode, recommended="100m/100Mi")
            stage.start()
        start("updater").wait_rounds(1)
        before = evicted.uids()
        plane.api_server.kill()
        during(AWAY_SECONDS, lambda: None)
        plane.start_api_server()
        back_at = time.monotonic()
        for place in (scene, resized, evicted):
            place.recommend("300m/300Mi")
        scene.wait_for("300m/300Mi")
        assert time.monotonic() - back_at <= 5
        resized.eventually(lambda: "300m" in resized.requests(), "a pod is asked to resize")
        evicted.eventually(lambda: before - evicted.uids(), "a pod is evicted")
        assert time.monotonic() - back_at <= 10
        evicted.wait_ready(3)
        resized.resizes(Box(requests="300m/300Mi"))


def writes(write: Callable[[], None]) -> bool:
    """Say whether something can be written."""
    try:
        write()
    except (Refusal, httpx.HTTPError):
        return False
    return True
