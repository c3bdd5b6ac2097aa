"""Recommender and updater hold no more after 50,000 pods, owners, VPAs and containers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import pytest

from app.diagnosis.pod_preview import PodPreviewer
from app.flags.command_line import parse
from app.recommender import process as recommender
from app.recommender.flags import RecommenderSettings
from app.run.simulated import SimulatedRuntime
from app.updater import process as updater
from app.updater.flags import UpdaterSettings
from tests.cases import cases
from tests.churned_cluster import BATCH, ChurnedCluster
from tests.soak.memory import growth, measured

TURNS: Final = 50_000 // BATCH
MOST_PIECES: Final = 20_000  # more at the end; 33,000 pods came since
ADDRESS: Final = "--address=127.0.0.1:0"
ROUND_SECONDS: Final = 180.0  # so that what is kept for an hour is gone after a third


def a_recommender(runtime: SimulatedRuntime) -> recommender.Process:
    """Return a recommender that writes one object after the other."""
    words = [ADDRESS, "--recommender-interval=3m", "--update-worker-count=1"]
    return recommender.Process(parse(RecommenderSettings, words, {}), runtime, PodPreviewer)


def an_updater(runtime: SimulatedRuntime) -> updater.Process:
    """Return an updater that may evict the only pod of a workload."""
    words = (
        ADDRESS, "--updater-interval=3m", "--update-concurrency=1", "--min-replicas=1",
        "--concurrent-cpu-startup-boost-syncs=1", "--use-admission-controller-status=false",
        "--feature-gates=AllAlpha=true", "--leader-elect=false",
    )  # fmt: skip
    return updater.Process(parse(UpdaterSettings, words, {}), runtime)


@cases("start", {"recommender": (a_recommender,), "updater": (an_updater,)})
def test_a_crowd_that_goes_leaves_nothing(
    start: Callable[[SimulatedRuntime], recommender.Process | updater.Process],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """50,000 pods, owners, container names and versions of a VPA, of which 1,000 are there."""
    caplog.set_level(logging.CRITICAL)  # what is kept of the log would be all that grows
    cluster = ChurnedCluster()
    process = start(cluster.runtime)
    process.start()
    try:
        for _ in range(TURNS // 3):
            cluster.turn(ROUND_SECONDS)
        third = measured()
        for _ in range(TURNS - TURNS // 3):
            cluster.turn(ROUND_SECONDS)
        end = measured()
    finally:
        process.stop()

    assert end.blocks - third.blocks < MOST_PIECES, growth(third, end)
    assert cluster.changed > BATCH  # the process was at work on what came and went
