"""Memory: it only ever saves work."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.core.admission.mutate import PodRules, PodVerdict, admit_pod, pod_memory
from app.model.lookups import NOTHING_LOOKED_UP
from app.model.review import read_review
from app.model.snapshot import Snapshot
from app.model.vpa import read_vpa
from tests import make

CPU = st.sampled_from(["50m", "100m", None])
PODS = st.builds(
    make.pod_json,
    cpu=CPU,
    cpu_limit=CPU,
    memory=st.sampled_from(["64Mi", None]),
    annotations=st.sampled_from([None, {}]),
)
VPAS = st.builds(
    make.vpa_json,
    cpu=st.sampled_from(["250m", "1"]),
    policies=st.sampled_from([None, [make.policy_json(values="RequestsOnly")]]),
)
RANGES = st.sampled_from([None, make.limit_range(most={"cpu": "200m"})])
RULES = PodRules()


@given(st.lists(st.tuples(PODS, VPAS, RANGES), min_size=1, max_size=12), st.integers(1, 3))
def test_memory_changes_no_answer(
    steps: list[tuple[make.Json, make.Json, object]], most: int
) -> None:
    """However pods, VPAs and limits change, the answer is the one that is worked out anew."""
    memory = pod_memory(RULES, most)
    for pod, vpa, limits in steps:
        ranges = () if limits is None else (limits,)
        view = make.snapshot(read_vpa(vpa), make.workload(), *ranges).of("default")
        request = read_review(make.review_json(pod))
        remembered = admit_pod(request, view, NOTHING_LOOKED_UP, RULES, memory)
        fresh = admit_pod(request, view, NOTHING_LOOKED_UP, RULES)
        assert isinstance(remembered, PodVerdict)
        assert isinstance(fresh, PodVerdict)
        assert remembered.patch == fresh.patch
        assert remembered.reason == fresh.reason


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
