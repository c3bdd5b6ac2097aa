"""A patch touches what it means to change, and applies to whatever pod comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from app.core.admission.patching import pod_patch
from app.core.boost import Boosted
from app.core.sizing import NO_SIZES, Sizes
from app.model.patches import apply
from app.model.pods import read_pod
from app.model.quantity import ZERO
from tests import make

Json = dict[str, Any]

AT = "/spec/containers/0/resources"
TOLD = "/metadata/annotations/vpaUpdates Pod resources updated by v: container 0: "


@dataclass(frozen=True)
class Patched:
    """What a container gets."""

    sizes: Sizes
    boost: Boosted | None = None


def sizes(requests: Mapping[str, str], limits: Mapping[str, str], *notes: str) -> Sizes:
    """Return what a container gets."""
    return Sizes(
        {name: make.quantity(text) for name, text in requests.items()},
        {name: make.quantity(text) for name, text in limits.items()},
        notes,
    )


def boost(request: str, limit: str | None) -> Boosted:
    """Return the boost of the container `app`."""
    return Boosted(
        container="app",
        base=ZERO,
        wanted=ZERO,
        request=make.quantity(request),
        limit=None if limit is None else make.quantity(limit),
        ceiling=None,
        original="{}",
    )


def changes(pod: Json, patched: Patched) -> list[str]:
    """Return path and value of each operation but the last, which names the containers."""
    operations = pod_patch(read_pod(pod), "v", [patched])
    apply(pod, operations)
    return [f"{operation['path']} {operation['value']}" for operation in operations[:-1]]


@pytest.mark.parametrize(
    ("resources", "found", "expected"),
    [
        pytest.param(
            {"limits": {"cpu": "0"}},
            sizes({}, {"cpu": "1"}),
            [f"{AT}/limits/cpu 1", f"{TOLD}cpu limit"],
            id="P6 a limit alone",
        ),
        pytest.param(
            {"limits": {"nvidia.com/gpu": "2"}},
            sizes({}, {"nvidia.com/gpu": "1"}),
            [f"{AT}/limits/nvidia.com~1gpu 1", f"{TOLD}nvidia.com/gpu limit"],
            id="P15 a name with a slash",
        ),
        pytest.param(
            {"requests": {}},
            sizes({"a~b": "1"}, {}),
            [f"{AT}/requests/a~0b 1", f"{TOLD}a~b request"],
            id="a name with a tilde",
        ),
        pytest.param(
            None,
            sizes({"z": "1", "memory": "1", "a": "1", "cpu": "1"}, {"cpu": "2"}, "cpu is fine"),
            [
                f"{AT} {{}}",
                f"{AT}/requests {{}}",
                f"{AT}/requests/cpu 1",
                f"{AT}/requests/memory 1",
                f"{AT}/requests/a 1",
                f"{AT}/requests/z 1",
                f"{AT}/limits {{}}",
                f"{AT}/limits/cpu 2",
                f"{TOLD}cpu is fine, cpu request, memory request, a request, z request, cpu limit",
            ],
            id="all in order",
        ),
        pytest.param(None, sizes({}, {}, "a note alone"), [], id="nothing to write"),
        pytest.param(
            {},
            sizes({"cpu": "1"}, {}),
            [f"{AT} {{}}", f"{AT}/requests {{}}", f"{AT}/requests/cpu 1", f"{TOLD}cpu request"],
            id="an empty object is made anew",
        ),
        pytest.param(
            {"claims": []},
            sizes({"cpu": "1"}, {}),
            [f"{AT}/requests {{}}", f"{AT}/requests/cpu 1", f"{TOLD}cpu request"],
            id="P16 one that holds more is not",
        ),
    ],
)
def test_sizes(resources: Json | None, found: Sizes, expected: list[str]) -> None:
    """Maps are created where they are missing, and values come in order."""
    container = make.container_json("app") | ({} if resources is None else {"resources": resources})
    assert changes(make.pod_json(container, annotations={}), Patched(found)) == expected


MARK = "/metadata/annotations/vpaCpuStartupBoost~1app {}"


@pytest.mark.parametrize(
    ("found", "boosted", "expected"),
    [
        pytest.param(
            NO_SIZES,
            boost("2", None),
            [MARK, f"{AT}/requests/cpu 2", f"{TOLD}cpu request"],
            id="a boost alone",
        ),
        pytest.param(
            sizes({"memory": "1", "cpu": "1"}, {"cpu": "3"}),
            boost("2", None),
            [
                MARK,
                f"{AT}/requests/cpu 2",
                f"{AT}/requests/memory 1",
                f"{AT}/limits/cpu 3",
                f"{TOLD}cpu request, memory request, cpu limit",
            ],
            id="the limit stays what it is",
        ),
        pytest.param(
            sizes({"memory": "1"}, {"memory": "3"}),
            boost("2", "4"),
            [
                MARK,
                f"{AT}/requests/cpu 2",
                f"{AT}/requests/memory 1",
                f"{AT}/limits/cpu 4",
                f"{AT}/limits/memory 3",
                f"{TOLD}cpu request, memory request, cpu limit, memory limit",
            ],
            id="the limit follows",
        ),
    ],
)
def test_boost(found: Sizes, boosted: Boosted, expected: list[str]) -> None:
    """A boost stands in for the cpu, and its mark comes first."""
    pod = make.pod_json(cpu="1", cpu_limit="1", annotations={})
    assert changes(pod, Patched(found, boosted)) == expected


def test_foreign_annotations() -> None:
    """P14: whatever keys others use, they stay, and paths are escaped."""
    key = "custom~domain.com/annotation/name"
    pod = make.pod_json(cpu="1", annotations={key: "x"})
    patched = apply(pod, pod_patch(read_pod(pod), "v", [Patched(NO_SIZES, boost("2", None))]))
    assert patched["metadata"]["annotations"] == {
        key: "x",
        "vpaCpuStartupBoost/app": "{}",
        "vpaUpdates": "Pod resources updated by v: container 0: cpu request",
        "vpaObservedContainers": "app",
    }
