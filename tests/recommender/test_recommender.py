"""The recommender learns from a whole cluster, writes little, and loses nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from app.model.errors import ClusterError, NotFound, TooMany, Unavailable
from app.ports import POD_METRICS, VPAS, Cluster, Json, Ref
from app.sandbox.sandbox import Sandbox
from tests.flows.test_recommender_rows import orphan
from tests.recommender.scenes import LOAD, Scene
from tests.sandbox.worlds import deployment


@pytest.fixture
def scene() -> Scene:
    """One Deployment, its VPA, a recommender that has not begun."""
    return Scene()


def test_every_round_leaves_a_line(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """A round tells in one line what it did and how long each step took, also if a step fails."""
    caplog.set_level("INFO")
    scene.rounds(1)
    scene.fail(Unavailable("down"), "list", POD_METRICS)
    scene.rounds(1)

    lines = [record for record in caplog.records if record.message == "round finished"]
    assert [line.__dict__["samples"] for line in lines] == [1, 0]
    for line in lines:
        assert {"LoadVPAs", "LoadPods", "LoadMetrics", "UpdateVPAs"} <= line.__dict__[
            "steps"
        ].keys()


def test_rounds_go_from_start_to_start(scene: Scene) -> None:
    """Between two rounds nothing is done, until the interval is over."""
    for seconds in (0, 59.5):
        scene.sandbox.advance(seconds)
        scene.recommender.tick(scene.sandbox.clock.now())
    assert scene.recommender.model.tally.cpu == 1

    scene.sandbox.advance(0.5)
    scene.recommender.tick(scene.sandbox.clock.now())
    assert scene.recommender.model.tally.cpu == 2


class SlowToTake:
    """A cluster that takes more than a minute to take a status."""

    def __init__(self, cluster: Cluster, sandbox: Sandbox) -> None:
        self._cluster = cluster
        self._sandbox = sandbox

    def __getattr__(self, verb: str) -> object:
        return getattr(self._cluster, verb)

    def patch(self, ref: Ref, body: Json) -> Json:
        """Take it, late."""
        if ref.subresource:
            self._sandbox.advance(61)
        return self._cluster.patch(ref, body)


def test_usage_is_read_while_writes_go_on(scene: Scene) -> None:
    """A round that writes for longer than an interval misses no usage."""
    scene.cluster = cast("Cluster", SlowToTake(scene.cluster, scene.sandbox))
    recommender = scene.started()
    scene.rounds(1, recommender)

    assert recommender.model.tally.cpu == 2


@pytest.mark.parametrize("error", [Unavailable("500"), TooMany("429"), NotFound("404")])
def test_a_failed_status_comes_again(scene: Scene, error: ClusterError) -> None:
    """What could not be published is counted, and published by the next round."""
    scene.fail(error, "patch", VPAS, times=1)
    scene.rounds(1)
    assert not scene.recommended()
    name, labels = "vpa_recommender_failed_writes_total", {"object": "status"}
    assert scene.registry.get_sample_value(name, labels) == 1

    scene.rounds(1)
    assert scene.recommended()


@pytest.mark.parametrize("hours", [1, 30 * 24])
def test_time_that_runs_backwards(scene: Scene, hours: int) -> None:
    """While the clock shows a past day nothing is lost, and it goes on when it is right again."""
    scene.rounds(2)
    before = scene.recommended()["app"]["target"]
    for _ in range(3):
        scene.recommender.round(scene.sandbox.clock.now() - timedelta(hours=hours))
        scene.sandbox.advance(60)
    assert scene.recommended()["app"]["target"] == before

    scene.rounds(1)
    assert scene.recommended()["app"]["target"] == before
    assert scene.recommender.model.tally.cpu >= 3


@pytest.mark.parametrize("days", [9, -9])
def test_a_clock_that_is_wrong_from_the_start(
    scene: Scene, days: int, caplog: pytest.LogCaptureFixture
) -> None:
    """History without pods is neither deleted nor refused by a clock that is days ahead or behind.

    Both clocks, ours and the API server's, have to agree that its time is over, or to come.
    """
    scene.rounds(2)
    samples = scene.checkpoints()["web-app"]["status"]["totalSamplesCount"]
    scene.apply(deployment("web", load=LOAD, replicas=0))
    scene.sandbox.advance(60)
    scene.around = replace(scene.around, server_now=scene.clock.now)
    recommender = scene.started()
    for _ in range(3):
        recommender.round(scene.clock.now() + timedelta(days=days))
        scene.sandbox.advance(3600)

    assert recommender.model.row_count == 1
    assert scene.checkpoints()["web-app"]["status"]["totalSamplesCount"] == samples > 0
    assert {"our clock differs from the API server's"} == {one.message for one in caplog.records}


def test_orphans_are_deleted_after_complete_lists_only(scene: Scene) -> None:
    """A checkpoint goes when its VPA is gone, but not while VPAs cannot be listed."""
    scene.rounds(1)
    scene.apply(orphan())
    scene.sandbox.advance(600)
    scene.fail(Unavailable("down"), "list", VPAS, times=1)
    scene.rounds(1)
    assert list(scene.checkpoints()) == ["gone-app", "web-app"]

    scene.rounds(1)
    assert list(scene.checkpoints()) == ["web-app"]
