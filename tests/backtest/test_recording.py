"""Recordings check themselves, and are the same after a file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from app.backtest.recording import (
    MEASURES,
    RecordedContainer,
    Recording,
    load_recording,
    save_recording,
)
from app.model.errors import BadObject, BadSetting
from tests.backtest.recordings import START, STEP, WEB, recording

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
    told: dict[str, Any] = {each: ramp for each in MEASURES if each != "memory"}
    given = recording((WEB, STRAY), **told)
    given.memory[0, 2] = 2.0**30
    given.restarts[:], given.oom_kills[:] = np.rint(ramp * 5), np.rint(ramp)
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
        ({"cpu_limit": np.inf}, r"cpu_limit: inf of .* is more than can be"),
        ({"memory_request": 3e38}, r"memory_request: 3e\+38 of .* is more than can be"),
        ({"oom_kills": 1e30}, r"oom_kills: 1e\+30 of .* is more than can be"),
        ({"oom_kills": 0.5}, r"oom_kills: 0.5 of .* is no whole number"),
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
        (lambda one: replace(one, cpu=np.array(1, np.float32)), "cpu: holds  of float32"),
        (lambda one: replace(one, rows=(WEB._replace(pod="a\x1b[31m"),)), "rows: 0 has a name"),
        (lambda one: replace(one, rows=(WEB._replace(pod="\ud800"),)), "rows: 0 has a name"),
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
        ({"header": header(units=None)}, "units: cpu is told in None"),
        ({"header": header(start="then")}, "start: then is not the seconds"),
        ({"throttled": None}, "throttled: is missing"),
        ({"pod": None}, "pod: is missing"),
        ({"pod": np.zeros(1)}, "pod: does not hold texts"),
        ({"pod": np.array(["a", "b"])}, "rows: the columns of names are not equally long"),
        ({"cpu": np.array([{}], dtype=object)}, "cpu: does not hold what its header says"),
        ({"cpu": np.zeros(3, np.float32)}, "cpu: holds 3, which no recording does"),
        ({"memory": np.array(1, np.float32)}, "memory: holds one number, which no recording does"),
        ({"cpu": np.full((1, 4), -1, np.float32)}, "cpu: -1 of .* is negative"),
        ({"memory": np.full((1, 4), 512, np.float32)}, "nothing uses more than 512 bytes; is this"),
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


def written(path: Path, **members: bytes) -> Path:
    """Write a recording some of whose members are other bytes."""
    save_recording(recording(), path)
    with zipfile.ZipFile(path) as file:
        found = {name: file.read(name) for name in file.namelist()}
    found |= {f"{name}.npy": content for name, content in members.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in found.items():
            file.writestr(name, content)
    return path


def npy(text: str) -> bytes:
    """Return the beginning of an array that says something of itself."""
    return b"\x93NUMPY\x01\x00v\x00" + text.encode().ljust(117) + b"\n"


HUGE = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4000000000), }"


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"cpu": b"xx"}, "is damaged"),
        ({"cpu": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (10")}, "is damaged"),
        ({"cpu": npy(HUGE)}, "cpu: does not hold what its header says"),
        ({"header": bytes(70_000)}, "is not a recording"),
    ],
)
def test_members_that_are_none(tmp_path: Path, members: dict[str, bytes], said: str) -> None:
    """What a file says of itself is read first, and whatever is wrong is a sentence."""
    path = written(tmp_path / "bad.npz", **members)
    with pytest.raises(BadSetting, match=rf"bad\.npz: .*{said}"):
        load_recording(path)


def test_a_bomb(tmp_path: Path) -> None:
    """A small file that would need much memory is refused before that."""
    names = np.array(["a"], dtype="U80000000")
    buffer = io.BytesIO()
    np.save(buffer, names)
    path = written(tmp_path / "bad.npz", pod=buffer.getvalue())
    assert path.stat().st_size < 2**20
    with pytest.raises(BadSetting, match=r"pod\.npy: has 320000128 bytes of names"):
        load_recording(path)


@pytest.mark.parametrize("seed", range(200))
def test_any_byte_may_be_another(tmp_path: Path, seed: int) -> None:
    """A file is read, or a sentence says that it cannot be."""
    dice, path = Random(seed), tmp_path / "bad.npz"
    save_recording(recording(), path)
    content = bytearray(path.read_bytes())
    content[dice.randrange(len(content))] ^= dice.randrange(1, 256)
    path.write_bytes(content)
    with suppress(BadSetting):
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
    with pytest.raises(BadSetting, match=r"cut\.npz: is "):
        load_recording(path)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that does not exist is named."""
    with pytest.raises(BadSetting, match="cannot be written: no such file"):
        save_recording(recording(), tmp_path / "none" / "shop.npz")
