"""Equal pods are recognised, the cache only saves work, and work is told by what is in a review."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.admission.core.incoming import effort, read_incoming_pod
from app.admission.core.mutate import PodAdmission, PodRules, PodVerdict
from app.model.errors import BadObject
from app.model.fields import Json
from app.model.review import read_review
from app.model.snapshot import Replacement, Snapshot
from app.model.workloads import NOTHING_LOOKED_UP
from tests import make
from tests.cases import cases
from tests.junk import ANYTHING, objects_like

POD = make.pod_json(cpu="100m", init=[make.container_json("setup", restartPolicy="Always")])


@cases(
    "path value",
    {
        "the name": ("metadata.name", "other"),
        "labels, which matching sees": ("metadata.labels", {"app": "other"}),
        "no annotations, as before": ("metadata.annotations", None),
        "an image": ("spec.containers[0].image", "other"),
        "a node": ("spec.nodeName", "n"),
        "a status": ("status", {"phase": "Running"}),
    },
)
def test_size_key_leaves_out(path: str, value: object) -> None:
    """Pods that differ in what sizing never looks at have one size key."""
    other = make.with_value(POD, path, value)
    assert read_incoming_pod(other, "ns").size_key == read_incoming_pod(POD, "ns").size_key


@cases(
    "path value",
    {
        "annotations are there": ("metadata.annotations", {}),
        "one of a boost": ("metadata.annotations", {"vpaCpuStartupBoost/app": "{}"}),
        "one of a boost's end": ("metadata.annotations", {"vpaCpuUnboostPending/app": ""}),
        "a container's name": ("spec.containers[0].name", "b"),
        "its resources": ("spec.containers[0].resources", None),
        "a sidecar": ("spec.initContainers[0].restartPolicy", None),
        "the pod's resources": ("spec.resources", {"limits": {"cpu": "1"}}),
    },
)
def test_size_key_holds(path: str, value: object) -> None:
    """Whatever changes sizes or patch changes the size key."""
    other = make.with_value(POD, path, value)
    assert read_incoming_pod(other, "ns").size_key != read_incoming_pod(POD, "ns").size_key


def test_size_key_of_numbers_beyond_json() -> None:
    """Numbers that no API server sends are no reason to fail."""
    huge = make.with_value(POD, "spec.containers[0].resources.requests.cpu", 2**70)
    assert read_incoming_pod(huge, "ns").size_key != read_incoming_pod(POD, "ns").size_key


@pytest.mark.parametrize("path", ["metadata.labels", "spec.containers[0].resources"])
def test_depths_beyond_json(path: str) -> None:
    """What nests deeper than anything that counts is told, and breaks nothing."""
    deep: object = {}
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(BadObject, match="nested too deeply"):
        read_incoming_pod(make.with_value(POD, path, deep), "ns")


@cases(
    "path value",
    {"labels": ("metadata.labels", {"app": "other"}), "owners": ("metadata.ownerReferences", [])},
)
def test_match_key_holds(path: str, value: object) -> None:
    """Whatever matching looks at changes the match key, and so does the namespace."""
    other = make.with_value(POD, path, value)
    assert read_incoming_pod(other, "ns").match_key != read_incoming_pod(POD, "ns").match_key
    assert read_incoming_pod(POD, "other").match_key != read_incoming_pod(POD, "ns").match_key
    assert read_incoming_pod(other, "ns").size_key == read_incoming_pod(POD, "ns").size_key


def read_all(item: Json) -> None:
    """Read all that counts of a pod."""
    incoming = read_incoming_pod(item, "ns")
    assert incoming.labels is not None
    assert incoming.controller is not None


@cases(
    "path value wrong",
    {
        "name": ("metadata.name", 1, "metadata.name"),
        "generateName": ("metadata.generateName", [], "metadata.generateName"),
        "annotations": ("metadata.annotations", {"a": 1}, "metadata.annotations[a]"),
        "labels": ("metadata.labels", [], "metadata.labels"),
        "owners": ("metadata.ownerReferences", {}, "metadata.ownerReferences"),
        "containers": ("spec.containers", 5, "spec.containers"),
    },
)
def test_wrong_types_are_named(path: str, value: object, wrong: str) -> None:
    """What counts and has a wrong type is told with its path."""
    with pytest.raises(BadObject) as caught:
        read_all(make.with_value(POD, path, value))
    assert caught.value.path == wrong


def test_title() -> None:
    """A pod without a name is called after what it will be named from."""
    assert read_incoming_pod(POD, "ns").title == "web-0"
    generated = make.with_value(POD, "metadata", {"generateName": "web-"})
    assert read_incoming_pod(generated, "ns").title == "web-%"


def test_pod_holds_all_that_sizing_reads() -> None:
    """The pod of an incoming has the containers of the object, in the review's namespace."""
    pod = read_incoming_pod(POD, "ns").pod()
    assert pod.namespace == "ns"
    assert [container.name for container in pod.containers] == ["app", "setup"]
    assert [container.is_sidecar for container in pod.containers] == [False, True]


def test_sidecars_that_are_left_alone() -> None:
    """Where sidecars are not sized, they are not among the containers."""
    pod = read_incoming_pod(POD, "ns", native_sidecars=False).pod()
    assert [container.name for container in pod.containers] == ["app"]
    assert [container.is_sidecar for container in pod.init_containers] == [True]


CPU = st.sampled_from(["50m", "100m", None])
PODS = st.builds(
    make.pod_json,
    cpu=CPU,
    cpu_limit=CPU,
    memory=st.sampled_from(["64Mi", None]),
    annotations=st.sampled_from([None, {}]),
)
CHANGES = st.one_of(
    st.builds(
        make.vpa,
        cpu=st.sampled_from(["250m", "1"]),
        mode=st.sampled_from(["Off", "Auto"]),
        policies=st.sampled_from([None, [make.policy_json(values="RequestsOnly")]]),
    ),
    st.builds(make.vpa, st.just("other"), target=st.sampled_from(["StatefulSet/web", "Job/x"])),
    st.builds(make.workload, labels=st.sampled_from([{"app": "web"}, {"app": "other"}])),
    st.builds(make.limit_range, most=st.sampled_from([{"cpu": "200m"}, {"cpu": "300m"}])),
).map(make.change)


@given(st.lists(PODS | CHANGES, min_size=1, max_size=20), st.sampled_from([1, 40_000, 10**6]))
def test_memory_changes_no_answer(steps: list[Json | Replacement], most: int) -> None:
    """However pods and the cluster change, the answer is the one that is found anew."""
    admission = PodAdmission(PodRules(), most)
    snapshot = make.snapshot(make.vpa(cpu="250m"), make.workload())
    for step in steps:
        if isinstance(step, Replacement):
            snapshot = snapshot.changed([step])
            continue
        request = read_review(make.review_json(step))
        view = snapshot.of("default")
        remembered = admission.admit(request, view, NOTHING_LOOKED_UP)
        assert remembered == PodAdmission(PodRules()).admit(request, view, NOTHING_LOOKED_UP)


def test_equal_pods_share_their_sizes() -> None:
    """The second of two equal pods costs no sizing, until its VPA changes."""
    admission = PodAdmission(PodRules())
    snapshot = make.snapshot(make.vpa(cpu="250m"), make.workload())

    def sizes(name: str, moment: Snapshot) -> object:
        request = read_review(make.review_json(make.pod_json(name=name, cpu="100m")))
        found = admission.admit(request, moment.of("default"), NOTHING_LOOKED_UP)
        assert isinstance(found, PodVerdict)
        return found.sizes

    first = sizes("web-0", snapshot)
    assert sizes("web-1", snapshot) is first
    after = snapshot.changed([make.change(make.vpa(cpu="500m"))])
    assert sizes("web-2", after) is not first


def test_sizes_are_forgotten_when_they_are_many() -> None:
    """What is kept has an end: sizes of other pods take the place."""
    admission = PodAdmission(PodRules(), most_kept_bytes=1)
    view = make.snapshot(make.vpa(cpu="250m"), make.workload()).of("default")

    def sizes(cpu: str) -> object:
        request = read_review(make.review_json(make.pod_json(cpu=cpu)))
        found = admission.admit(request, view, NOTHING_LOOKED_UP)
        assert isinstance(found, PodVerdict)
        return found.sizes

    assert sizes("100m") is not sizes("200m") is not sizes("100m")


def test_what_was_looked_up_is_not_remembered() -> None:
    """A match that rests on a look-up holds for the review that asked for it."""
    admission = PodAdmission(PodRules())
    view = make.snapshot(make.vpa(cpu="250m")).of("default")
    request = read_review(make.review_json(make.pod_json(cpu="100m")))
    looked_up = {make.workload().key: make.workload()}
    for known, is_matched in ((looked_up, True), (NOTHING_LOOKED_UP, False), (looked_up, True)):
        found = admission.admit(request, view, known)
        assert isinstance(found, PodVerdict) is is_matched


def test_huge_pods_are_not_remembered() -> None:
    """A pod that would take a good part of what may be kept is answered, and forgotten."""
    admission = PodAdmission(PodRules(), most_kept_bytes=1_000_000)
    view = make.snapshot(make.vpa(cpu="250m"), make.workload()).of("default")
    containers = [make.container_json(f"c{index}", cpu="100m") for index in range(500)]
    request = read_review(make.review_json(make.pod_json(*containers)))
    first, second = (admission.admit(request, view, NOTHING_LOOKED_UP) for _ in range(2))
    assert isinstance(first, PodVerdict)
    assert isinstance(second, PodVerdict)
    assert first.sizes is not second.sizes
    assert first.patch == second.patch


def pod_of(count: int) -> Json:
    """Return a pod of so many containers."""
    return make.pod_json(*(make.container_json(f"c{i}") for i in range(count)))


def vpa_of(count: int) -> Json:
    """Return a VPA of so many policies."""
    return make.vpa_json(policies=[make.policy_json(f"c{i}") for i in range(count)])


OWNED = {"ownerReferences": [make.owner_json(f"Job/{i}") for i in range(320)]}


@cases(
    "review size_bytes least most",
    {
        "a usual pod": (make.review_json(pod_of(2)), 4_000, 2, 2),
        "long": (make.review_json(pod_of(2)), 40_960, 12, 12),
        "containers": (make.review_json(pod_of(500)), 0, 500, 500),
        "init containers": (
            make.review_json(make.pod_json(init=[make.container_json()] * 99)),
            0,
            100,
            100,
        ),
        "owners": (make.review_json(make.pod_json(metadata=OWNED)), 0, 21, 21),
        "a usual VPA": (make.review_json(vpa_of(2)), 4_000, 1, 10),
        "policies": (make.review_json(vpa_of(1_000)), 0, 500, 2_500),
        "policies before": (make.review_json(vpa_of(0), old=vpa_of(1_000)), 0, 500, 2_500),
        "more than is counted": (make.review_json(vpa_of(20_000)), 0, 2_500, 2_500),
        "nothing": ({"request": {}}, 0, 0, 0),
    },
)
def test_effort(review: object, size_bytes: int, least: int, most: int) -> None:
    """Containers, owners and what VPAs say are counted, and bytes a little."""
    assert least <= effort(read_review(review), size_bytes) <= most


@given(ANYTHING, st.sampled_from([make.review_json(pod_of(2)), make.review_json(vpa_of(2))]))
def test_anything_has_an_effort(item: object, review: Json) -> None:
    """No object has been checked yet when it is asked for."""
    assert effort(read_review(review)._replace(new=item, old=item), 0) >= 0


@pytest.mark.parametrize("item", [pod_of(2), vpa_of(2)])
def test_what_is_like_a_review_has_an_effort(item: Json) -> None:
    """Whatever is wrong in a review, its effort can be told."""

    @given(objects_like(item))
    def check(changed: Json) -> None:
        request = read_review(make.review_json(item))
        assert effort(request._replace(new=changed), 0) >= 0

    check()
