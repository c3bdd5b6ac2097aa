"""Where others can reach the port a token is asked for."""

from __future__ import annotations

from typing import cast

import pytest

from app.flags.command_line import parse
from app.model.errors import Unavailable
from app.ports import LEASES, Cluster
from app.recommender.flags import RecommenderSettings
from app.recommender.process import guard_of, is_loopback, lease_holder
from tests.faults import Fault
from tests.runtime.asking import Desk

HERE = "/v1/namespaces/default/recommendations"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost.example.com", False),
        ("recommender", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    """Only addresses that no other machine reaches are exempt; names are not looked up."""
    assert is_loopback(host) is expected


@pytest.fixture(scope="module")
def desk() -> Desk:
    """A recommender after a round; Jane may see a namespace."""
    found = Desk()
    found.rounds(1)
    found.authorities.know("jane-token", "jane")
    found.authorities.grant("jane", "get", "default")
    return found


@pytest.mark.parametrize(
    ("host", "token", "status"),
    [
        ("127.0.0.1", "", 200),
        ("", "", 401),
        ("", "wrong", 401),
        ("", "jane-token", 200),
    ],
)
def test_tokens_are_asked_for(desk: Desk, host: str, token: str, status: int) -> None:
    """Where others can reach the port, only who may see VPAs is answered."""
    cluster = cast("Cluster", desk.authorities)
    desk.app = desk.application(guard_of(host, cluster, desk.sandbox.clock))
    assert desk.ask(HERE, authorization=f"Bearer {token}").status_code == status
    assert desk.ask("/metrics").status_code == 200


@pytest.mark.parametrize(
    ("holder", "error", "leader"),
    [("vpa-1", None, "vpa-1"), ("", None, ""), ("vpa-1", Unavailable("down"), "")],
)
def test_the_leader_is_read_from_the_lease(
    desk: Desk, holder: str, error: Unavailable | None, leader: str
) -> None:
    """The holder of the Lease leads, as far as that can be known."""
    name = {"name": "vpa-recommender-lease", "namespace": "kube-system"}
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    desk.apply({**kind, "metadata": name, "spec": {"holderIdentity": holder}})
    if error is not None:
        desk.faults.order(Fault(error, "get", LEASES, times=1))
    assert lease_holder(parse(RecommenderSettings, (), {}), desk.around.cluster) == leader
