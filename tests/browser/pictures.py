"""Pictures of pages: read, and compared with those that the documentation shows.

Strategy: letters look different on each machine, pages do not. A picture is made so small that
letters are grey, and two pictures are as far apart as many of these greys are.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]  # rows, columns, red green blue

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = {2: 3, 6: 4}  # by colour type
_CELL: Final = 20  # pixels
_FAR: Final = 0.03  # of the way from black to white


def read_png(png: bytes) -> Pixels:
    """Read a picture as Chromium writes it: eight bits a channel, not interlaced."""
    assert png.startswith(_SIGNATURE)
    at, data, header = len(_SIGNATURE), b"", b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        header = body if kind == b"IHDR" else header
        data += body if kind == b"IDAT" else b""
        at += length + 12
    width, height, depth, colours, *_, interlaced = struct.unpack(">IIBBBBB", header)
    assert (depth, interlaced) == (8, 0)
    channels = _CHANNELS[colours]
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, width * channels + 1)
    return _unfiltered(lines, channels).reshape(height, width, channels)[:, :, :3]


def _unfiltered(lines: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    found = np.zeros((len(lines) + 1, lines.shape[1] - 1), np.uint8)
    for number, line in enumerate(lines):
        above, raw = found[number], line[1:]
        match line[0]:
            case 0:
                found[number + 1] = raw
            case 1:
                pixels = raw.reshape(-1, channels).astype(np.uint64)
                found[number + 1] = (np.cumsum(pixels, axis=0) & 255).astype(np.uint8).ravel()
            case 2:
                found[number + 1] = raw + above
            case kind:
                found[number + 1] = _from_neighbours(raw, above, channels, int(kind))
    return found[1:]


def _from_neighbours(
    raw: NDArray[np.uint8], above: NDArray[np.uint8], channels: int, kind: int
) -> NDArray[np.uint8]:
    line = [0] * channels + [0] * len(raw)
    upper = [0] * channels + above.tolist()
    for index, value in enumerate(raw.tolist()):
        left, up, corner = line[index], upper[index + channels], upper[index]
        if kind == 3:
            guess = (left + up) // 2
        else:
            base = left + up - corner
            guess = min(
                (abs(base - one), order, one) for order, one in enumerate((left, up, corner))
            )[2]
        line[index + channels] = (value + guess) & 255
    return np.array(line[channels:], np.uint8)


def apart(one: Pixels, other: Pixels) -> float:
    """Return the share of cells in which two pictures of one size differ more than letters do."""
    assert one.shape == other.shape
    return float((np.abs(_cells(one) - _cells(other)) / 255 > _FAR).mean())


def _cells(pixels: Pixels) -> NDArray[np.float64]:
    height, width = (size // _CELL * _CELL for size in pixels.shape[:2])
    cells = pixels[:height, :width].reshape(height // _CELL, _CELL, width // _CELL, _CELL, 3)
    grey: NDArray[np.float64] = cells.mean(axis=(1, 3, 4))
    return grey
