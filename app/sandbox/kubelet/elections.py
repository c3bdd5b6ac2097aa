"""Programs in pods that elect a leader among them by a Lease, as client-go does it.

Strategy: each run of a container stands for election by itself, with the rules that our processes
follow too. One that crashes or goes renews no more, so its Lease expires and another one takes it;
when it comes back it is another candidate, because its identity ends with another UUID.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID, uuid5

from app.ports import Clock, Cluster
from app.runtime.election import Election, ElectionRules
from app.sandbox.kubelet.kubelet import Kubelet
from app.sandbox.kubelet.runs import ContainerRun, PodRun

# Longer than client-go's, as databases have it; a day of renewals is to cost next to nothing.
_LEASE_SECONDS: Final = 30.0
_RENEW_SECONDS: Final = 20.0
_RETRY_SECONDS: Final = 10.0
_LONGEST_HOST: Final = 63


class Elections:
    """All candidates of a cluster."""

    def __init__(self, kubelet: Kubelet, cluster: Cluster, clock: Clock) -> None:
        self._kubelet = kubelet
        self._cluster = cluster
        self._clock = clock
        kubelet.on_start.append(self._stand)

    def _stand(self, run: PodRun, container: ContainerRun) -> None:
        """Let a program stand for election once it has done the work of its start."""
        lease = container.load.elects
        if not lease:
            return
        rules = ElectionRules(
            run.key.namespace, lease, _LEASE_SECONDS, _RENEW_SECONDS, _RETRY_SECONDS
        )
        candidate = Election(self._cluster, rules, _identity(run, container), self._clock)
        seconds = max(container.useful_at - self._clock.monotonic(), 0.0)
        self._kubelet.while_running(
            run, container, seconds, lambda: self._step(run, container, candidate)
        )

    def _step(self, run: PodRun, container: ContainerRun, candidate: Election) -> None:
        standing = candidate.step(self._clock.now())
        self._kubelet.lead(run, container, leads=standing.leading)
        self._kubelet.while_running(
            run,
            container,
            standing.wait_seconds,
            lambda: self._step(run, container, candidate),
        )


def _identity(run: PodRun, container: ContainerRun) -> str:
    """Return what a process calls itself: its host, and a UUID of its own."""
    host = str(run.pod["spec"].get("hostname") or run.key.name)[:_LONGEST_HOST]
    return f"{host}_{uuid5(UUID(run.uid), f'{container.name}/{container.starts}')}"
