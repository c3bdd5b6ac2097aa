"""A recording: what containers used and were given, step by step, and the file that keeps it.

Strategy: a row for each container of each pod, a column for each step, an array for each measure;
NaN is what is not known. A recording checks itself, so whoever holds one need not ask again. The
file is NumPy's `npz` with texts and numbers alone, which any NumPy reads; it is written beside its
place and moved there whole.
"""

from __future__ import annotations

import lzma
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from app.kube.failures import cause_of
from app.model.errors import BadObject, BadSetting
from app.model.times import rfc3339
from app.recommender.core.moments import SECOND, moment

Measured = NDArray[np.float32]  # a row for each container, a column for each step

VERSION: Final = 1
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
_UNITS: Final = {"cpu": "cores", "memory": "bytes"}
_FORMAT: Final = "plumbline recording"
_HEADER: Final = "header"
_MOST_CORES, _MOST_BYTES = 2_048.0, 2.0**50  # no machine has more
_MOST_REQUESTED: Final = 1_000.0  # times that; some request what no machine has
MOST: Final = {
    "cpu": _MOST_CORES,
    "memory": _MOST_BYTES,
    "throttled": 1.0,
    "cpu_request": _MOST_CORES * _MOST_REQUESTED,
    "cpu_limit": _MOST_CORES * _MOST_REQUESTED,
    "memory_request": _MOST_BYTES * _MOST_REQUESTED,
    "memory_limit": _MOST_BYTES * _MOST_REQUESTED,
    "restarts": 1e6,
    "oom_kills": 1e6,
}
_COUNTS: Final = ("restarts", "oom_kills")
_MOST_CELLS: Final = 2**28  # containers times steps; a measure of so many takes 1 GiB
_MOST_NAMES_BYTES: Final = 2**28
_MOST_HEADER_BYTES: Final = 2**16
_PAGE_BYTES: Final = 4_096.0
_DAMAGED: Final = (  # what zipfile, its decompressors and NumPy's headers raise
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, SyntaxError, EOFError),
    *(RuntimeError, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError),
)
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
        _check_times(self.start, self.step)
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
        wanted = (len(self.rows), self.cpu.shape[-1] if self.cpu.ndim else 0)
        if found.dtype != np.float32 or found.ndim != 2 or found.shape != wanted:
            shape = " x ".join(map(str, found.shape))
            told = f"holds {shape} of {found.dtype}, and not {wanted[0]} x {wanted[1]} of float32"
            raise BadObject(measure, told)
        lowest = np.fmin.reduce(found, axis=None, initial=0.0)
        highest = np.fmax.reduce(found, axis=None, initial=0.0)
        most = MOST[measure]
        if lowest < 0:
            raise BadObject(measure, f"{self._at(found < 0, found)} is negative")
        if highest > most:
            what = _TOO_MUCH.get(measure, "is more than can be")
            raise BadObject(measure, f"{self._at(found > most, found)} {what}")
        if measure in _COUNTS and (bad := (found % 1 > 0)).any():
            raise BadObject(measure, f"{self._at(bad, found)} is no whole number")

    def _at(self, bad: NDArray[np.bool_], found: Measured) -> str:
        """Name the first bad amount."""
        row, column = np.argwhere(bad)[0].tolist()
        time = rfc3339(moment((self.start + column * self.step) * SECOND))
        return f"{found[row, column]:g} of {self.rows[row]} at {time}"


_TOO_MUCH: Final = {
    "cpu": "is more than a machine has; it is told in cores",
    "memory": "is more than a machine has; it is told in bytes",
    "throttled": "is no share; it is told between 0 and 1",
}


def _check_times(start: object, step: object) -> None:
    if type(start) is not int or not _YEAR_2000 <= start < _YEAR_2200:
        raise BadObject("start", f"{start} is not the seconds since 1970 of a time after 2000")
    if type(step) is not int or not 1 <= step <= _LONGEST_STEP_SECONDS:
        raise BadObject("step", f"{step} is not between 1 and {_LONGEST_STEP_SECONDS} seconds")


def _check_rows(rows: Sequence[RecordedContainer]) -> None:
    seen: dict[tuple[str, str, str], int] = {}
    for index, row in enumerate(rows):
        for key in ("namespace", "pod", "container"):
            if not getattr(row, key):
                raise BadObject(key, f"row {index} has none")
        if not "".join(row).isprintable():
            raise BadObject("rows", f"{index} has a name that cannot be printed: {str(row)!a}")
        before = seen.setdefault((row.namespace, row.pod, row.container), index)
        if before != index:
            raise BadObject("rows", f"{before} and {index} are both container {row}")


# --- the file


def save_recording(recording: Recording, path: Path) -> None:
    """Write a recording to a file.

    Raises:
        BadSetting: it cannot be written there.
    """
    header = {
        "format": _FORMAT,
        "version": VERSION,
        "start": recording.start,
        "step": recording.step,
        "units": _UNITS,
    }
    texts = {
        name: np.array([row[index] for row in recording.rows], dtype=np.str_)
        for index, name in enumerate(RecordedContainer._fields)
    }
    arrays: dict[str, Any] = dict(recording.arrays())
    arrays |= texts | {_HEADER: np.frombuffer(orjson.dumps(header), np.uint8)}
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            np.savez_compressed(file, **arrays)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise BadSetting(f"{path}: cannot be written: {cause_of(error)}") from None


def load_recording(path: Path) -> Recording:
    """Read a recording from a file.

    Raises:
        BadSetting: it cannot be read, or what it holds is not one.
    """
    with _naming(path), path.open("rb") as file, zipfile.ZipFile(file) as members:
        header = _header(members)
        units = header.get("units")
        for what, unit in _UNITS.items():
            found = units.get(what) if isinstance(units, dict) else None
            if found != unit:
                raise BadObject("units", f"{what} is told in {found}, and not in {unit}")
        _check_sizes(members)
        texts = [_texts(members, name) for name in RecordedContainer._fields]
        if len({len(each) for each in texts}) != 1:
            raise BadObject("rows", "the columns of names are not equally long")
        rows = tuple(RecordedContainer(*row) for row in zip(*texts, strict=True))
        arrays = {each: _array(members, each) for each in MEASURES}
        start: Any = header.get("start")
        step: Any = header.get("step")
        found = Recording(start, step, rows, **arrays)
        _check_unit(found.memory)
        return found


def _check_unit(memory: Measured) -> None:
    """Check whether memory can be in bytes; only of a file that may come from elsewhere."""
    highest = float(np.fmax.reduce(memory, axis=None, initial=0.0))
    if 0 < highest < _PAGE_BYTES:
        problem = f"nothing uses more than {highest:g} bytes; is this another unit?"
        raise BadObject("memory", problem)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file of whatever cannot be read."""
    try:
        yield
    except zipfile.BadZipFile:
        raise BadSetting(f"{path}: is not a recording") from None
    except OSError as error:
        raise BadSetting(f"{path}: cannot be read: {cause_of(error)}") from None
    except BadObject as error:
        raise BadSetting(f"{path}: {error}") from None
    except MemoryError:
        raise BadSetting(f"{path}: is larger than memory") from None
    except _DAMAGED as error:
        raise BadSetting(f"{path}: is damaged: {type(error).__name__}: {error}") from None


def _header(members: zipfile.ZipFile) -> Mapping[str, object]:
    sizes = {one.filename: one.file_size for one in members.infolist()}
    if sizes.get(f"{_HEADER}.npy", 0) > _MOST_HEADER_BYTES:
        raise BadObject("", "is not a recording")
    try:
        header = orjson.loads(_array(members, _HEADER).tobytes())
    except (BadObject, orjson.JSONDecodeError):
        header = None
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise BadObject("", "is not a recording")
    if (version := header.get("version")) != VERSION:
        raise BadObject("version", f"{version} cannot be read here, only {VERSION}")
    return header


def _check_sizes(members: zipfile.ZipFile) -> None:
    """Refuse what would need much memory for nothing, by what the file says of itself alone."""
    names, most = [f"{name}.npy" for name in RecordedContainer._fields], _MOST_NAMES_BYTES
    for one in members.infolist():
        if one.filename in names and one.file_size > most:
            raise BadObject(one.filename, f"has {one.file_size} bytes of names, of {most} at most")
    shapes = {measure: _shape(members, measure) for measure in MEASURES}
    for measure, shape in shapes.items():
        if shape != shapes["cpu"] or len(shape) != 2 or shape[0] * shape[1] > _MOST_CELLS:
            told = " x ".join(map(str, shape)) or "one number"
            raise BadObject(measure, f"holds {told}, which no recording does")


def _shape(members: zipfile.ZipFile, name: str) -> tuple[int, ...]:
    """Return what a member says it holds, without reading it."""
    try:
        info = members.getinfo(f"{name}.npy")
    except KeyError:
        raise BadObject(name, "is missing") from None
    with members.open(info) as file:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
            version, np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(file)
        if file.tell() + int(np.prod(shape, dtype=object)) * dtype.itemsize != info.file_size:
            raise BadObject(name, "does not hold what its header says")
    return tuple(shape)


def _texts(members: zipfile.ZipFile, name: str) -> list[str]:
    found = _array(members, name)
    if found.ndim != 1 or found.dtype.kind != "U":
        raise BadObject(name, "does not hold texts")
    return [str(each) for each in found.tolist()]


def _array(members: zipfile.ZipFile, name: str) -> NDArray[Any]:
    try:
        file = members.open(f"{name}.npy")
    except KeyError:
        raise BadObject(name, "is missing") from None
    with file:
        return np.lib.format.read_array(file, allow_pickle=False)
