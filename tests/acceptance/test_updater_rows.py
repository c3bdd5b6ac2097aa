"""What becomes of running pods under the updater alone: no webhook, only its sign of life."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.rights import NAMESPACE, allow_leases
from tests.acceptance.rows import Rows, row_test
from tests.acceptance.space import APP, SMALL, Box, boost, mode
from tests.acceptance.stage import LARGE, LOAD, Stage
from tests.acceptance.test_updating_rows import FAST, HIGHER_CPU
from tests.acceptance.webhook import beating
from tests.cluster.api import Api

WORKERS = {"updater": FAST}
ROWS = Rows()
test_row = row_test(ROWS)

TWICE = Box(requests="200m/200Mi")


@pytest.fixture(scope="module", autouse=True)
def heartbeat(admin: Api) -> Iterator[None]:
    """A webhook seems to live."""
    with beating(admin, NAMESPACE):
        yield


@ROWS.row("UP-01", "UP-02", "UP-03")
def by_eviction(stage: Stage) -> None:
    """Pods outside of their bounds are evicted, unless what they must meet is not met."""
    requirements = {"evictionRequirements": [HIGHER_CPU]} if stage.name == "UP-03" else {}
    stage.start(SMALL if stage.name == "UP-01" else LARGE)
    stage.vpa("Recreate", policy=requirements, recommended="200m/200Mi")
    stage.evicts_only_if(not requirements)


@ROWS.row("UP-04", alone=True)
def without_a_lease(stage: Stage) -> None:
    """Without a sign of the webhook nobody is evicted; a resize needs none."""
    allow_leases(stage.admin, "updater", stage.space.name)
    place = f"--admission-controller-status-lease-namespace={stage.space.name}"
    stage.worker("updater", *FAST, place)
    stage.start()
    stage.vpa("InPlaceOrRecreate", recommended="200m/200Mi")
    stage.quiet()
    stage.resizes(TWICE)
    stage.change_vpa(mode("Recreate"))
    stage.recommend("300m/300Mi")
    stage.quiet()
    with beating(stage.admin, stage.space.name):
        stage.evicts()


@ROWS.row("UP-05", "UP-06", "UP-07", "UP-08")
def in_place(stage: Stage) -> None:
    """Pods outside of their bounds are resized where they are, up and down."""
    size, word = {
        "UP-05": (SMALL, "InPlaceOrRecreate"),
        "UP-06": (LARGE, "InPlaceOrRecreate"),
        "UP-07": (SMALL, "InPlace"),
        "UP-08": (LARGE, "InPlace"),
    }[stage.name]
    stage.start(size)
    stage.vpa(word, recommended="200m/200Mi")
    stage.resizes(TWICE)
    stage.quiet()


@ROWS.row("UP-09")
def again_in_place(stage: Stage) -> None:
    """A pod that was resized is resized again when the recommendation moves on."""
    stage.start()
    stage.vpa("InPlace")
    for sizes in ("200m/200Mi", "300m/200Mi"):
        stage.recommend(sizes)
        stage.resizes(Box(requests=sizes))


@ROWS.row("UP-10", "UP-11")
def killed_for_memory(stage: Stage) -> None:
    """A container killed soon after its start is helped at once, if that is soon enough."""
    leaking = {LOAD: "memory: leaking 100Mi 400Gi"}
    stage.start(Box(requests="/1Gi", limits="/1Gi"), annotations=leaking, ready=False)
    seconds = 1 if stage.name == "UP-10" else 600
    stage.vpa("Recreate", policy={"evictAfterOOMSeconds": seconds}, recommended="/2Gi /500Mi /3Gi")
    if seconds == 600:
        stage.evicts()
    else:
        stage.eventually(stage.was_killed, "a container was killed for memory")
        stage.quiet()


@ROWS.row("UP-12")
def unboosted(stage: Stage) -> None:
    """A pod that says it is boosted goes back in place to what is recommended."""
    marks = {f"vpaCpuStartupBoost/{APP}": '{"requests":{"cpu":"100m"},"limits":{}}'}
    stage.start(Box(requests="200m/100Mi"), annotations=marks)
    stage.vpa("Auto", **boost(type="Factor", factor=2, durationSeconds=1))
    stage.recommend("100m/100Mi - -")
    stage.resizes(SMALL)
