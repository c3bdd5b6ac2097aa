"""Where others can reach the port a token is asked for."""

from __future__ import annotations

from typing import cast

import pytest

from app.diagnosis.pod_preview import PodPreviewer
from app.flags.command_line import parse
from app.model.errors import Unavailable
from app.ports import LEASES, Cluster
from app.recommender.flags import RecommenderSettings
from app.recommender.recommendation_api import Asked, is_loopback, recommendation_api
from app.runtime.probes import probes
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


def listening(desk: Desk, *flags: str, is_leading: bool = True) -> Desk:
    """Let the application of a process with such flags answer."""
    asked = Asked(
        cluster=cast("Cluster", desk.authorities),
        owners=desk.around.owners,
        clock=desk.sandbox.clock,
        snapshot=desk.snapshot,
        unready=lambda: "",
        is_leading=lambda: is_leading,
        showing=desk.showing,
        rules=desk.recommender.model.rules,
        previewer=PodPreviewer,
    )
    others = probes(lambda: "", lambda: "", lambda: b"vpa_up 1\n")
    desk.app = recommendation_api(parse(RecommenderSettings, flags, {}), asked, others)
    return desk


@pytest.mark.parametrize(
    ("address", "token", "status"),
    [
        ("127.0.0.1:8942", "", 200),
        (":8942", "", 401),
        (":8942", "wrong", 401),
        (":8942", "jane-token", 200),
    ],
)
def test_tokens_are_asked_for(desk: Desk, address: str, token: str, status: int) -> None:
    """Where others can reach the port, only who may see VPAs is answered."""
    listening(desk, f"--address={address}")
    assert desk.ask(HERE, authorization=f"Bearer {token}").status_code == status
    assert desk.ask("/metrics").status_code == 200


def test_flags_arrive(desk: Desk) -> None:
    """The namespace and the features that the process is told are heeded."""
    listening(desk, "--address=127.0.0.1:1", "--vpa-object-namespace=other")
    assert desk.ask(HERE).status_code == 404


@pytest.mark.parametrize(
    ("holder", "error", "leader"),
    [("vpa-1", None, "vpa-1"), ("", None, "nobody"), ("vpa-1", Unavailable("down"), "nobody")],
)
def test_the_leader_is_read_from_the_lease(
    desk: Desk, holder: str, error: Unavailable | None, leader: str
) -> None:
    """Who does not lead says who does, as far as that can be known."""
    name = {"name": "vpa-recommender-lease", "namespace": "kube-system"}
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    desk.apply({**kind, "metadata": name, "spec": {"holderIdentity": holder}})
    listening(desk, "--address=127.0.0.1:1", is_leading=False)
    if error is not None:
        desk.faults.order(Fault(error, "get", LEASES, times=1))
    answer = desk.ask(f"{HERE}?explain=true")
    assert answer.status_code == 503
    assert f"{leader} leads" in answer.json()["detail"]
    assert desk.ask(HERE).status_code == 200
