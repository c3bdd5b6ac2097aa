"""Objects at which our own code failed, so that each of them costs only itself.

Strategy: whoever takes objects one by one does so by `each`; what failed is kept with its name,
for whoever may log. It is no place for what users and servers do wrong: that has errors of its
own. A loop is left and entered again only where something fails, so it costs next to nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_MOST_KEPT: Final = 1_000


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

    def each(
        self,
        kind: str,
        things: Iterable[T],
        name: Callable[[T], str],
        act: Callable[[T], R],
    ) -> list[R]:
        """Return what comes of each thing, without those at which `act` fails."""
        waiting, found = deque(things), list[R]()
        while waiting:
            failure = _Failure()
            with failure:
                while waiting:
                    found.append(act(waiting[0]))
                    waiting.popleft()
            if failure.error is not None:
                self._note(kind, partial(name, waiting.popleft()), failure.error)
        return found

    def _note(self, kind: str, name: Callable[[], str], error: Exception) -> None:
        named = "?"
        with _Failure():  # whatever is wrong with it
            named = name()
        self._met.append(Mishap(kind, named, error))

    def taken(self) -> list[Mishap]:
        """Return, once, what was left out."""
        return [self._met.popleft() for _ in range(len(self._met))]


class _Failure:
    """What ended a block, which is no reason to end more."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: object, _trace: object) -> bool:
        self.error = error if isinstance(error, Exception) else None
        return self.error is not None
