"""Manifests of people: what of them is applied, and how much room it gets."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from app.model.errors import BadSetting
from app.model.fields import Json
from app.run.world import nodes_for, read_manifests, shop_file
from tests import make
from tests.cases import cases

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}


def written(folder: Path, *items: Json) -> Path:
    """Write objects into a file."""
    path = folder / "objects.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, items)))
    return path


def test_what_controllers_made_is_left_out(tmp_path: Path) -> None:
    """Recorded pods and ReplicaSets are made anew, bare pods are people's own."""
    owned, bare = make.pod_json(name="owned"), make.pod_json(name="bare", owner=None)
    path = written(tmp_path, make.workload_json(), owned, bare, make.node_json(), SERVICE)

    assert [item["metadata"]["name"] for item in read_manifests([path])] == ["web", "bare", "web"]


@cases(
    "items sentence",
    {
        "nothing": ([], "--objects: there are no objects to apply in {path}"),
        "nothing but what others made": (
            [make.pod_json()],
            "--objects: there are no objects to apply in {path}",
        ),
    },
)
def test_nothing_to_apply_is_told(tmp_path: Path, items: list[Json], sentence: str) -> None:
    """Who names files without objects is told so."""
    path = written(tmp_path, *items)
    with pytest.raises(BadSetting) as caught:
        read_manifests([path])

    assert str(caught.value) == sentence.format(path=path)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A broken file ends it, with its place."""
    path = tmp_path / "broken.yaml"
    path.write_text("a: [\n")
    with pytest.raises(BadSetting, match=r"broken\.yaml"):
        read_manifests([path])


@cases(
    "replicas cpu memory nodes",
    {
        "at least three": (1, "100m", "100Mi", 3),
        "by CPU": (20, "4", "1Gi", 10),
        "by memory": (10, "1", "32Gi", 10),
        "nothing is asked for": (10, None, None, 3),
    },
)
def test_there_is_room_for_growth(
    replicas: int, cpu: str | None, memory: str | None, nodes: int
) -> None:
    """Nodes have twice the room that workloads ask for."""
    container = make.container_json(cpu=cpu, memory=memory)
    workload = make.workload_json(replicas=replicas, containers=[container])

    assert len(nodes_for([workload, SERVICE])) == nodes


def test_the_shop_is_complete() -> None:
    """Every VPA of the shop has its workload."""
    items = read_manifests([shop_file()])
    names = {(item["kind"], item["metadata"]["name"]) for item in items}
    targets = [item["spec"]["targetRef"] for item in items if "targetRef" in item["spec"]]

    assert len(targets) == 10
    assert {(one["kind"], one["name"]) for one in targets} <= names
