"""How soon pods that are alone in their Deployments are sized by eviction.

Strategy: here the API server shares its cores with nodes, controllers and all else, so it answers
later than on a cluster. How long it takes for evictions, by its own account, is allowed for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.model.fields import Json
from app.ports import NAMESPACES, PODS
from tests.acceptance.rows import FIGURE
from tests.acceptance.space import APP, SMALL, Box, Space, boxes_of, canonical, new_space, workload
from tests.acceptance.stage import is_ready
from tests.acceptance.webhook import Webhook
from tests.acceptance.worker import Start
from tests.cluster.api import Api
from tests.cluster.numbers import total
from tests.cluster.programs import eventually

COUNT = 500
SPACES = 50
HANDS = 8
SECONDS = 20.0
AT_ONCE = 10  # evictions, by default
LONG_SECONDS = 300.0  # on a busy machine
LARGE = Box(requests="200m/200Mi")
ALONE = {"tests.plumbline.dev/is": "alone"}


@pytest.fixture
def spaces(admin: Api, webhook: Webhook) -> Iterator[Sequence[Space]]:
    """Namespaces with Deployments of one pod, all ready, and a VPA for each."""
    assert webhook.problem() == "OK"
    found = [new_space(admin) for _ in range(SPACES)]
    for_each(found, write)
    eventually(lambda: sum(map(is_ready, pods(admin))) == COUNT, "all run", seconds=LONG_SECONDS)
    yield found
    for space in found:
        admin.delete(NAMESPACES, "", space.name)


def for_each(spaces: Sequence[Space], work: Callable[[Space, str], object]) -> None:
    """Do something for each Deployment, by its namespace and name."""
    with ThreadPoolExecutor(HANDS) as pool:
        list(pool.map(lambda n: work(spaces[n % len(spaces)], f"app-{n}"), range(COUNT)))


def write(space: Space, name: str) -> None:
    """Create a Deployment and its VPA."""
    space.vpa(name, target=name, updatePolicy={"updateMode": "Recreate", "minReplicas": 1})
    item = workload("Deployment", [SMALL], name=name, app=name)
    item["spec"]["template"]["metadata"]["labels"] |= ALONE
    space.create(item)


def pods(admin: Api) -> Sequence[Json]:
    """Return the pods that are there to stay."""
    labels = ",".join(f"{key}={text}" for key, text in ALONE.items())
    found = admin.list(PODS, "", labels)
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def waited_seconds(admin: Api) -> float:
    """Return how long all evictions took together, as the API server counts."""
    name = "apiserver_request_duration_seconds_sum"
    return total(admin.text("/metrics"), name, subresource="eviction")


def test_pods_that_are_alone(
    admin: Api,
    spaces: Sequence[Space],
    start: Start,
    record_property: Callable[[str, object], None],
) -> None:
    """With the usual flags 500 are sized 20 s after the updater's start, proof included."""
    for_each(spaces, lambda space, name: space.recommend({APP: LARGE.requests}, name))
    wanted, before = (canonical(LARGE),), waited_seconds(admin)
    began = time.monotonic()
    start("updater", "--updater-interval=1m")
    eventually(
        lambda: [boxes_of(pod) for pod in pods(admin)] == [wanted] * COUNT,
        "all are sized",
        seconds=LONG_SECONDS,
        every=0.5,
    )
    seconds, waited = time.monotonic() - began, waited_seconds(admin) - before
    text = f"{seconds:.0f} s after the updater's start, of which its {AT_ONCE} calls at a time"
    text += f" waited {waited / AT_ONCE:.0f} s for the API server"
    record_property(FIGURE, f"{COUNT} Deployments of one pod, sized by eviction: {text}.")
    assert seconds <= SECONDS + waited / AT_ONCE, text
