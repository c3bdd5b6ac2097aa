"""Commands to be pasted: about whom, and from which files."""

from __future__ import annotations

from pathlib import Path

import orjson

from app.kube.manifests import documents
from app.model.fields import as_object
from app.model.pods import read_pod
from app.model.review import read_review
from app.ports import Json
from app.run.curl_commands import CurlCommands
from app.run.flags import Ports
from app.sandbox.clock import SteppedClock
from app.sandbox.sandbox import Sandbox
from tests.cases import cases
from tests.flows.autoscaler import vpa, workload

PORTS = Ports("localhost", 8000, 8944, 8942, 8943)
CRON_JOB = vpa("nightly", target="CronJob/nightly")
ABSENT = vpa("absent", target="Deployment/absent")
CUSTOM = vpa("custom", target="Gadget/custom")


def lines(folder: Path, *items: Json) -> list[str]:
    """Return the commands for a cluster with some objects."""
    sandbox = Sandbox(SteppedClock())
    sandbox.apply(*documents.objects("crd"), *items)
    sandbox.advance(10)
    commands = CurlCommands(folder, PORTS)
    commands.prepare("the CA")
    return commands.lines(sandbox.cluster)


@cases("others", {"alone": ([],), "after VPAs without pods": ([ABSENT, CRON_JOB, CUSTOM],)})
def test_they_are_about_a_vpa_with_pods(tmp_path: Path, others: list[Json]) -> None:
    """The first VPA that has pods is asked about, in all commands."""
    found = lines(tmp_path, *others, workload(), vpa())

    assert found[0] == "# what a new pod gets of VPA shop/web"
    assert [line for line in found if "recommendations/web?explain=true" in line] != []


def test_the_review_is_one_of_another_pod(tmp_path: Path) -> None:
    """The file holds what an API server would send for the next pod of the same controller."""
    lines(tmp_path, workload(), vpa())
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
    found = lines(tmp_path, ABSENT)

    assert [line for line in found if line.startswith("# ")] == [
        "# what a VPA with mistakes is told",
        "# what was decided about pods, and why",
    ]
