"""What happens in the shop by itself: leaders are chosen, new versions are rolled out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from app.model.errors import ClusterError
from app.ports import DEPLOYMENTS, PODS, Cluster, Json, PatchKind, Ref
from app.run.view import Upcoming
from app.runtime.live import Runtime
from app.runtime.loop import Loop

NAMESPACE: Final = "shop"
_LOOK_SECONDS: Final = 10.0
_FIRST_ROLLOUT: Final = timedelta(minutes=25)
_ROLLOUTS: Final = timedelta(hours=3)
_FIRST_FALL: Final = timedelta(minutes=40)
_FALLS: Final = timedelta(hours=4)

Tell = Callable[[str, str], None]  # who, and what happened


class ShopStory:
    """Plays the operator of the database, and the people who ship the checkout."""

    def __init__(self, cluster: Cluster, runtime: Runtime, tell: Tell) -> None:
        self._cluster = cluster
        self._tell = tell
        now = runtime.clock.now()
        self._rollout_due = now + _FIRST_ROLLOUT
        self._fall_due = now + _FIRST_FALL
        self._task: Loop = runtime.loop("story", self.tick)

    def start(self) -> None:
        """Begin."""
        self._task.start()

    def stop(self) -> None:
        """End."""
        self._task.stop()

    def planned(self) -> Iterator[Upcoming]:
        """Yield what it will do next."""
        yield Upcoming(self._rollout_due, "a new version of checkout")
        yield Upcoming(self._fall_due, "another leader of orders")

    def tick(self, now: datetime) -> float:
        """Do what is due; return the seconds until the next look."""
        try:
            self._lead(now)
            if now >= self._rollout_due:
                self._rollout_due += _ROLLOUTS
                self._roll_out(now)
        except ClusterError as error:
            self._tell("story", f"did not go on: {error}")
        return _LOOK_SECONDS

    def _lead(self, now: datetime) -> None:
        """See that one database leads; every so often it becomes another one."""
        ready = [
            pod for pod in self._cluster.list(PODS, NAMESPACE, label_selector="app=orders").items
            if _is_ready(pod)
        ]  # fmt: skip
        leaders = [pod for pod in ready if pod["metadata"]["labels"].get("role") == "leader"]
        followers = [pod for pod in ready if pod not in leaders]
        if not leaders and followers:
            self._label(followers[0], "leader")
            self._tell(_name(followers[0]), "becomes the leader")
        elif leaders and followers and now >= self._fall_due:
            self._fall_due += _FALLS
            heir = _after(leaders[0], followers)
            self._label(leaders[0], "follower")
            self._label(heir, "leader")
            self._tell(_name(heir), f"is promoted: it leads in the place of {_name(leaders[0])}")

    def _label(self, pod: Json, role: str) -> None:
        body = {"metadata": {"labels": {"role": role}}}
        self._cluster.patch(Ref(PODS, NAMESPACE, _name(pod)), body, kind=PatchKind.MERGE)

    def _roll_out(self, now: datetime) -> None:
        marks = {"shop/shipped-at": f"{now:%H:%M}"}
        body = {"spec": {"template": {"metadata": {"annotations": marks}}}}
        self._cluster.patch(Ref(DEPLOYMENTS, NAMESPACE, "checkout"), body, kind=PatchKind.MERGE)
        self._tell("checkout", "a new version is rolled out")


def _is_ready(pod: Json) -> bool:
    conditions: Sequence[Json] = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


def _after(leader: Json, followers: Sequence[Json]) -> Json:
    """Return the follower whose turn it is."""
    return next((pod for pod in followers if _name(pod) > _name(leader)), followers[0])
