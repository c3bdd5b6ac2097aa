"""Objects at which our own code failed, so that each of them costs only itself.

    for pod in pods:
        with mishaps.guard("pod", pod.namespace, pod.name):
            tell(pod)

Strategy: what failed is kept with its name, for whoever may log. It is no place for what users
and servers do wrong: that has errors of its own. A name is put together only where it is needed.
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
class Mishap:
    """An object that was left out, by a defect of ours."""

    kind: str
    name: str
    error: Exception


class Mishaps:
    """What was left out since it was last asked."""

    def __init__(self) -> None:
        self._met: deque[Mishap] = deque(maxlen=_MOST_KEPT)

    def guard(self, kind: str, *parts: object, name: Callable[..., str] = _joined) -> Guard:
        """Return a context in which a failure is kept; `name` names the object by these parts."""
        return Guard(self._met, kind, parts, name)

    def taken(self) -> list[Mishap]:
        """Return, once, what was left out."""
        return [self._met.popleft() for _ in range(len(self._met))]


class Guard:
    """A block of code about one object, whose failure ends nothing but the block."""

    __slots__ = ("_kind", "_met", "_name", "_parts")

    def __init__(
        self, met: deque[Mishap], kind: str, parts: tuple[object, ...], name: Callable[..., str]
    ) -> None:
        self._met = met
        self._kind = kind
        self._parts = parts
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: object, _trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        named = "?"
        with suppress(Exception):  # whatever is wrong with it
            named = self._name(*self._parts)
        self._met.append(Mishap(self._kind, named, error))
        return True
