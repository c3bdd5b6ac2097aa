"""Pods in a resize that their node does not carry out, where it would restart a container."""

from __future__ import annotations

import pytest

from tests.sandbox.worlds import container, deployment
from tests.updater.stage import Stage, staged, vpa


def stuck(mode: str, replicas: int) -> Stage:
    """Return a cluster in which a pod was asked in place to grow to what its node has not."""
    flags = ("--min-replicas=1", "--prove=off")
    stage = staged(*flags, mode="InPlaceOrRecreate", replicas=replicas, restarts=True)
    stage.apply(deployment("other", container(limits={}), replicas=6))
    stage.run(10)
    stage.recommend("8/- 200m/- 200m/-")
    stage.restart()
    stage.run(5)
    assert stage.carried.count("patch", "resize") == 1
    stage.apply(vpa(mode=mode))
    return stage


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
def test_it_is_evicted_with_the_slot_that_it_holds(mode: str, replicas: int) -> None:
    """It counts as down for its owner already, so its eviction takes nothing more."""
    stage = stuck(mode, replicas)
    stage.run(8 * 60)
    assert len(stage.evicted()) == 1
