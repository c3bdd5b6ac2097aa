"""A recording: what containers used and were given, step by step, and the file that keeps it.

Strategy: a row for each container of each pod, a column for each step, an array for each measure;
NaN is what is not known. A recording checks itself, so whoever holds one need not ask again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from app.model.errors import BadObject
from app.model.times import rfc3339
from app.recommender.core.moments import SECOND, moment

Measured = NDArray[np.float32]  # a row for each container, a column for each step

_LONGEST_STEP_SECONDS: Final = 86_400
MEASURES: Final = (
    "cpu",  # cores, the mean of a step
    "memory",  # bytes, the highest working set in a step
    "cpu_request",  # cores at the end of a step; 0 is none, and so on
    "cpu_limit",
    "memory_request",  # bytes
    "memory_limit",
    "restarts",  # how many in a step
    "oom_kills",
    "throttled",  # share of the scheduler's periods in which the limit held CPU back
)
MOST: Final = {
    "cpu": 2_048.0,  # no machine has more
    "memory": 2.0**50,
    **dict.fromkeys(("cpu_request", "cpu_limit"), 2.0**20),  # more than one would write for "all"
    **dict.fromkeys(("memory_request", "memory_limit"), 2.0**60),
    **dict.fromkeys(("restarts", "oom_kills"), 1e6),  # once a second for eleven days
    "throttled": 1.0,
}
_COUNTS: Final = ("restarts", "oom_kills")
_LONGEST_NAME: Final = 253
_SHOWN_OF_NAME: Final = 60
_YEAR_2000, _YEAR_2200 = 946_684_800, 7_258_118_400


class RecordedContainer(NamedTuple):
    """A container of a pod, and the topmost controller of that pod."""

    namespace: str
    owner_kind: str  # "", and so is the name, where the owner is not known
    owner_name: str
    pod: str
    container: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}/{self.container}"


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """What containers used and were given; the steps are equally long and follow one another."""

    start: int  # seconds since 1970, when the first step begins
    step: int  # seconds
    rows: tuple[RecordedContainer, ...]
    cpu: Measured
    memory: Measured
    cpu_request: Measured
    cpu_limit: Measured
    memory_request: Measured
    memory_limit: Measured
    restarts: Measured
    oom_kills: Measured
    throttled: Measured

    def __post_init__(self) -> None:
        """Check everything.

        Raises:
            BadObject: a field does not hold what a recording holds.
        """
        check_times(self.start, self.step)
        _check_rows(self.rows)
        for measure, found in self.arrays():
            self._check(measure, found)

    @staticmethod
    def unknown(start: int, step: int, count: int, rows: Iterable[RecordedContainer]) -> Recording:
        """Return a recording of so many steps of which nothing is known yet."""
        rows = tuple(rows)
        shape = (len(rows), count)
        arrays = {each: np.full(shape, np.nan, np.float32) for each in MEASURES}
        return Recording(start, step, rows, **arrays)

    @property
    def count(self) -> int:
        """How many steps there are."""
        return int(self.cpu.shape[1])

    @property
    def end(self) -> int:
        """When the last step ends."""
        return self.start + self.step * self.count

    def part(self, first: int, last: int) -> Recording:
        """Return the steps from the first one on, up to the last one, which is left out."""
        arrays = {measure: found[:, first:last] for measure, found in self.arrays()}
        return Recording(self.start + first * self.step, self.step, self.rows, **arrays)

    def measured(self, measure: str) -> Measured:
        """Return the array of a measure."""
        found: Measured = getattr(self, measure)
        return found

    def arrays(self) -> Iterator[tuple[str, Measured]]:
        """Yield each measure with its array."""
        for measure in MEASURES:
            yield measure, self.measured(measure)

    def _check(self, measure: str, found: Measured) -> None:
        columns = self.cpu.shape[-1] if self.cpu.ndim else 0
        check_shape(measure, found, (len(self.rows), columns))
        lowest = np.fmin.reduce(found, axis=None, initial=0.0)
        highest = np.fmax.reduce(found, axis=None, initial=0.0)
        most = MOST[measure]
        if lowest < 0:
            raise BadObject(measure, f"{self._at(found < 0, found)} is negative")
        if highest > most:
            what = _TOO_MUCH[measure] if np.isfinite(highest) else "is no number"
            raise BadObject(measure, f"{self._at(found == highest, found)} {what}")
        if measure in _COUNTS and (parts := found % 1 > 0).any():
            raise BadObject(measure, f"{self._at(parts, found)} is no whole number")

    def _at(self, bad: NDArray[np.bool_], found: Measured) -> str:
        """Name the first bad amount."""
        row, column = np.argwhere(bad)[0].tolist()
        time = rfc3339(moment((self.start + column * self.step) * SECOND))
        return f"{found[row, column]:g} of {self.rows[row]} at {time}"


_TOO_MUCH: Final = {
    "cpu": "is more than a machine has; it is told in cores",
    "memory": "is more than a machine has; it is told in bytes",
    "throttled": "is no share; it is told between 0 and 1",
    **dict.fromkeys(("cpu_request", "cpu_limit"), "cannot be; it is told in cores"),
    **dict.fromkeys(("memory_request", "memory_limit"), "cannot be; it is told in bytes"),
    **dict.fromkeys(_COUNTS, "is more than there can be in a step"),
}


class _Shaped(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...


def check_shape(measure: str, found: _Shaped, wanted: tuple[int, int]) -> None:
    """Check whether an array, or what a file says of it, is as large as a measure.

    Raises:
        BadObject: it is not.
    """
    if found.dtype != np.float32 or found.shape != wanted:
        shape = " x ".join(map(str, found.shape)) or "one"
        told = f"holds {shape} of {found.dtype}, and not {wanted[0]} x {wanted[1]} of float32"
        raise BadObject(measure, told)


def check_times(start: object, step: object) -> None:
    """Check when a recording begins, and how long its steps are.

    Raises:
        BadObject: that cannot be.
    """
    if not _is_whole(start) or not _YEAR_2000 <= start < _YEAR_2200:
        raise BadObject("start", f"{start} is not the seconds since 1970 of a time after 2000")
    if not _is_whole(step) or not 1 <= step <= _LONGEST_STEP_SECONDS:
        raise BadObject("step", f"{step} is not between 1 and {_LONGEST_STEP_SECONDS} seconds")


def _is_whole(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool)


def problem_of_name(name: str) -> str:
    """Return why a text is no name that can be shown, "" if it is one."""
    if not name.isprintable():
        return f"{name[:_SHOWN_OF_NAME]!a} has characters that cannot be shown"
    if len(name) > _LONGEST_NAME:
        return f"{name[:_SHOWN_OF_NAME]}... is longer than {_LONGEST_NAME} characters"
    return ""


def _check_rows(rows: Sequence[RecordedContainer]) -> None:
    seen: dict[tuple[str, str, str], int] = {}
    for index, row in enumerate(rows):
        for key in ("namespace", "pod", "container"):
            if not getattr(row, key):
                raise BadObject(key, f"row {index} has none")
        for key, name in zip(RecordedContainer._fields, row, strict=True):
            if problem := problem_of_name(name):
                raise BadObject(key, problem)
        before = seen.setdefault((row.namespace, row.pod, row.container), index)
        if before != index:
            raise BadObject("rows", f"{before} and {index} are both container {row}")
