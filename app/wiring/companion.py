"""What processes have in common: a life until a signal, and how they stand for election.

Strategy: who stands for election is one process and no other, hence the random part of its name.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
import uuid
from collections.abc import Callable

from app.adapters.allocator import give_back
from app.adapters.logs import start_logging
from app.ports import Clock
from app.settings import shared as settings
from app.wiring.crew import STOP_SIGNALS
from app.wiring.memory import collect_seldom
from app.wiring.place import Connection, Running
from app.workers.election import Election, ElectionRules


def run_until_signal(process: Callable[[], Running], verbosity: int, log: logging.Logger) -> int:
    """Make a process, let it go on until a signal, end it, and return the exit code."""
    start_logging(verbosity)
    give_back()
    collect_seldom()
    stopping = threading.Event()
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: stopping.set())
    running = process()
    running.start()
    stopping.wait()
    log.info("stopping")
    running.stop()
    return 0


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
