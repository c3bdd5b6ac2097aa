"""What is read of a recording at once: some steps of one namespace.

Strategy: a piece is as long as an answer can well be, by the number of containers that its
namespace had. One that is too much is read in halves. What was read before is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.backtest.recording import RecordedContainer, Recording

_LARGEST_ANSWER: Final = 250_000  # points of all series
_MOST_STEPS: Final = 10_000  # Prometheus answers with at most 11,000
_FEWEST_STEPS: Final = 12


@dataclass(frozen=True, slots=True)
class RecordingSpan:
    """What time a recording covers."""

    start: int  # seconds since 1970, a multiple of the step
    step: int  # seconds
    count: int  # of steps

    @property
    def end(self) -> int:
        """When the last step ends."""
        return self.time(self.count)

    def time(self, step: int) -> int:
        """Return when a step begins."""
        return self.start + step * self.step


@dataclass(frozen=True, slots=True, order=True)
class RecordingPiece:
    """Some steps of a namespace."""

    namespace: str
    first: int
    count: int

    @property
    def until(self) -> int:
        """The step before which it ends."""
        return self.first + self.count

    def cut(self, most: int) -> Iterator[RecordingPiece]:
        """Yield pieces of at most so many steps that are as much together."""
        for at in range(self.first, self.until, most):
            yield RecordingPiece(self.namespace, at, min(most, self.until - at))

    def halves(self) -> Sequence[RecordingPiece]:
        """Return two pieces that are as much together; none if it is one step."""
        half = self.count // 2
        if not half:
            return ()
        return (
            RecordingPiece(self.namespace, self.first, half),
            RecordingPiece(self.namespace, self.first + half, self.count - half),
        )


@dataclass(slots=True)
class NamespaceSizes:
    """How many containers a namespace had, as counted at some steps over some before them."""

    over: int  # so many steps, which end with the step of the count
    counts: dict[int, int] = field(default_factory=dict)  # by the step before which they were

    @property
    def most(self) -> int:
        """How many there were at once, or nearly so."""
        return max(self.counts.values(), default=1)

    def least(self, piece: RecordingPiece) -> int:
        """Return how many containers a piece has at least."""
        firsts = range(piece.first + self.over, piece.until + 1)
        return max((self.counts[at] for at in self.counts if at in firsts), default=0)


def planned_pieces(
    sizes: Mapping[str, NamespaceSizes], steps: int, done: Iterable[RecordingPiece]
) -> list[RecordingPiece]:
    """Return what is to be read."""
    covered: dict[str, list[RecordingPiece]] = {}
    for piece in done:
        covered.setdefault(piece.namespace, []).append(piece)
    return [
        piece
        for namespace, size in sorted(sizes.items())
        for first, until in _gaps(steps, covered.get(namespace, ()))
        for piece in _cut(namespace, first, until, size.most)
    ]


def _gaps(steps: int, done: Iterable[RecordingPiece]) -> Iterator[tuple[int, int]]:
    """Yield from which step until which one nothing was read yet."""
    first = 0
    for piece in sorted(done):
        if piece.first > first:
            yield first, piece.first
        first = max(first, piece.until)
    if first < steps:
        yield first, steps


def _cut(namespace: str, first: int, until: int, containers: int) -> Iterator[RecordingPiece]:
    most = min(max(_LARGEST_ANSWER // max(containers, 1), _FEWEST_STEPS), _MOST_STEPS)
    yield from RecordingPiece(namespace, first, until - first).cut(most)


def joined(span: RecordingSpan, parts: Callable[[], Iterable[Recording]]) -> Recording:
    """Return one recording of all parts; what none of them knows stays unknown.

    Two parts may have steps of the same container; the owner that is known last counts. Parts are
    asked for twice, so that no more than one of them need be in memory.
    """
    owners: dict[tuple[str, str, str], RecordedContainer] = {}
    for part in parts():
        for row in part.rows:
            key = (row.namespace, row.pod, row.container)
            if row.owner_kind or key not in owners:
                owners[key] = row
    keys = sorted(owners)
    rows = {key: index for index, key in enumerate(keys)}
    found = Recording.unknown(span.start, span.step, span.count, (owners[key] for key in keys))
    for part in parts():
        first = (part.start - span.start) // span.step
        lines = [rows[row.namespace, row.pod, row.container] for row in part.rows]
        for measure, values in part.arrays():
            found.measured(measure)[lines, first : first + part.count] = values
    return found
