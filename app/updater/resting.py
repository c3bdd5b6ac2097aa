"""Namespaces in which writes fail for their own reasons, and which hold up no other meanwhile."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from app.model.errors import ClusterError

_FAILED: Final = 500  # also where a webhook of one namespace fails for good
_LASTS: Final = timedelta(seconds=30)


class Resting:
    """Remembers which namespaces rest; for one thread."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def holds(self, namespace: str, now: datetime) -> bool:
        """Whether nothing is written into a namespace now."""
        since = self._since.get(namespace)
        return since is not None and abs(now - since) < _LASTS

    def begin(self, namespace: str, error: ClusterError, now: datetime) -> bool:
        """Let a namespace rest if an error may be its own; tell whether it does."""
        if error.status != _FAILED:
            return False
        self._since = {name: at for name, at in self._since.items() if self.holds(name, now)}
        self._since[namespace] = now
        return True
