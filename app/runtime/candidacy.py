"""How a process stands for election.

Strategy: who stands for election is one process and no other, hence the random part of its name.
"""

from __future__ import annotations

import socket
import uuid

from app.flags import shared as settings
from app.ports import Clock
from app.runtime.election import Election, ElectionRules
from app.runtime.live import Connection


def election(told: settings.LeaderElection, cluster: Connection, clock: Clock) -> Election:
    """Return how this process stands for the Lease that the flags name."""
    rules = ElectionRules(
        told.resource_namespace,
        told.resource_name,
        told.lease_duration.total_seconds(),
        told.renew_deadline.total_seconds(),
        told.retry_period.total_seconds(),
    )
    # A call that hangs must not outlive the leadership that it is to renew.
    return Election(cluster.within(rules.renew_seconds), rules, candidate(), clock)


def candidate() -> str:
    """Return the name under which this process stands for election."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"
