"""The file of a recording: written, and read with mistrust.

Strategy: it is NumPy's `npz` with texts and numbers alone, which any NumPy reads; it is written
beside its place and moved there whole. What a file says of its arrays is checked before they are
unpacked, and what it tells must be something that a cluster could have.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from app.backtest.recording import (
    MEASURES,
    RecordedContainer,
    Recording,
    check_shape,
    check_times,
)
from app.kube.failures import cause_of
from app.model.errors import BadObject, BadSetting
from app.model.text import printable

VERSION: Final = 1
_FORMAT: Final = "plumbline recording"
_HEADER: Final = "header"
_UNITS: Final = {"cpu": "cores", "memory": "bytes"}
_LARGEST_HEADER_BYTES: Final = 1 << 16
_SHARE_OF_MEMORY: Final = 0.5
_UNKNOWN_MEMORY_BYTES: Final = float(1 << 33)
_COMPRESSIONS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others unpack without a bound
_LEAST_BYTES: Final = {"memory": 2.0**16, "memory_request": 2.0**20, "memory_limit": 2.0**20}
_STRANGE_CORES, _STRANGE_TIMES = 10.0, 100.0
_MOST_ROWS: Final = 1 << 22


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
        with suppress(OSError):  # its name may be what is wrong
            beside.unlink(missing_ok=True)
        raise BadSetting(f"{path}: cannot be written: {cause_of(error)}") from None


def load_recording(path: Path, *, is_whole: bool = True) -> Recording:
    """Read a recording from a file; a part of one may be of strange containers alone.

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
        check_times(header.get("start"), header.get("step"))
        _check_told(members)
        texts = [_array(members, name).tolist() for name in RecordedContainer._fields]
        rows = tuple(RecordedContainer(*row) for row in zip(*texts, strict=True))
        arrays = {each: _array(members, each) for each in MEASURES}
        start: Any = header.get("start")
        step: Any = header.get("step")
        recording = Recording(start, step, rows, **arrays)
        if is_whole:
            _check_units(recording)
        return recording


def _check_told(members: zipfile.ZipFile) -> None:
    """Check what a file says of its arrays, before any of them is unpacked."""
    names = (*RecordedContainer._fields, *MEASURES)
    size = sum(_member(members, name).file_size for name in names)
    if size > _memory_bytes() * _SHARE_OF_MEMORY:
        raise MemoryError
    texts = {name: _told(members, name) for name in RecordedContainer._fields}
    for name, told in texts.items():
        if len(told.shape) != 1 or told.dtype.kind != "U" or not told.dtype.itemsize:
            raise BadObject(name, "does not hold texts")
    if len({told.shape for told in texts.values()}) != 1:
        raise BadObject("rows", "the columns of names are not equally long")
    [rows] = texts["pod"].shape
    if rows > _MOST_ROWS:
        raise BadObject("rows", f"{rows} containers are more than {_MOST_ROWS}")
    columns = (*_told(members, "cpu").shape, 0, 0)[1]
    for measure in MEASURES:
        check_shape(measure, _told(members, measure), (rows, columns))


def _memory_bytes() -> float:
    """Return how much memory this machine has."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError):
        return _UNKNOWN_MEMORY_BYTES


def _check_units(recording: Recording) -> None:
    """Check whether amounts can be in their units; only of a file that may come from elsewhere."""
    for measure, least in _LEAST_BYTES.items():
        highest = np.fmax.reduce(recording.measured(measure), axis=1, initial=0.0)
        some = highest[highest > 0]
        if some.size and (usual := float(np.median(some))) < least:
            problem = f"half of the containers have at most {usual:g} bytes; is this another unit?"
            raise BadObject(measure, problem)
    used = np.fmax.reduce(recording.cpu, axis=1, initial=0.0)
    amounts = np.fmax(recording.cpu_request, recording.cpu_limit)
    given = np.fmax.reduce(amounts, axis=1, initial=0.0)
    is_given = (given > 0) & (used > 0)
    strange = is_given & (used > _STRANGE_CORES) & (used > given * _STRANGE_TIMES)
    if strange.sum() * 2 > is_given.sum():
        row = int(np.argmax(strange))
        problem = (
            f"{recording.rows[row]} uses {used[row]:g} cores where {given[row]:g} are its request "
            "or limit, and so it is with most containers; is this another unit?"
        )
        raise BadObject("cpu", problem)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file of whatever cannot be read."""
    try:
        yield
    except BadObject as error:
        raise BadSetting(f"{path}: {printable(str(error))}") from None
    except zipfile.BadZipFile:
        raise BadSetting(f"{path}: is not a recording") from None
    except OSError as error:
        raise BadSetting(f"{path}: cannot be read: {cause_of(error)}") from None
    except MemoryError:
        raise BadSetting(f"{path}: is larger than memory") from None
    except (ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        raise BadSetting(f"{path}: is damaged: {printable(str(error))}") from None


def _header(members: zipfile.ZipFile) -> Mapping[str, object]:
    try:
        is_short = _member(members, _HEADER).file_size <= _LARGEST_HEADER_BYTES
        is_short = is_short and len(_told(members, _HEADER).shape) == 1
        header = orjson.loads(_array(members, _HEADER).tobytes()) if is_short else None
    except (BadObject, orjson.JSONDecodeError):
        header = None
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise BadObject("", "is not a recording")
    if (version := header.get("version")) != VERSION:
        raise BadObject("version", f"{version} cannot be read here, only {VERSION}")
    return header


class _Told(NamedTuple):
    """What an array says of itself."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def _told(members: zipfile.ZipFile, name: str) -> _Told:
    """Return what an array says of itself, which is as much as it has."""
    with _unpacking(members, name) as file:
        version = np.lib.format.read_magic(file)
        read = _HEADERS[version]
        shape, _, dtype = read(file, max_header_size=_LARGEST_HEADER_BYTES)
        left = _member(members, name).file_size - file.tell()
    if not dtype.hasobject and prod(shape) * dtype.itemsize != left:
        raise BadObject(name, "is damaged: it is not as long as it says")
    return _Told(shape, dtype)


_HEADERS: Final = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _array(members: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with _unpacking(members, name) as file:
        found: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        return found


@contextmanager
def _unpacking(members: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    """Open an array; whatever fails while it is read is damage."""
    member = _member(members, name)
    try:
        with members.open(member) as file:
            yield file
    except (OSError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - headers are Python, and end in all of its errors
        raise BadObject(name, f"is damaged: {error}") from None


def _member(members: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    try:
        found = members.getinfo(f"{name}.npy")
    except KeyError:
        raise BadObject(name, "is missing") from None
    if found.compress_type not in _COMPRESSIONS:
        raise BadObject(name, "is packed as NumPy does not")
    return found
