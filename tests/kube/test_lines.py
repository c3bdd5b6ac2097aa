"""Lines come one by one, packed or not."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.kube.splitting import lines
from app.model.errors import BadObject, BadSetting
from tests.cases import cases

BODY = b"one\ntwo\n\nlast"


def read(path: str) -> list[bytes]:
    """Return all lines of a file."""
    return list(lines(path, lambda _share: None))


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_lines(tmp_path: Path, packed: bool) -> None:
    """What is packed is seen by its first bytes, not by its name."""
    path = tmp_path / "events"
    path.write_bytes(gzip.compress(BODY) if packed else BODY)
    assert read(str(path)) == [b"one\n", b"two\n", b"\n", b"last"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`-` reads standard input."""
    path = tmp_path / "events"
    path.write_bytes(gzip.compress(BODY))
    with path.open("rb") as buffer:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer))
        assert len(read("-")) == 4


def test_no_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without standard input says so."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(BadSetting, match="standard input is closed"):
        read("-")


def test_missing(tmp_path: Path) -> None:
    """A file that is not there is a wrong setting."""
    with pytest.raises(BadSetting, match="No such file"):
        read(str(tmp_path / "events"))


@cases(
    "body", {"cut off": (gzip.compress(BODY * 1000)[:-20],), "garbage": (b"\x1f\x8b" + b"x" * 40,)}
)
def test_damaged(tmp_path: Path, body: bytes) -> None:
    """Damage is told after what could be read."""
    path = tmp_path / "events.gz"
    path.write_bytes(body)
    with pytest.raises(BadObject, match="damaged"):
        read(str(path))


def test_shares(tmp_path: Path) -> None:
    """While a long file is read, the share grows."""
    path = tmp_path / "events"
    path.write_bytes(b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 10_000)
    shares: list[float] = []
    with io.BytesIO() as sink:
        sink.writelines(lines(str(path), shares.append))
    assert len(shares) == 3
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[2] <= 1
