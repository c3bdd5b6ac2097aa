"""What goes away while recommender and updater work: their leader, the API server, history."""

from __future__ import annotations

from collections.abc import Iterator
from secrets import token_hex

import pytest

from app.ports import LEASES
from tests.acceptance.cluster import Cluster
from tests.acceptance.process import halted
from tests.acceptance.rights import NAMESPACE
from tests.acceptance.space import Box
from tests.acceptance.stage import Stage, Team
from tests.acceptance.worker import Start
from tests.cluster.control_plane import ControlPlane
from tests.cluster.programs import eventually

GATES = "--feature-gates=AllAlpha=true"
ALONE = {"updater": (GATES, "--use-admission-controller-status=false"), "recommender": (GATES,)}
LEADING = (
    "--leader-elect",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
)
VERBS = ("updater", "recommender")
LEASE_OF = {"updater": "vpa-updater", "recommender": "vpa-recommender-lease"}
SIZES = ("200m/200Mi", "300m/300Mi")


class Work:
    """Something to do for a process, again and again."""

    def __init__(self, stage: Stage, verb: str) -> None:
        self._stage = stage
        self._is_updater = verb == "updater"
        self._turn = 0

    def begin(self) -> None:
        """Let there be pods."""
        self._stage.vpa("InPlaceOrRecreate", recommenders=[{"name": "nobody"}])
        self._stage.start()

    def order(self) -> None:
        """Let there be something to do."""
        self._turn += 1
        if self._is_updater:
            self._stage.recommend(SIZES[self._turn % 2])
        else:
            self._stage.vpa("Off", name=f"vpa-{self._turn}")

    def wait(self) -> None:
        """Return when it is done."""
        if self._is_updater:
            self._stage.resizes(Box(requests=SIZES[self._turn % 2]))
            return
        name = f"vpa-{self._turn}"
        self._stage.eventually(
            lambda: self._stage.space.recommended(name), f"{name} has a recommendation"
        )


@pytest.fixture(params=VERBS)
def verb(request: pytest.FixtureRequest) -> str:
    """The process."""
    found: str = request.param
    return found


@pytest.fixture
def work(cluster: Cluster, start: Start, verb: str) -> Iterator[Work]:
    """A namespace with work."""
    team = Team(cluster, start)
    with Stage(team, verb, f"failures-{token_hex(3)}") as stage:
        found = Work(stage, verb)
        found.begin()
        yield found


def test_the_leader_dies(cluster: Cluster, start: Start, verb: str, work: Work) -> None:
    """Killed without a word, the leader is replaced by the one that waits, which goes on."""

    def holder() -> str:
        found = cluster.admin.find(LEASES, NAMESPACE, LEASE_OF[verb])
        text: str = (found or {"spec": {}})["spec"].get("holderIdentity", "")
        return text

    leader = start(verb, *ALONE[verb], *LEADING)
    first = eventually(holder, "somebody leads")
    start(verb, *ALONE[verb], *LEADING, name=f"{verb}-2")
    work.order()
    work.wait()
    work.order()
    leader.program.kill()
    eventually(lambda: holder() not in ("", first), "another leads")
    work.wait()
    work.order()
    work.wait()
    cluster.admin.delete(LEASES, NAMESPACE, LEASE_OF[verb])


def test_the_api_server_restarts(plane: ControlPlane, start: Start, verb: str, work: Work) -> None:
    """Killed in the middle of the work, and started again, it finds a process that goes on."""
    worker = start(verb, *ALONE[verb])
    work.order()
    work.wait()
    work.order()
    plane.api_server.kill()
    worker.wait_rounds(1)
    assert worker.program.exit_code is None
    plane.start_api_server()
    work.wait()
    work.order()
    work.wait()


def test_history_is_compacted(plane: ControlPlane, start: Start, verb: str, work: Work) -> None:
    """Versions that were watched from are gone (410): all is read again."""
    worker = start(verb, *ALONE[verb])
    work.order()
    work.wait()
    with halted(worker.program):
        work.order()
        plane.api_server.kill()
        plane.compact()
        plane.start_api_server()
    work.wait()
    told = "too old resource version"  # watches are looked at once a second
    worker.program.wait_until(lambda: told in worker.program.log.read_text("utf-8"))
