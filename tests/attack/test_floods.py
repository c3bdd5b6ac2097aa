"""A flood of a port costs little memory, gives it back, and delays no other client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.attack.client import Client, flood
from tests.attack.processes import IS_WHOLE, Attacked, before_api_server, share, webhook
from tests.cases import cases
from tests.waiting import eventually

MOST_MB: Final = 64.0
LEFT_MB: Final = 16.0
P99_SECONDS: Final = 0.1 if IS_WHOLE else 2.0  # a machine that tests has much else to do

FLOODS: Final = {
    "requests without reading": ("pipelined", share(20_000, 500_000)),
    "half-sent heads": ("half-heads", share(10, 60)),
    "half-sent bodies": ("half-bodies", share(15, 60)),
    "idle connections": ("idle", share(200, 2000)),
    "pages without reading": ("unread", share(50, 500)),
}


@contextmanager
def started(verb: str, folder: Path) -> Iterator[Attacked]:
    """Start a process of each kind."""
    if verb == "admission":
        with webhook(folder) as found:
            yield found
    else:
        with before_api_server(verb, folder) as (found, _):
            yield found


@pytest.fixture(scope="module", params=["admission", "recommender", "updater"])
def at(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Attacked]:
    """Each process."""
    with started(request.param, tmp_path_factory.mktemp(request.param)) as found:
        yield found


@cases("name count", FLOODS)
def test_floods_of_the_second_port(at: Attacked, name: str, count: int) -> None:
    """Health and metrics go on, and memory stays and comes back."""
    assert_harmless(at, name, at.port, count)


@cases("name count", FLOODS)
def test_floods_of_reviews(at: Attacked, name: str, count: int) -> None:
    """Reviews go on, and memory stays and comes back."""
    if at.tls_port:  # else it answers none
        assert_harmless(at, name, at.tls_port, count, "--tls")


def assert_harmless(at: Attacked, name: str, port: int, count: int, *words: str) -> None:
    """Flood a port while another client asks there."""
    at.page("/metrics")
    before = at.memory_mb()
    at.forget_peak()
    with Client(at, reviews=bool(words)) as client, flood(name, port, count, *words):
        p99 = client.p99()
        held = at.peak_mb() - before
    assert held < MOST_MB
    assert eventually(lambda: at.memory_mb() - before < LEFT_MB), at.memory_mb() - before
    assert not client.failures
    assert p99 < P99_SECONDS
