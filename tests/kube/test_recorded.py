"""Files tell of a cluster; what is wrong in them is told, and the rest counts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from app.kube.files import Document, RecordedCluster, Unreadable, documents
from app.model.fields import Json
from app.model.kinds import owner_key
from app.model.workloads import Absent, Failed, Lookup, LookupResult, Workload
from tests import make
from tests.cases import cases
from tests.make import definition_json as definition


def cluster(*items: Json) -> RecordedCluster:
    """Return the cluster that these objects make, found in a file of lines."""
    return RecordedCluster(Document(f"f:{line}", item) for line, item in enumerate(items, 1))


def shop(
    name: str = "web", api_version: str = "example.com/v1", kind: str = "Shop", **metadata: str
) -> Json:
    """Return a custom object."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": {"replicas": 3},
        "status": {"selector": "app=web"},
    }


def lookup(
    name: str = "web", api_version: str = "example.com/v1", kind: str = "Shop", namespace: str = ""
) -> Lookup:
    """Return the question for an owner."""
    key = owner_key(api_version, kind, name)
    return Lookup(namespace or "default", api_version, kind, name, key)


def test_objects_of_all_kinds() -> None:
    """What decides about pods is found, in its namespace."""
    found = cluster(
        make.vpa_json(namespace="a"),
        make.workload_json(namespace="a"),
        make.limit_range_json(namespace="a"),
        make.pod_json(namespace="b"),
        make.node_json(),
        make.budget_json(namespace=None),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
    )
    assert not found.problems
    view = found.snapshot.of("a")
    assert (list(view.vpas), list(view.limit_ranges)) == (["web"], ["limits"])
    assert [str(key) for key in view.workloads] == ["StatefulSet/web"]
    assert list(found.snapshot.of("b").pods) == ["web-0"]
    assert list(found.snapshot.of("default").budgets) == ["web"]
    assert list(found.snapshot.nodes) == ["node-1"]
    assert [vpa.name for vpa in found.of("a")] == ["web"]
    assert found.of("c") == ()


def test_the_last_one_counts() -> None:
    """An object that comes twice is as if it had been applied twice."""
    found = cluster(
        make.vpa_json(cpu="1"),
        make.vpa_json(cpu="2"),
        make.workload_json(replicas=1),
        make.workload_json(replicas=2),
        definition(v1=False),
        definition(v1=True),
        shop(),
        shop() | {"spec": {"replicas": 7}},
    )
    (vpa,) = found.of("default")
    assert str((vpa.recommended("app") or pytest.fail("none")).target["cpu"]) == "2"
    (workload,) = found.snapshot.of("default").workloads.values()
    assert workload.replicas == 2
    scaled = found.find(lookup(), 0.0)
    assert isinstance(scaled, Workload)
    assert scaled.replicas == 7


def test_a_vpa_that_stands_in_two_places() -> None:
    """It is told with both, for one may be forgotten; in another namespace it is another one."""
    found = cluster(make.vpa_json(), make.vpa_json(namespace="shop"), make.vpa_json())
    message = "VerticalPodAutoscaler default/web: f:1 has it too; the last one counts"
    assert found.problems == [Unreadable("f:3", message)]


WRONG_TARGET = {"containerRecommendations": [{"target": {"cpu": "x"}}]}


@cases(
    "status",
    {
        "a text": ("garbage",),
        "a list": ([],),
        "a number in it": ({"recommendation": 7},),
        "a wrong time": ({"conditions": [{"lastTransitionTime": "now"}]},),
        "a wrong quantity": ({"recommendation": WRONG_TARGET},),
    },
)
def test_a_garbage_status(status: object) -> None:
    """A VPA whose status is garbage still counts by its spec, and that is told."""
    found = cluster(make.vpa_json(mode="Initial") | {"status": status})
    (vpa,) = found.of("default")
    assert (vpa.mode, vpa.recommendation) == ("Initial", None)
    (problem,) = found.problems
    assert str(problem).startswith("f:1: VerticalPodAutoscaler default/web: status")
    assert str(problem).endswith("; status left out")


WRONG = {"targetRef": 7}
NO_OBJECT = "expected an object, found the number 7"


@cases(
    "item message",
    {
        "a spec": (
            make.vpa_json(spec=WRONG),
            f"VerticalPodAutoscaler default/web: spec.targetRef: {NO_OBJECT}",
        ),
        "spec and status": (
            make.vpa_json(namespace=None, spec=WRONG, status={"conditions": 7}),
            f"VerticalPodAutoscaler web: spec.targetRef: {NO_OBJECT}",
        ),
        "an identity": (
            {"kind": "Pod", "apiVersion": 1},
            "an object: apiVersion: expected a string, found the number 1",
        ),
        "nothing": ({}, "an object without kind: kind is missing"),
        "a definition": (
            definition() | {"spec": 7},
            f"CustomResourceDefinition shops.example.com: spec: {NO_OBJECT}",
        ),
    },
)
def test_broken_objects(item: Json, message: str) -> None:
    """An object that cannot be used is told with its place and name, and spoils no other."""
    found = cluster(item, make.vpa_json("other"))
    assert found.problems == [Unreadable("f:1", message)]
    assert [vpa.name for vpa in found.of("default")] == ["other"]


def test_what_cannot_be_read_is_a_problem() -> None:
    """What is no object at all is told as well."""
    found = RecordedCluster([Unreadable("f:7", "no JSON"), Document("f:8", make.vpa_json())])
    assert found.problems == [Unreadable("f:7", "no JSON")]
    assert len(found.of("default")) == 1


NOT_GIVEN = Failed("no CustomResourceDefinition of Shop.example.com was given")
NO_REPLICAS = Failed("spec.replicas: does not exist")


NO_SELECTOR = Failed("status.selector: ")
DEFINED = definition()
ONE = [DEFINED, shop()]


@cases(
    "items asked answer",
    {
        "no definition": ([], lookup(), NOT_GIVEN),
        "an object without definition": ([shop()], lookup(), NOT_GIVEN),
        "no object": ([definition()], lookup(), Absent()),
        "no scale": ([definition(v1=False), shop()], lookup(), Absent()),
        "another namespace": ([DEFINED, shop(namespace="b")], lookup(), Absent()),
        "the default namespace": (ONE, lookup(namespace="b"), Absent()),
        "a namespace on an object of the cluster": (
            [definition(scope="Cluster"), shop(namespace="b")],
            lookup(namespace="b"),
            Absent(),
        ),
        "no replicas": ([DEFINED, shop() | {"spec": {}}], lookup(), NO_REPLICAS),
        "a wrong selector": (
            [DEFINED, shop() | {"status": {"selector": "a in"}}],
            lookup(),
            NO_SELECTOR,
        ),
        "a built-in kind": ([], lookup("web", "apps/v1", "Deployment"), Absent()),
        "the core group": ([], lookup("web", "v1", "ConfigMap"), Absent()),
        "one of Kubernetes": ([], lookup("web", "node.k8s.io/v1", "X"), Absent()),
        "an old group": ([], lookup("web", "batch/v1", "X"), Absent()),
    },
)
def test_owners_that_are_not_found(items: list[Json], asked: Lookup, answer: LookupResult) -> None:
    """What cannot be scaled is absent; where that is not known, it is a failure."""
    found = cluster(*items).find(asked, 5.0)
    if isinstance(answer, Failed) and isinstance(found, Failed):
        assert found.message.startswith(answer.message)
    else:
        assert found == answer


BETA = shop(api_version="example.com/v1beta1")
VOLCANO = [definition("Job", "volcano.sh"), shop(api_version="volcano.sh/v1", kind="Job")]
LOOKALIKE = [definition(group="x.k8s.io"), shop(api_version="x.k8s.io/v1")]


@cases(
    "items asked",
    {
        "the object after its definition": (ONE, lookup()),
        "the object before its definition": (ONE[::-1], lookup()),
        "a namespace": ([DEFINED, shop(namespace="b")], lookup(namespace="b")),
        "one of the cluster": ([definition(scope="Cluster"), shop()], lookup(namespace="b")),
        "scaled in another": ([definition(v1=False, v2=True), shop()], lookup()),
        "stored in another version": ([DEFINED, BETA], lookup()),
        "like Kubernetes' groups": (LOOKALIKE, lookup(api_version="x.k8s.io/v1")),
        "a kind that is called like a built-in one": (
            [*VOLCANO, make.workload_json("Job/web")],
            lookup(api_version="volcano.sh/v1", kind="Job"),
        ),
    },
)
def test_custom_owners(items: list[Json], asked: Lookup) -> None:
    """A custom object is scaled as its definition says."""
    found = cluster(*items)
    assert not found.problems
    scaled = found.find(asked, 5.0)
    assert isinstance(scaled, Workload)
    assert (scaled.key, scaled.namespace) == (asked.key, asked.namespace)
    assert (scaled.replicas, scaled.owner) == (3, None)
    assert scaled.selector.matches({"app": "web"})


def test_a_list_of_yaml(tmp_path: Path) -> None:
    """What kubectl writes comes back."""
    items = [make.vpa_json(f"v{i}", target=f"Deployment/d{i}", cpu="1") for i in range(50)]
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump(make.snapshot_json(*items)))
    found = RecordedCluster(documents(str(path)))
    assert found.snapshot == make.snapshot(*items)
