"""Lines of a file that may be long, one after the other.

Strategy: nothing but the line at hand is in memory, so the size does not matter. Whether the
file is packed by gzip is seen by its first bytes, whatever its name.
"""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG
from typing import Final, cast

from app.kube.files import STDIN
from app.model.errors import BadObject, BadSetting

_GZIP: Final = b"\x1f\x8b"
_STRIDE: Final = 4096  # lines between two reports


def lines(path: str, told: Callable[[float], None]) -> Iterator[bytes]:
    """Yield the lines of a file, of standard input for `-`; tell which share of it is read.

    Raises:
        BadSetting: there is no such file, or it may not be read.
        BadObject: it is damaged from here on.
    """
    if path == STDIN and sys.stdin is None:
        raise BadSetting("standard input is closed")
    with ExitStack() as stack:
        try:
            file = sys.stdin.buffer if path == STDIN else stack.enter_context(Path(path).open("rb"))
            packed = cast("BufferedReader", file)
            is_packed = packed.peek(2).startswith(_GZIP)
        except OSError as error:
            raise BadSetting(f"{path}: {error.strerror or error}") from None
        try:
            yield from _told(gzip.GzipFile(fileobj=packed) if is_packed else packed, packed, told)
        except (OSError, EOFError, zlib.error) as error:
            raise BadObject("", f"damaged: {error}") from None


def _told(
    found: Iterable[bytes], packed: BufferedReader, told: Callable[[float], None]
) -> Iterator[bytes]:
    size = _size(packed)
    for number, line in enumerate(found):
        yield line
        if size and not number % _STRIDE:
            told(packed.tell() / size)


def _size(file: BufferedReader) -> int:
    """Return the bytes of a file, 0 for a pipe."""
    found = os.fstat(file.fileno())
    return found.st_size if S_ISREG(found.st_mode) else 0
