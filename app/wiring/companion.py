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

from app.adapters.logs import start_logging
from app.settings.shared import Election
from app.wiring.crew import STOP_SIGNALS
from app.wiring.place import Running
from app.workers.election import ElectionRules


def run_until_signal(process: Callable[[], Running], verbosity: int, log: logging.Logger) -> int:
    """Make a process, let it go on until a signal, end it, and return the exit code."""
    start_logging(verbosity)
    stopping = threading.Event()
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: stopping.set())
    running = process()
    running.start()
    stopping.wait()
    log.info("stopping")
    running.stop()
    return 0


def candidate() -> str:
    """Return the name under which this process stands for election."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def election_rules(told: Election) -> ElectionRules:
    """Return how the Lease is held that the flags name."""
    return ElectionRules(
        told.resource_namespace,
        told.resource_name,
        told.lease_duration.total_seconds(),
        told.renew_deadline.total_seconds(),
        told.retry_period.total_seconds(),
    )
