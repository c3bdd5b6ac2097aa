"""Scripts to be tried: about which pods, and from which files."""

from __future__ import annotations

from pathlib import Path

import orjson

from app.kube.manifests import documents
from app.model.fields import as_object
from app.model.pods import read_pod
from app.model.review import read_review
from app.ports import Json
from app.run.flags import Ports
from app.run.scripts import Scripts
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from tests.cases import cases
from tests.flows.autoscaler import vpa, workload

PORTS = Ports("localhost", 8000, 8944, 8942, 8943, 8945)
CRON_JOB = vpa("nightly", target="CronJob/nightly")
ABSENT = vpa("absent", target="Deployment/absent")
BOOSTED = vpa(
    "slow", target="Deployment/slow", startupBoost={"cpu": {"type": "Factor", "factor": 2}}
)
CUSTOM = vpa("custom", target="Gadget/custom")


def written(folder: Path, *items: Json) -> list[str]:
    """Write the scripts for a cluster with some objects; return their names."""
    sandbox = Sandbox(SteppedClock())
    sandbox.apply(*documents.objects("crd"), *items)
    sandbox.advance(10)
    return Scripts(folder, PORTS).write("the CA", sandbox.cluster)


@cases(
    "others subject",
    {
        "alone": ([], "shop/web"),
        "after VPAs without pods": ([ABSENT, CRON_JOB, CUSTOM], "shop/web"),
        "beside one with a boost": ([workload("slow"), BOOSTED], "shop/slow"),
    },
)
def test_they_are_about_a_vpa_with_pods(tmp_path: Path, others: list[Json], subject: str) -> None:
    """A VPA that has pods is asked about, one with a startup boost if there is one."""
    names = written(tmp_path, *others, workload(), vpa())
    first, second = ((tmp_path / name).read_text() for name in names[:2])

    assert names == ["1-new-pod", "2-why", "3-bad-vpa", "4-decisions"]
    assert first.startswith(f"# What a new pod of VPA {subject} gets.\ncurl -s ")
    assert second.startswith(f"# Why a new pod of VPA {subject} gets that.\ncurl -s ")


def test_the_review_is_one_of_another_pod(tmp_path: Path) -> None:
    """The file holds what an API server would send for the next pod of the same controller."""
    written(tmp_path, workload(), vpa())
    review = read_review(orjson.loads((tmp_path / "pod.json").read_bytes()))
    pod = read_pod(as_object(review.new, "request.object"))
    assert pod.controller is not None

    assert (review.namespace, review.resource.word, pod.controller.kind) == (
        "shop",
        "pods",
        "ReplicaSet",
    )
    assert str(pod.containers[0].resources.request("cpu")) == "100m"


def test_without_pods_there_is_less_to_ask(tmp_path: Path) -> None:
    """What cannot work is not offered."""
    assert written(tmp_path, ABSENT) == ["3-bad-vpa", "4-decisions"]
