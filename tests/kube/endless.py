"""A cluster whose lists go on for ever."""

from __future__ import annotations

from itertools import count

from app.kube.client import KubeCluster
from app.ports import ListPage
from tests.stepped_clock import SteppedClock


class Endless(KubeCluster):
    """A cluster each page of which takes a second, and names a next one."""

    def __init__(self, clock: SteppedClock, *, same: bool = False) -> None:
        self._clock = clock
        self._tokens = count()
        self._same = same

    def list(self, *_: object, **__: object) -> ListPage:
        """Return a page that is not the last one."""
        self._clock.wait(1)
        return ListPage([], "1", "token" if self._same else f"token-{next(self._tokens)}")
