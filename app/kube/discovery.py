"""Which resources of the API stand behind a kind, and can be scaled.

Strategy: the resource lists of an API group are read together and kept for minutes. An unknown
kind may just have been installed, so it has the group read again, but not more often than every
half minute. While a group cannot be read again, what is known of it stays in use. Objects may name
any group: those that are not asked for are forgotten, and where there are too many, those go first
that nothing can be scaled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock

from app.model.errors import ClusterError, NotFound
from app.model.kinds import group_of
from app.ports import Clock, Cluster, Json, LimitReached, LookupLimit, Resource

LIFE_SECONDS = 300.0
MISS_SECONDS = 30.0  # at least between two readings for unknown kinds
EARLY_SECONDS = 60.0  # before its life ends, a group in use is read again in the background
IDLE_SECONDS = 3600.0  # a group that is not asked for is forgotten
MOST_GROUPS = 1000

# What a group can be called; owner references may say anything.
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(slots=True)
class _Group:
    lock: Lock = field(default_factory=Lock)  # held while the group is read
    kinds: Mapping[str, tuple[Resource, ...]] = field(default_factory=dict)
    read_at: float | None = None
    used_at: float = 0.0


class Discovery:
    """Answers from what the server last said of each group; safe to use from many threads."""

    def __init__(self, cluster: Cluster, clock: Clock, reached: LimitReached) -> None:
        self._cluster = cluster
        self._clock = clock
        self._reached = reached
        self._lock = Lock()
        self._groups: dict[str, _Group] = {}

    def __len__(self) -> int:
        """Return of how many groups anything is known."""
        return len(self._groups)

    def scalable(self, api_version: str, kind: str) -> tuple[Resource, ...]:
        """Return the resources of a kind that can be scaled, the version asked for first.

        Raises `ClusterError` if the server did not tell.
        """
        name = group_of(api_version)
        if name and not _GROUP.fullmatch(name):
            return ()
        now = self._clock.monotonic()
        with self._lock:
            group = self._used(name, now)
        with group.lock:
            age = LIFE_SECONDS if group.read_at is None else now - group.read_at
            if age >= LIFE_SECONDS or (age >= MISS_SECONDS and kind not in group.kinds):
                self._read_again(name, group, now)
            found = group.kinds.get(kind, ())
        version = api_version.rpartition("/")[2]
        return tuple(sorted(found, key=lambda resource: resource.version != version))

    def refresh(self) -> None:
        """Read groups again whose life is about to end, so that no look-up has to wait for it."""
        now = self._clock.monotonic()
        with self._lock:
            for name, group in list(self._groups.items()):
                if now - group.used_at >= IDLE_SECONDS:
                    del self._groups[name]
            groups = dict(self._groups)
        for name, group in groups.items():
            with group.lock:
                is_old = group.read_at is not None and (
                    now - group.read_at >= LIFE_SECONDS - EARLY_SECONDS
                )
                if is_old and now - group.used_at < LIFE_SECONDS:
                    self._read_again(name, group, now)

    def _used(self, name: str, now: float) -> _Group:
        """Return a group that is asked for, which may take the place of another one."""
        group = self._groups.get(name)
        if group is None:
            if len(self._groups) >= MOST_GROUPS:
                self._reached(LookupLimit.API_GROUPS, group=name)
                del self._groups[min(self._groups, key=self._worth)]
            group = self._groups[name] = _Group()
        group.used_at = now
        return group

    def _worth(self, name: str) -> tuple[bool, float]:
        group = self._groups[name]
        return bool(group.kinds), group.used_at

    def _read_again(self, name: str, group: _Group, now: float) -> None:
        try:
            group.kinds = self._read(name)
        except ClusterError:
            if group.read_at is None:
                raise
        group.read_at = now

    def _read(self, group: str) -> dict[str, tuple[Resource, ...]]:
        kinds: dict[str, tuple[Resource, ...]] = {}
        for version in self._versions(group):
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            found = self._cluster.request("GET", root).get("resources")
            for entry in _scalable(found):
                resource = Resource(
                    group, version, entry["name"], entry["kind"], bool(entry.get("namespaced"))
                )
                kinds[resource.kind] = (*kinds.get(resource.kind, ()), resource)
        return kinds

    def _versions(self, group: str) -> list[str]:
        if not group:
            return ["v1"]
        try:
            found = self._cluster.request("GET", f"/apis/{group}").get("versions")
        except NotFound:
            return []
        return [entry["version"] for entry in _entries(found, "version")]


def _scalable(found: object) -> Iterator[Json]:
    """Yield the entries of a resource list that have a scale subresource."""
    entries = list(_entries(found, "name", "kind"))
    scales = {entry["name"] for entry in entries if entry["name"].endswith("/scale")}
    yield from (entry for entry in entries if f"{entry['name']}/scale" in scales)


def _entries(found: object, *texts: str) -> Iterator[Json]:
    """Yield the entries of a list that have these texts."""
    for entry in found if isinstance(found, list) else ():
        if isinstance(entry, dict) and all(isinstance(entry.get(text), str) for text in texts):
            yield entry
