"""What is read of pods again and again is kept once; what is odd is not kept at all."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from app.model.fields import Json
from app.model.pods import read_pod
from app.model.quantity import Quantity
from tests import make
from tests.cases import cases

MOST_BYTES = 300_000  # of all objects of a case together; each case reads ten times as much


@pytest.fixture(autouse=True)
def _traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


def owned(count: int, name: str) -> Json:
    """Return a pod with so many owners."""
    return make.pod_json(
        metadata={"ownerReferences": [make.owner_json(f"Job/{name}-{i}") for i in range(count)]}
    )


def asking(resources: Json) -> Json:
    """Return a pod of which the container has these resources."""
    return make.pod_json(make.container_json(resources=resources))


@cases(
    "build count",
    {
        "many owners": (lambda i: owned(500, f"n{i}"), 20),
        "long names of owners": (lambda i: owned(1, f"{i}" * 50_000), 40),
        "many resources": (
            lambda i: asking({"requests": {f"{i}{r:x}": "1" for r in range(30)}}),
            1_000,
        ),
        "long names of containers": (
            lambda i: make.pod_json(make.container_json(f"{i}" * 50_000)),
            40,
        ),
    },
)
def test_what_is_large_is_forgotten_with_its_pod(build: Callable[[int], Json], count: int) -> None:
    """Of pods that are gone nothing stays but what is small and likely to come again."""
    before = tracemalloc.get_traced_memory()[0]
    for number in range(count):
        read_pod(build(number))
    gc.collect()
    assert tracemalloc.get_traced_memory()[0] - before < MOST_BYTES


def test_long_numbers_are_forgotten() -> None:
    """What a quantity of a thousand digits is printed as is not kept."""
    before = tracemalloc.get_traced_memory()[0]
    for number in range(1_000):
        assert str(Quantity((10**990 + number) * 1_000)).startswith("1")
    gc.collect()
    assert tracemalloc.get_traced_memory()[0] - before < MOST_BYTES


def test_equal_owners_are_kept_once() -> None:
    """The pods of a workload share their owner, the usual resources, and short words."""
    one, two = (read_pod(make.pod_json(cpu="100m", name=name)) for name in ("a", "b"))
    assert one.owners is two.owners
    assert one.containers[0].resources is two.containers[0].resources
