"""Memory: it only ever saves work."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.core.admission.mutate import PodRules, PodVerdict, admit_pod, pod_memory
from app.model.review import read_review
from app.model.snapshot import Replacement, Snapshot
from app.model.workloads import NOTHING_LOOKED_UP
from tests import make

CPU = st.sampled_from(["50m", "100m", None])
PODS = st.builds(
    make.pod_json,
    cpu=CPU,
    cpu_limit=CPU,
    memory=st.sampled_from(["64Mi", None]),
    annotations=st.sampled_from([None, {}]),
)
RULES = PodRules()
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


@given(st.lists(PODS | CHANGES, min_size=1, max_size=20), st.integers(1, 3))
def test_memory_changes_no_answer(steps: list[make.Json | Replacement], most: int) -> None:
    """However pods and the cluster change, the answer is the one that is found anew."""
    memory = pod_memory(RULES, most)
    snapshot = make.snapshot(make.vpa(cpu="250m"), make.workload())
    for step in steps:
        if isinstance(step, Replacement):
            snapshot = snapshot.changed([step])
            continue
        request = read_review(make.review_json(step))
        view = snapshot.of("default")
        remembered = admit_pod(request, view, NOTHING_LOOKED_UP, RULES, memory)
        assert remembered == admit_pod(request, view, NOTHING_LOOKED_UP, RULES)


def test_equal_pods_share_their_sizes() -> None:
    """The second of two equal pods costs no sizing, until its VPA changes."""
    memory = pod_memory(RULES)
    snapshot = make.snapshot(make.vpa(cpu="250m"), make.workload())

    def sizes(name: str, moment: Snapshot) -> object:
        request = read_review(make.review_json(make.pod_json(name=name, cpu="100m")))
        found = admit_pod(request, moment.of("default"), NOTHING_LOOKED_UP, RULES, memory)
        assert isinstance(found, PodVerdict)
        return found.sizes

    first = sizes("web-0", snapshot)
    assert sizes("web-1", snapshot) is first
    after = snapshot.changed([make.change(make.vpa(cpu="500m"))])
    assert sizes("web-2", after) is not first


def test_what_was_looked_up_is_not_remembered() -> None:
    """A match that rests on a look-up holds for the review that asked for it."""
    memory = pod_memory(RULES)
    view = make.snapshot(make.vpa(cpu="250m")).of("default")
    request = read_review(make.review_json(make.pod_json(cpu="100m")))
    looked_up = {make.workload().key: make.workload()}
    for known, is_matched in ((looked_up, True), (NOTHING_LOOKED_UP, False), (looked_up, True)):
        found = admit_pod(request, view, known, RULES, memory)
        assert isinstance(found, PodVerdict) is is_matched


def test_huge_pods_are_not_remembered() -> None:
    """A pod with thousands of containers is answered, and forgotten."""
    memory = pod_memory(RULES)
    view = make.snapshot(make.vpa(cpu="250m"), make.workload()).of("default")
    containers = [make.container_json(f"c{index}", cpu="100m") for index in range(500)]
    request = read_review(make.review_json(make.pod_json(*containers)))
    first, second = (admit_pod(request, view, NOTHING_LOOKED_UP, RULES, memory) for _ in range(2))
    assert isinstance(first, PodVerdict)
    assert isinstance(second, PodVerdict)
    assert first.sizes is not second.sizes
    assert first.patch == second.patch
