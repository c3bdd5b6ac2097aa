"""What happens in the shop by itself: leaders fall, new versions are rolled out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from app.model.errors import ClusterError
from app.model.role_leases import bearer, read_lease
from app.ports import DEPLOYMENTS, LEASES, PODS, Cluster, Delta, PatchKind, Ref
from app.run.view import Upcoming
from app.runtime.live import Runtime
from app.runtime.loop import Loop

NAMESPACE: Final = "shop"
_LEASE: Final = "orders"
_LOOK_SECONDS: Final = 10.0
_FIRST_ROLLOUT: Final = timedelta(minutes=25)
_ROLLOUTS: Final = timedelta(hours=3)
_FIRST_FALL: Final = timedelta(minutes=40)
_FALLS: Final = timedelta(hours=4)

Tell = Callable[[str, str], None]  # who, and what happened


class ShopStory:
    """Plays the failures of the database, and the people who ship the checkout."""

    def __init__(self, cluster: Cluster, runtime: Runtime, tell: Tell) -> None:
        self._cluster = cluster
        self._tell = tell
        now = runtime.clock.now()
        self._rollout_due = now + _FIRST_ROLLOUT
        self._fall_due = now + _FIRST_FALL
        self._leader = ""  # the pod that holds the Lease of the database
        fields = f"metadata.name={_LEASE}"
        self._lease = runtime.follow(cluster, LEASES, NAMESPACE, fields, self._lease_changed)
        self._task: Loop = runtime.loop("story", self.tick)

    def start(self) -> None:
        """Begin."""
        self._lease.start()
        self._task.start()

    def stop(self) -> None:
        """End."""
        self._task.stop()
        self._lease.stop()

    def planned(self) -> Iterator[Upcoming]:
        """Yield what it will do next."""
        yield Upcoming(self._rollout_due, "a new version of checkout")
        yield Upcoming(self._fall_due, "the leader of orders is deleted")

    def tick(self, now: datetime) -> float:
        """Do what is due; return the seconds until the next look."""
        try:
            if self._leader and now >= self._fall_due:
                self._fall_due += _FALLS
                self._fall()
            if now >= self._rollout_due:
                self._rollout_due += _ROLLOUTS
                self._roll_out(now)
        except ClusterError as error:
            self._tell("story", f"did not go on: {error}")
        return _LOOK_SECONDS

    def _fall(self) -> None:
        """Let the pod that leads go, without a word to the others."""
        self._cluster.delete(Ref(PODS, NAMESPACE, self._leader))
        self._tell(self._leader, f"is deleted: Lease {_LEASE} is not renewed any more")

    def _lease_changed(self, changes: Sequence[Delta], _whole: bool) -> None:
        """Tell who leads from now on."""
        for change in changes:
            holder = read_lease(change.object).holder if change.object is not None else ""
            before, leader = self._leader, bearer(holder)
            if leader in ("", before):
                continue
            self._leader = leader
            told = f"is promoted: it takes Lease {_LEASE} from {before}"
            self._tell(leader, told if before else f"becomes the leader: it takes Lease {_LEASE}")

    def _roll_out(self, now: datetime) -> None:
        marks = {"shop/shipped-at": f"{now:%H:%M}"}
        body = {"spec": {"template": {"metadata": {"annotations": marks}}}}
        self._cluster.patch(Ref(DEPLOYMENTS, NAMESPACE, "checkout"), body, kind=PatchKind.MERGE)
        self._tell("checkout", "a new version is rolled out")
