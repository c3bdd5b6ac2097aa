"""The sandbox's API with nobody at work behind it, and what disturbs those who call it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import ParamSpec, TypeVar

from app.model.errors import ClusterError, Refused, Unavailable
from app.ports import NAMESPACES, Json, Ref
from app.sandbox.cluster import SandboxCluster
from app.sandbox.pod_control import PodControl
from app.sandbox.served_kinds import Catalogue
from app.sandbox.stepped_clock import START, SteppedClock
from app.sandbox.store import Store
from app.sandbox.writes import AdmissionPlugin, Attempt, Writes

P = ParamSpec("P")
T = TypeVar("T")


class ClusterInMemory(SandboxCluster, AdmissionPlugin):
    """Objects as an API server keeps them; calls fail and meet others when a test says so."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        writes = Writes(Store(), Catalogue(), _Told(now), Random(0))
        super().__init__(PodControl(writes))
        self.failures: list[ClusterError | None] = []  # raised by the next calls, one each
        self.before_write: Callable[[], object] = lambda: None  # somebody else is faster, once
        self.forbidden: set[str] = set()  # kinds that may not be written
        self.prune: Callable[[Json], object] = lambda _body: None  # takes out unknown fields
        for name in ("default", "kube-system"):
            self.create(Ref(NAMESPACES), {"metadata": {"name": name}})
        writes.gates = (self,)
        for verb in ("get", "list", "create", "replace", "delete"):
            setattr(self, verb, self._failing(getattr(self, verb)))

    def fail_after(self, calls: int | None) -> None:
        """Let so many calls pass and fail the next; with None, let all pass."""
        self.failures = [] if calls is None else [*[None] * calls, *outage(1)]

    def change(self, attempt: Attempt) -> Json:
        """Let others come between, and keep what an older API server keeps."""
        assert attempt.item is not None
        meanwhile, self.before_write = self.before_write, lambda: None
        meanwhile()
        if attempt.kind.resource.kind in self.forbidden:
            raise Refused(f"{attempt.kind.collection} is forbidden", status=403, reason="Forbidden")
        self.prune(attempt.item)
        return attempt.item

    def _failing(self, call: Callable[P, T]) -> Callable[P, T]:
        def fails_or_calls(*place: P.args, **more: P.kwargs) -> T:
            failure = self.failures.pop(0) if self.failures else None
            if failure:
                raise failure
            return call(*place, **more)

        return fails_or_calls


class _Told(SteppedClock):
    """A clock that shows the time of another one."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._now = now

    def now(self) -> datetime:
        return self._now()

    def monotonic(self) -> float:
        return (self._now() - START).total_seconds()


def outage(calls: int) -> list[ClusterError | None]:
    """What an API server that is away says to so many calls."""
    return [Unavailable("connection refused") for _ in range(calls)]
