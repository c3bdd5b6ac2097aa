"""Which resources are watched, and how their objects become values of the snapshot."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from app.model.errors import BadObject
from app.model.fields import Object
from app.model.kinds import owner_key
from app.model.scalers import read_hpa, read_scaled_object, scaler_key
from app.model.snapshot import Collection, without_broken_status
from app.model.update_modes import read_pausing_namespace
from app.model.vpa import Vpa, read_vpa
from app.model.workloads import read_workload
from app.ports import HPAS, NAMESPACES, SCALED_OBJECTS, VPAS, WORKLOADS, Json, Resource

_LINGER_SECONDS: Final = 300.0  # for something that scales to be created again


@dataclass(frozen=True, slots=True)
class WatchedResource:
    """A resource to keep, and how its objects become values of the snapshot."""

    resource: Resource
    collection: Collection
    read: Callable[[Json], object | None]  # None: of no interest; raises BadObject
    key: Callable[[str], Hashable] = str  # of the snapshot, made from the name
    namespace: str = ""
    field_selector: str = ""
    linger_seconds: float = 0.0  # for which what was deleted stays, in case it is created again
    is_optional: bool = False  # whether all goes on without it where we have no right to read it
    is_awaited: bool = True  # False: all goes on without it whatever keeps it from being read


def watched_vpas(
    namespace: str,
    logger: logging.Logger | None = None,
    read: Callable[[Object], Vpa] = read_vpa,
) -> WatchedResource:
    """Return how VPAs are watched, in one namespace or in all.

    One with a broken status counts without it; a logger given tells of that.
    """
    source = partial(_read_vpa, logger, read)
    return WatchedResource(VPAS, Collection.VPAS, source, namespace=namespace)


def watched_namespaces(namespace: str) -> WatchedResource:
    """Return how namespaces are watched, one or all; of interest are those that are paused."""
    only = f"metadata.name={namespace}" if namespace else ""
    collection, read = Collection.PAUSED_NAMESPACES, read_pausing_namespace
    return WatchedResource(NAMESPACES, collection, read, field_selector=only, is_optional=True)


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


def watched_scalers(namespace: str) -> Iterator[WatchedResource]:
    """Yield how that is watched which scales horizontally, in one namespace or in all."""
    for resource, read in ((HPAS, read_hpa), (SCALED_OBJECTS, read_scaled_object)):
        yield WatchedResource(
            resource,
            Collection.SCALERS,
            read,
            key=partial(scaler_key, resource.kind),
            namespace=namespace,
            linger_seconds=_LINGER_SECONDS,
            is_optional=True,
            is_awaited=False,
        )


def _read_vpa(logger: logging.Logger | None, read: Callable[[Object], Vpa], item: Object) -> Vpa:
    try:
        return read(item)
    except BadObject as error:
        found = read_vpa(without_broken_status(item, error))
        if logger is not None:
            extra = {"vpa": f"{found.namespace}/{found.name}", "problem": str(error)}
            logger.warning("status left out", extra=extra)
        return found
