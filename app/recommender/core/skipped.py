"""Objects skipped because our own code failed at them, so that each of them costs only itself.

    for pod in pods:
        with skipped.guard("pod", pod.namespace, pod.name):
            see(pod)

Strategy: what failed is kept with its name, to be logged later. Mistakes of users and servers do
not belong here: they have errors of their own. A name is put together only where it is needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

_MOST_KEPT: Final = 1_000


def _joined(*parts: str) -> str:
    return "/".join(parts)


@dataclass(frozen=True, slots=True, eq=False)
class SkippedObject:
    """An object that was skipped because of a bug."""

    kind: str
    name: str
    error: Exception


class SkippedObjects:
    """What was left out since it was last asked."""

    def __init__(self) -> None:
        self._met: deque[SkippedObject] = deque(maxlen=_MOST_KEPT)

    def guard(self, kind: str, *parts: object, name: Callable[..., str] = _joined) -> _Guard:
        """Return a context in which a failure is kept; `name` names the object by these parts."""
        return _Guard(self._met, kind, parts, name)

    def taken(self) -> list[SkippedObject]:
        """Return, once, what was left out."""
        return [self._met.popleft() for _ in range(len(self._met))]


@dataclass(slots=True)
class _Guard:
    """A block of code about one object, whose failure ends nothing but the block."""

    met: deque[SkippedObject]
    kind: str
    parts: tuple[object, ...]
    name: Callable[..., str]

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: object, _trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        named = "?"
        with suppress(Exception):  # the object may be broken too
            named = self.name(*self.parts)
        self.met.append(SkippedObject(self.kind, named, error))
        return True
