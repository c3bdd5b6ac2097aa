"""Lists, page by page, which come to an end: one that goes on for ever is an error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from app.model.errors import Unavailable
from app.ports import Cluster, ListPage, Resource

PAGE_SIZE: Final = 500
LONGEST_LIST_SECONDS: Final = 300.0  # API servers keep the state that a list began with no longer


def pages(
    cluster: Cluster,
    resource: Resource,
    namespace: str = "",
    *,
    label_selector: str = "",
    field_selector: str = "",
    limit: int = PAGE_SIZE,
    seconds: Callable[[], float] = time.monotonic,
) -> Iterator[ListPage]:
    """Yield the pages of a list.

    Raises:
        ClusterError: the rest cannot be read; `Unavailable` if it does not end.
    """
    token, began = "", seconds()
    while True:
        page = cluster.list(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=token,
        )
        check_progress(resource, token, page, seconds() - began)
        yield page
        token = page.continue_token
        if not token:
            return


def check_progress(resource: Resource, token: str, page: ListPage, seconds: float) -> None:
    """Check that a list comes to an end: a page that a token was sent for, so late.

    Raises:
        Unavailable: it does not.
    """
    if not page.continue_token:
        return
    if page.continue_token == token:
        raise Unavailable(f"the list of {resource.plural} goes round in circles")
    if seconds > LONGEST_LIST_SECONDS:
        raise Unavailable(f"the list of {resource.plural} did not end within {seconds:.0f} s")
