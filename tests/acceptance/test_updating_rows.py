"""What becomes of running pods under the updater and the webhook.

The shared updater looks every second; a limit that is minutes for users is seconds here.
"""

from __future__ import annotations

from datetime import datetime

from app.model.fields import Json
from app.ports import NODES
from tests.acceptance.injector import SIDECAR, injecting
from tests.acceptance.rows import Rows, row_test
from tests.acceptance.space import APP, SMALL, Box, annotation, extremes
from tests.acceptance.stage import EVICTED, Stage
from tests.acceptance.table import KINDS

GATES = "--feature-gates=AllAlpha=true"
FAST = (GATES, "--kube-api-qps=200", "--kube-api-burst=400")
FLAGS = (GATES,)
WEBHOOK = True
DEFERRED_SECONDS = 20
WORKERS = {"updater": (*FAST, f"--in-place-deferred-resize-timeout={DEFERRED_SECONDS}s")}
ROWS = Rows()
test_row = row_test(ROWS)

HIGHER_CPU: Json = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
TWICE = Box(requests="200m/200Mi")


@ROWS.row("ACT-01")
def resized_and_replaced(stage: Stage) -> None:
    """A resize leaves pods where they are, and a pod that is killed comes back bigger."""
    stage.start()
    stage.vpa("InPlaceOrRecreate", recommended="200m/")
    stage.quiet()
    stage.delete_one()
    stage.eventually(lambda: stage.requests() == ["200m"] * 3, "all pods ask for 200m")


@ROWS.row("ACT-02")
def both_containers(stage: Stage) -> None:
    """Two containers are resized together."""
    stage.start(SMALL, Box("hamster2", "100m/100Mi"))
    stage.vpa("InPlaceOrRecreate")
    stage.recommend("200m/200Mi", more={"hamster2": "200m/200Mi"})
    stage.resizes(TWICE, Box("hamster2", "200m/200Mi"))


@ROWS.row("ACT-03")
def impossible(stage: Stage) -> None:
    """More than any node has cannot be done in place, so a pod is evicted."""
    stage.start(replicas=2)
    stage.vpa("InPlaceOrRecreate", recommended="999/ 200m/ 200m/")
    stage.evicts()


@ROWS.row("ACT-04")
def deferred(stage: Stage) -> None:
    """A resize that waits for room is waited for, then the pod is evicted."""
    stage.start(replicas=2, on="crowd-1")
    whole = stage.admin.get(NODES, "", "small-1")["status"]["allocatable"]["cpu"]
    stage.vpa("InPlaceOrRecreate", recommended=f"{whole}/ 200m/ 200m/")
    before, since = stage.uids(), dict[str, datetime]()

    def look() -> set[str]:
        since.update({**stage.deferred(), **since})
        return before - stage.uids()

    stage.eventually(look, "a pod is evicted")
    stage.eventually(lambda: stage.events(EVICTED), "it is told")
    told = stage.told(EVICTED)
    assert all((told[uid] - since[uid]).total_seconds() >= DEFERRED_SECONDS for uid in told)


@ROWS.row("ACT-05")
def too_large(stage: Stage) -> None:
    """One pod that fits nowhere is one too many; no other is evicted for it."""

    def pending() -> int:
        return [pod["status"]["phase"] for pod in stage.pods()].count("Pending")

    stage.start()
    stage.vpa(recommended="9999/")
    stage.evicts()
    stage.eventually(lambda: pending() == 1, "one pod is Pending")
    before = stage.uids()
    stage.updater.wait_rounds()
    assert stage.uids() == before
    assert pending() == 1


@ROWS.row("ACT-06", "ACT-07")
def waiting(stage: Stage) -> None:
    """Off never changes a pod, Initial only new ones."""
    stage.start()
    stage.vpa("Off" if stage.name == "ACT-06" else "Initial", recommended="200m/")
    stage.quiet()
    stage.delete_one()
    resized = 0 if stage.name == "ACT-06" else 1
    assert stage.requests() == ["100m"] * (3 - resized) + ["200m"] * resized


@ROWS.row(*(f"ACT-{number:02}" for number in range(8, 26)))
def all_controllers(stage: Stage) -> None:
    """Whoever controls the pods, enough of them must be there."""
    variant, number = divmod(int(stage.name.removeprefix("ACT-")) - 8, len(KINDS))
    kind = KINDS[number]
    stage.start(kind=kind, replicas=3 if variant == 0 else 1)
    stage.vpa(kind=kind, policy={"minReplicas": 1} if variant == 2 else {}, recommended="200m/")
    stage.evicts_only_if(variant != 1)


@ROWS.row("ACT-26")
def disruption_budgets(stage: Stage) -> None:
    """A budget that allows nothing is kept to, and one that allows seven is used."""
    stage.start(Box(requests="10m/10Mi"), replicas=10)
    stage.budget(0)
    stage.vpa(recommended="25m/")
    stage.quiet()
    stage.budget(7)
    stage.evicts(7)


@ROWS.row("ACT-27", "ACT-28", "ACT-29", "ACT-30")
def limit_ranges(stage: Stage) -> None:
    """What a LimitRange caps to the present size is no reason to evict."""
    cpu, item = {
        "ACT-27": ("200m", extremes("Container", max="300m/1T")),
        "ACT-28": ("50m", extremes("Container", min="100m/0")),
        "ACT-29": ("200m", extremes("Pod", max="600m/2T")),
        "ACT-30": ("50m", extremes("Pod", min="200m/0")),
    }[stage.name]
    names = ("hamster", "hamster2") if item["type"] == "Pod" else ("hamster",)
    stage.space.limit_range(**item)
    stage.start(*(Box(name, "100m/200Mi", "300m/400Mi") for name in names))
    stage.vpa()
    stage.recommend(f"{cpu}/", more=dict.fromkeys(names, f"{cpu}/"))
    stage.quiet()
    assert stage.requests() == ["100m"] * 3


@ROWS.row("ACT-31")
def injected(stage: Stage) -> None:
    """A container that another webhook adds after ours is none of ours."""
    stage.vpa()
    stage.recommend("100m/", more={SIDECAR.name: "5000m/"})
    with injecting(stage.admin, stage.space.name):
        stage.start()
        (pod, *_) = stage.pods()
        names = [each["name"] for each in pod["spec"]["containers"]]
        assert names == [APP, SIDECAR.name]
        assert annotation(pod, "vpaObservedContainers") == APP
        stage.quiet()
