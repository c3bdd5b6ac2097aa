"""Lists of objects, read page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from app.model.errors import Unavailable
from app.ports import Cluster, Json, Resource

_PAGE: Final = 500


def listed(
    cluster: Cluster, resource: Resource, namespace: str, may_read: Callable[[], bool]
) -> Iterator[Sequence[Json]]:
    """Yield the objects of a kind, a page at a time.

    Raises:
        ClusterError: the rest cannot be read, or may not be read any longer.
    """
    token = ""
    while True:
        page = cluster.list(resource, namespace, limit=_PAGE, continue_token=token)
        yield page.items
        token = page.continue_token
        if not token:
            return
        if not may_read():
            raise Unavailable("the rest is not read, for this is no longer the leader")
