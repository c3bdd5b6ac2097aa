"""A cluster that fails when it is told to, for tests of what happens then.

Strategy: it stands before any other cluster and lets calls through, but for those that somebody
ordered to fail. A call may also fail after it was carried out, as when an answer gets lost. It
takes the methods of the other as they are, so that the port is written down once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from threading import Lock
from typing import Any, cast

from app.model.errors import ClusterError
from app.ports import PODS, Cluster, Ref, Resource

_NOTHING = Ref(Resource("", "", "", ""))  # what a plain request is about


@dataclass(slots=True)
class Fault:
    """Which calls fail, and how; what is left empty fits any."""

    error: ClusterError
    verb: str = ""  # a method of the port
    resource: Resource | None = None
    name: str = ""
    subresource: str = ""
    times: int = 1  # then it is over
    too_late: bool = False  # the call is carried out, only its answer is lost


@dataclass(slots=True)
class Faults:
    """The faults that are ordered; the latest that fits a call strikes it."""

    _faults: list[Fault] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def order(self, fault: Fault) -> None:
        """Let calls fail from now on."""
        with self._lock:
            self._faults = [found for found in self._faults if found.times > 0]
            self._faults.append(fault)

    def clear(self) -> None:
        """Let all calls through again."""
        with self._lock:
            self._faults.clear()

    def before(self, cluster: Cluster) -> Cluster:
        """Return a cluster that fails as ordered and is otherwise the one given."""
        return cast("Cluster", _Faulty(cluster, self))

    def take(self, verb: str, arguments: dict[str, object]) -> Fault | None:
        """Return the fault that strikes a call, and count it."""
        ref = ref_of(verb, arguments)
        with self._lock:
            for fault in reversed(self._faults):
                fits = (
                    fault.times > 0
                    and fault.verb in ("", verb)
                    and fault.resource in (None, ref.resource)
                    and fault.name in ("", ref.name)
                    and fault.subresource in ("", ref.subresource)
                )
                if fits:
                    fault.times -= 1
                    return fault
        return None


def ref_of(verb: str, arguments: Mapping[str, Any]) -> Ref:
    """Return what a call of the port is about."""
    if verb == "evict":
        return Ref(PODS, arguments["namespace"], arguments["name"])
    if "resource" in arguments:
        return Ref(arguments["resource"], arguments.get("namespace", ""))
    found: Ref = arguments.get("ref", _NOTHING)
    return found


class _Faulty:
    """Hands every call on, unless a fault strikes it."""

    def __init__(self, cluster: Cluster, faults: Faults) -> None:
        self._cluster = cluster
        self._faults = faults

    def __getattr__(self, verb: str) -> Callable[..., object]:
        method: Callable[..., object] = getattr(self._cluster, verb)
        takes = signature(method)

        @wraps(method)
        def call(*args: object, **kwargs: object) -> object:
            arguments = takes.bind(*args, **kwargs).arguments
            fault = self._faults.take(verb, arguments)
            if fault is not None and (verb == "watch" or not fault.too_late):
                return _broken(fault.error) if verb == "watch" else _raise(fault.error)
            answer = method(*args, **kwargs)
            return answer if fault is None else _raise(fault.error)

        return call


def _raise(error: ClusterError) -> object:
    raise error.with_traceback(None)  # else it would keep all that was under way when it was raised


def _broken(error: ClusterError) -> Iterator[object]:
    """A watch that breaks when somebody reads it."""
    yield from ()
    raise error.with_traceback(None)
