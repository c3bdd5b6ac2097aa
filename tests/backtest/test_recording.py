"""Recordings check themselves, and are the same after a file."""

from __future__ import annotations

import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from app.backtest.recording import MEASURES, RecordedContainer, Recording
from app.backtest.recording_file import load_recording, save_recording
from app.model.errors import BadObject, BadSetting
from tests.backtest.recordings import START, STEP, WEB, recording
from tests.cases import cases

Array = NDArray[Any]

STRAY = RecordedContainer("shop", "", "", "stray", "app")


def saved(path: Path, **changed: Array | None) -> Path:
    """Write a recording of which some arrays of the file are others; None leaves one out."""
    save_recording(recording(cpu=1.0), path)
    with np.load(path) as file:
        arrays = dict(file)
    arrays |= {name: array for name, array in changed.items() if array is not None}
    gone = {name for name, array in changed.items() if array is None}
    with path.open("wb") as opened:
        kept: Any = {key: array for key, array in arrays.items() if key not in gone}
        np.savez(opened, **kept)
    return path


def npy_header(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    """Return the first bytes of an array that says to be so large."""
    told = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(told).to_bytes(2, "little") + told.encode()


def rewritten(path: Path, changed: Mapping[str, bytes], packed: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write a recording of which some members are other bytes."""
    save_recording(recording(cpu=1.0), path)
    with zipfile.ZipFile(path) as members:
        found = {name: members.read(name) for name in members.namelist()}
    with zipfile.ZipFile(path, "w", packed) as members:
        for name, content in {**found, **changed}.items():
            members.writestr(name, content)
    return path


def header(**told: object) -> Array:
    """Return the header of a file."""
    found = {
        "format": "plumbline recording",
        "version": 1,
        "start": START,
        "step": STEP,
        "units": {"cpu": "cores", "memory": "bytes"},
    }
    return np.frombuffer(orjson.dumps(found | told), np.uint8)


def test_a_file_keeps_everything(tmp_path: Path) -> None:
    """What is read is what was written, and what was not known still is not."""
    ramp = np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4)
    told: dict[str, Any] = {
        each: np.rint(ramp * 9) * 2.0**30 if "memory" in each else np.rint(ramp * 9) / 9
        for each in MEASURES
        if each != "memory"
    } | dict.fromkeys(("restarts", "oom_kills"), np.rint(ramp * 9))
    given = recording((WEB, STRAY), **told)
    given.memory[0, 2] = 2.0**30
    path = tmp_path / "shop.npz"

    save_recording(given, path)
    found = load_recording(path)

    assert (found.start, found.step, found.count, found.rows) == (START, STEP, 4, (WEB, STRAY))
    assert found.end == START + 4 * STEP
    for each in MEASURES:
        np.testing.assert_array_equal(found.measured(each), given.measured(each))
    assert list(tmp_path.iterdir()) == [path]


def test_an_empty_recording_is_one(tmp_path: Path) -> None:
    """A recording without containers is kept too."""
    save_recording(recording(()), tmp_path / "none.npz")
    assert load_recording(tmp_path / "none.npz").rows == ()


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        ({"cpu": [1, -0.5, 1, 1]}, r"cpu: -0.5 of shop/web-1/app at 2026-01-05T10:05:00Z is neg"),
        ({"restarts": -1}, r"restarts: -1 of .* is negative"),
        ({"cpu": 250_000}, r"cpu: 250000 of .* is more than a machine has; it is told in cores"),
        ({"memory": 2.0**60}, r"memory: .* is more than a machine has; it is told in bytes"),
        ({"throttled": 40}, r"throttled: 40 of .* is no share; it is told between 0 and 1"),
        ({"cpu_limit": np.inf}, r"cpu_limit: inf of .* is no number"),
        ({"cpu_request": 1e30}, r"cpu_request: 1e\+30 of .* cannot be; it is told in cores"),
        ({"memory_limit": 3e38}, r"memory_limit: 3e\+38 of .* cannot be; it is told in bytes"),
        ({"oom_kills": 1e30}, r"oom_kills: 1e\+30 of .* is more than there can be in a step"),
        ({"oom_kills": 0.5}, r"oom_kills: 0.5 of .* is no whole number"),
        ({"restarts": [1, np.nan, 2.25, 0]}, r"restarts: 2.25 of .* is no whole number"),
    ],
)
def test_amounts_that_cannot_be(measured: dict[str, Any], said: str) -> None:
    """An amount that makes no sense is named, with its field, container and time."""
    given = recording(**measured)
    with pytest.raises(BadObject, match=said):
        replace(given)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: replace(one, start=1_767_607_200_000), "start: .* seconds since 1970"),
        (lambda one: replace(one, start=1.5), "start: 1.5 is not"),
        (lambda one: replace(one, step=0), "step: 0 is not between 1 and 86400 seconds"),
        (lambda one: replace(one, step=None), "step: None is not"),
        (lambda one: replace(one, step=True), "step: True is not"),
        (lambda one: replace(one, cpu=np.float32(1)), "cpu: holds one of float32, and not 1 x 0"),
        (lambda one: replace(one, rows=(WEB, WEB)), "rows: 0 and 1 are both container shop/web-1"),
        (lambda one: replace(one, rows=(WEB._replace(pod=""),)), "pod: row 0 has none"),
        (lambda one: replace(one, rows=(WEB, STRAY)), "cpu: holds 1 x 4 of float32, and not 2 x 4"),
        (lambda one: replace(one, memory=one.memory[:, 1:]), "memory: holds 1 x 3 .* not 1 x 4"),
        (lambda one: replace(one, cpu=one.cpu[0]), "cpu: holds 4 of float32, and not 1 x 4"),
        (lambda one: replace(one, cpu=one.cpu.astype(np.float64)), "cpu: holds 1 x 4 of float64"),
    ],
)
def test_fields_that_cannot_be(change: Callable[[Recording], Recording], said: str) -> None:
    """A recording that is not one is never made."""
    with pytest.raises(BadObject, match=said):
        change(recording())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"header": None}, "is not a recording"),
        ({"header": np.zeros(3)}, "is not a recording"),
        ({"header": header(format="of sound")}, "is not a recording"),
        ({"header": header(version=9)}, "version: 9 cannot be read here, only 1"),
        ({"header": header(units={"cpu": "millicores"})}, "cpu is told in millicores, and not in"),
        ({"header": header(units={"cpu": "\x1b[31m"})}, r"cpu is told in \[31m, and not in"),
        ({"header": header(units=None)}, "units: cpu is told in None"),
        ({"header": header(start="then")}, "start: then is not the seconds"),
        ({"throttled": None}, "throttled: is missing"),
        ({"pod": None}, "pod: is missing"),
        ({"pod": np.zeros(1)}, "pod: does not hold texts"),
        ({"pod": np.array(["a", "b"])}, "rows: the columns of names are not equally long"),
        ({"pod": np.array(["web\x1b[31m"])}, r"pod: 'web\\x1b\[31m' has characters that cannot"),
        ({"owner_name": np.array(["web\nX: 9"])}, "owner_name: .* has characters that cannot be"),
        ({"namespace": np.array(["\ud800"])}, r"namespace: '\\ud800' has characters that cannot"),
        ({"container": np.array(["a" * 5_000])}, r"container: a{60}\.\.\. is longer than 253"),
        ({"cpu": np.array([{}], dtype=object)}, "cpu: holds 1 of object, and not 1 x 0 of float"),
        ({"cpu": np.array(1, np.float32)}, "cpu: holds one of float32"),
        ({"throttled": np.zeros((1, 5), np.float32)}, "throttled: holds 1 x 5 .* not 1 x 4"),
        ({"cpu": np.full((1, 4), -1, np.float32)}, "cpu: -1 of .* is negative"),
        (
            {"memory": np.full((1, 4), 6000, np.float32)},
            "memory: half .* at most 6000 bytes; is this",
        ),
        ({"memory_request": np.full((1, 4), 512, np.float32)}, "memory_request: half .* 512 bytes"),
        (
            {"cpu": np.full((1, 4), 200, np.float32), "cpu_limit": np.ones((1, 4), np.float32)},
            "cpu: shop/web-1/app uses 200 cores where 1 are its request or limit.* another unit",
        ),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, changed: dict[str, Array | None], said: str
) -> None:
    """A sentence names the file and what is wrong in it."""
    path = saved(tmp_path / "bad.npz", **changed)
    with pytest.raises(BadSetting, match=rf"bad\.npz: .*{said}"):
        load_recording(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a recording"),
        (b'{"time":"2026-01-05T10:01:00Z"}\n', "is not a recording"),
        (None, "cannot be read: no such file"),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, content: bytes | None, said: str) -> None:
    """A file of another kind is no recording."""
    path = tmp_path / "bad.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadSetting, match=said):
        load_recording(path)


def test_a_file_that_is_cut_or_changed(tmp_path: Path) -> None:
    """Part of a file is no recording, and a byte that changed is noticed."""
    path = tmp_path / "cut.npz"
    save_recording(recording(count=500, cpu=np.linspace(0, 1, 500)), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadSetting, match="is not a recording"):
        load_recording(path)
    at = whole.index(b"cpu.npy") + 200
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
    with pytest.raises(BadSetting, match=r"cut\.npz: .*is damaged"):
        load_recording(path)


@cases(
    "name content said",
    {
        "a size that no number holds": ("cpu", npy_header((10**20,)), "cpu: is damaged: "),
        "a size that is not there": (
            "cpu",
            npy_header((1, 4 * 10**9)),
            "cpu: is damaged: it is not",
        ),
        "names that are not there": (
            "pod",
            npy_header((10**9,), "<U9"),
            "pod: is damaged: it is not",
        ),
        "names of no length": ("pod", npy_header((10**9,), "<U0"), "pod: does not hold texts"),
        "a header of no size": ("header", npy_header((4 * 10**9,), "|u1"), "is not a recording"),
        "a header that is no Python": (
            "cpu",
            b"\x93NUMPY\x01\x00\x06\x00{[\n  ",
            "cpu: is damaged: ",
        ),
        "a later form": ("cpu", b"\x93NUMPY\x09\x00", "cpu: is damaged: "),
        "nothing": ("cpu", b"", "cpu: is damaged: "),
    },
)
def test_arrays_that_are_none(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    """What is wrong with one array of a file is told with its name."""
    path = rewritten(tmp_path / "bad.npz", {f"{name}.npy": content})
    with pytest.raises(BadSetting, match=rf"bad\.npz: {said}"):
        load_recording(path)


@cases(
    "name kind",
    {
        "of a measure": ("cpu", "<f4"),
        "of a header": ("header", "|u1"),
        "of names": ("pod", "<U100"),
    },
)
def test_bombs(tmp_path: Path, name: str, kind: str) -> None:
    """A small file that would fill memory is refused before it is unpacked."""
    many = 80_000_000 // np.dtype(kind).itemsize
    content = npy_header((many,), kind) + bytes(80_000_000)
    path = rewritten(tmp_path / "bomb.npz", {f"{name}.npy": content})
    del content
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(BadSetting, match=r"bomb\.npz: "):
            load_recording(path)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_packed_otherwise(tmp_path: Path) -> None:
    """A way of packing that unpacks without a bound is refused."""
    path = rewritten(tmp_path / "bad.npz", {}, zipfile.ZIP_LZMA)
    with pytest.raises(BadSetting, match=r"bad\.npz: is not a recording"):
        load_recording(path)


@pytest.mark.parametrize("seed", range(8))
def test_bytes_that_changed(tmp_path: Path, seed: int) -> None:
    """Whatever bytes of a file change, it is read or named in a sentence."""
    path, dice = tmp_path / "shop.npz", Random(seed)
    save_recording(recording(cpu=1.0, memory=2.0**28), path)
    whole = path.read_bytes()
    for _ in range(100):
        changed = bytearray(whole)
        for _ in range(dice.choice((1, 3))):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        path.write_bytes(changed)
        with suppress(BadSetting):
            load_recording(path)


def test_a_name_that_is_too_long_for_a_file(tmp_path: Path) -> None:
    """A file that cannot even be removed is named as well."""
    with pytest.raises(BadSetting, match="cannot be written: "):
        save_recording(recording(), tmp_path / f"{'n' * 300}.npz")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that does not exist is named."""
    with pytest.raises(BadSetting, match="cannot be written: no such file"):
        save_recording(recording(), tmp_path / "none" / "shop.npz")
