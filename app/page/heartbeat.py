"""Whether the API server gives an answer at all, which watches that are silent tell only late."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from app.model.errors import ClusterError, Unavailable
from app.ports import Cluster

_INTERVAL_SECONDS: Final = 5.0
_QUICK_SECONDS: Final = 1.0  # while it gives none
_PATH: Final = "/version"  # for which nobody needs a right, and which costs nothing


class Heartbeat:
    """Asks the least that can be asked; `tick` is for a loop, and any thread may read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.problem = ""  # why there was no answer a moment ago

    def tick(self, _now: datetime) -> float:
        """Ask; return the seconds until the next time."""
        try:
            self._cluster.request("GET", _PATH)
            self.problem = ""
        except Unavailable as error:
            self.problem = f"the API server gives no answer: {error}"
            return _QUICK_SECONDS
        except ClusterError:  # no is an answer, too
            self.problem = ""
        return _INTERVAL_SECONDS
