"""Objects of all kinds are read with care: what is wrong is told with its path."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.model.errors import BadObject
from app.model.fields import Json
from app.model.limits import read_disruption_budget, read_limit_range, read_node
from app.model.pods import read_pod
from app.model.review import read_review
from app.model.vpa import read_vpa
from app.model.workloads import read_custom_kind, read_workload, scaled_workload
from tests import make
from tests.junk import objects_like
from tests.make import with_value
from tests.model import test_limits, test_pods, test_review, test_vpa, test_workloads

Reader = Callable[[Json], object]


def read_scale(item: Json) -> object:
    """Read the scale subresource of a custom object."""
    return scaled_workload("default", "example.com/v1", "Gadget", item)


_NAMELESS = r"apiVersion|kind|metadata\.(creationTimestamp|generation|resourceVersion|uid)"
_WORKLOAD = (
    r"metadata\.(creationTimestamp|labels.*|resourceVersion|uid)|.*blockOwnerDeletion|"
    r"spec\.template\.metadata\.(?!labels).*|spec\.schedule"
)
# How an object is read, an object, and the places in it that are not read.
SAMPLES: Final[dict[str, tuple[Reader, Json, str]]] = {
    "pod": (
        read_pod,
        test_pods.FULL,
        r"apiVersion|kind|.*blockOwnerDeletion|.*\.claims.*|"
        r"status\.containerStatuses\.\d\.(allocatedResources.*|containerID|ready|state\.running.*)|"
        r"status\.initContainerStatuses\.\d\.(allocated.*|containerID|ready|state\.running.*)",
    ),
    "VPA": (read_vpa, test_vpa.FULL, r"apiVersion|kind|metadata\.resourceVersion"),
    "review": (
        read_review,
        test_review.FULL,
        r"apiVersion|kind|request\.(object|oldObject|options|user).*",
    ),
    "LimitRange": (read_limit_range, test_limits.FULL, _NAMELESS),
    "PodDisruptionBudget": (
        read_disruption_budget,
        make.budget_json(),
        r"apiVersion|kind|metadata\.(creationTimestamp|resourceVersion|uid)",
    ),
    "node": (read_node, make.node_json(), _NAMELESS + "|spec"),
    "StatefulSet": (read_workload, test_workloads.FULL, _WORKLOAD),
    "CronJob": (read_workload, make.workload_json("CronJob/x"), _WORKLOAD),
    "ReplicationController": (
        read_workload,
        make.workload_json("ReplicationController/x"),
        _WORKLOAD,
    ),
    "DaemonSet": (
        read_workload,
        make.workload_json("DaemonSet/x", status={"desiredNumberScheduled": 9}),
        _WORKLOAD,
    ),
    "scale": (read_scale, test_workloads.SCALE, r"metadata\.(resourceVersion|uid)"),
    "CustomResourceDefinition": (
        read_custom_kind,
        test_workloads.DEFINITION,
        r"spec\.versions\.(2\.subresources\.status|3\.served|4\..*)",
    ),
}


def _damaged(kind: str) -> st.SearchStrategy[tuple[str, Json]]:
    return st.tuples(st.just(kind), objects_like(SAMPLES[kind][1]))


def places(value: object, at: str = "") -> Iterator[tuple[str, object]]:
    """Yield the path of each value of an object, and the value."""
    if at:
        yield at, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, f"{at}[{key}]")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, f"{at}[{index}]")


def dotted(path: str) -> str:
    """Return a path in one spelling."""
    return re.sub(r"\[([^]]*)\]", r".\1", path).strip(".")


@pytest.mark.parametrize("kind", SAMPLES)
def test_wrong_values(kind: str) -> None:
    """A value of the wrong type is told with its own path, unless it is not read at all."""
    read, item, not_read = SAMPLES[kind]
    for path, value in places(item):
        wrong: object = {} if isinstance(value, list) else 1 if isinstance(value, dict) else []
        told = None
        try:
            read(with_value(item, path, wrong))
        except BadObject as error:
            told = dotted(error.path)
        assert told == (None if re.fullmatch(not_read, dotted(path)) else dotted(path))


@settings(max_examples=500)
@given(st.sampled_from(sorted(SAMPLES)).flatmap(_damaged))
def test_anything_is_read_or_refused(damaged: tuple[str, Json]) -> None:
    """Whatever is sent as an object of a kind, it is one or a bad object."""
    kind, item = damaged
    with suppress(BadObject):
        SAMPLES[kind][0](item)
