"""The sign of life of a webhook that is not there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.kube.leases import lease, micro_time
from app.ports import LEASES
from app.runtime.clock import SystemClock
from tests.acceptance.webhook import HEARTBEAT
from tests.cluster.api import Api

_BEAT_SECONDS = 5.0


@contextmanager
def beating(admin: Api, namespace: str) -> Iterator[None]:
    """Renew a webhook's Lease meanwhile."""
    over = threading.Event()

    def beat() -> None:
        now = micro_time(SystemClock().now())
        admin.apply(lease(namespace, HEARTBEAT, {"holderIdentity": "tests", "renewTime": now}))

    def go_on() -> None:
        while not over.wait(_BEAT_SECONDS):
            beat()

    beat()
    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        admin.delete(LEASES, namespace, HEARTBEAT)
