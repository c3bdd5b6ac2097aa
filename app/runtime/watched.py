"""How processes watch what several of them watch: VPAs and the built-in controllers.

Strategy: a VPA with a broken status counts without it; that is logged where a log is handed in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from app.kube.watch_cache import WatchedResource
from app.model.errors import BadObject
from app.model.fields import Object
from app.model.kinds import owner_key
from app.model.snapshot import Collection, without_broken_status
from app.model.vpa import Vpa, read_vpa
from app.model.workloads import read_workload
from app.ports import VPAS, WORKLOADS, Clock
from app.runtime.live import Mirrored


def watched_vpas(
    namespace: str,
    log: logging.Logger | None = None,
    read: Callable[[Object], Vpa] = read_vpa,
) -> WatchedResource:
    """Return how VPAs are watched, in one namespace or in all."""
    return WatchedResource(VPAS, Collection.VPAS, partial(_read, log, read), namespace=namespace)


def watched_workloads(namespace: str, *, with_template: bool = True) -> Iterator[WatchedResource]:
    """Yield how the built-in controllers are watched, in one namespace or in all."""
    for one in WORKLOADS:
        yield WatchedResource(
            one,
            Collection.WORKLOADS,
            partial(
                read_workload,
                kind=one.kind,
                api_version=one.api_version,
                with_template=with_template,
            ),
            key=partial(owner_key, one.api_version, one.kind),
            namespace=namespace,
        )


def watch_ages(mirror: Mirrored, clock: Clock) -> Mapping[str, float]:
    """Return for each watched resource how long nothing was heard, in seconds."""
    return {found.resource.plural: found.stale_seconds for found in mirror.standings(clock.now())}


def _read(log: logging.Logger | None, read: Callable[[Object], Vpa], item: Object) -> Vpa:
    try:
        return read(item)
    except BadObject as error:
        found = read_vpa(without_broken_status(item, error))
        if log is not None:
            extra = {"vpa": f"{found.namespace}/{found.name}", "problem": str(error)}
            log.warning("status left out", extra=extra)
        return found
