"""Two replicas behind one address: one leads, and either may go at any moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from app.model.fields import Json
from app.ports import LEASES, MUTATING_WEBHOOKS, REPLICA_SETS
from tests.acceptance.cluster import Cluster, reached_as
from tests.acceptance.load import Load, webhook_failures
from tests.acceptance.logs import Logs
from tests.acceptance.rights import NAMESPACE
from tests.acceptance.space import APP, Box, Space, annotation
from tests.acceptance.webhook import (
    ELECTION,
    Webhook,
    clean,
    configurations,
    refusal_of_nonsense,
)
from tests.cluster.api import Api
from tests.cluster.balancer import Balancer
from tests.cluster.programs import eventually

PER_SECOND = 30


@dataclass
class Replicas:
    """Both of them, and what stands before them."""

    both: list[Webhook]
    balancer: Balancer
    logs: Logs

    def begin(self, replica: Webhook) -> None:
        """Start one; it is called as soon as it is ready."""
        replica.start(self.logs)
        self.balancer.add(replica.port, lambda: replica.problem() == "OK")

    def is_leading(self, replica: Webhook, admin: Api) -> bool:
        """Say whether a replica holds the Lease; each names itself in its log."""
        lease = admin.find(LEASES, NAMESPACE, ELECTION)
        holder = lease["spec"]["holderIdentity"] if lease else ""
        return (
            bool(holder)
            and replica.logged(f'"leader":"{holder}"')
            and not replica.logged(f"{holder} holds the lease")
        )


@pytest.fixture(scope="module")
def replicas(
    cluster: Cluster, logs: Logs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicas]:
    """Two replicas that are called."""
    balancer = Balancer(reached_as()[1])
    balancer.start()
    folder = tmp_path_factory.mktemp("replicas")
    both = [
        Webhook(cluster, folder, name=name, called_port=balancer.port) for name in ("one", "two")
    ]
    found = Replicas(both, balancer, logs)
    try:
        for replica in both:
            found.begin(replica)
        both[0].wait_until_called()
        yield found
    finally:
        for replica in both:
            replica.program.kill()
        balancer.stop()
        clean(cluster.admin)


@pytest.fixture
def owner(space: Space) -> Json:
    """A ReplicaSet whose pods are sized."""
    space.vpa()
    space.recommend({"hamster": "250m/200Mi"})
    space.deployment(Box(requests="100m/100Mi"), replicas=1)
    eventually(
        lambda: annotation(space.pods(1)[0], "vpaUpdates") or not space.replaced_pods(1),
        "pods are sized",
    )
    return space.admin.list(REPLICA_SETS, space.name, f"app={APP}")[0]


def wait_for_more(load: Load) -> None:
    """Return when pods of some seconds more were made."""
    wanted = load.sized + 3 * PER_SECOND
    eventually(lambda: load.sized >= wanted, "more pods are made")


def test_graceful_end_fails_no_pod(
    admin: Api, replicas: Replicas, space: Space, owner: Json
) -> None:
    """A replica that is asked to end finishes what it has, and nobody calls it in vain."""
    before = webhook_failures(admin)
    for replica in replicas.both:
        with Load(space, owner, PER_SECOND) as load:
            wait_for_more(load)
            assert replica.stop(30) == 0
            replicas.balancer.remove(replica.port)
            wait_for_more(load)
        replicas.begin(replica)

        assert (load.unsized, load.failures) == (0, []), load.story
    assert webhook_failures(admin) == before


def test_another_leads_when_the_leader_dies(admin: Api, replicas: Replicas) -> None:
    """Registration is kept by the replica that is left; no pod was blocked meanwhile."""
    (leader,) = [found for found in replicas.both if replicas.is_leading(found, admin)]
    leader.program.kill()
    replicas.balancer.remove(leader.port)
    (other,) = [found for found in replicas.both if found is not leader]
    admin.delete(MUTATING_WEBHOOKS, "", configurations(admin)[0]["metadata"]["name"])
    eventually(lambda: replicas.is_leading(other, admin), "the other one leads")
    eventually(lambda: refusal_of_nonsense(admin), "registered and called again")
    replicas.begin(leader)
