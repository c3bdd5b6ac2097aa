"""Results that are kept for equal pods.

Strategy: a result is valid for one version of an object, so it is kept by a weak reference to
that version and goes with it: neither old VPAs nor those that were deleted stay in memory because
a pod was once sized by them. What is kept in all is bounded by its bytes, roughly; when that is
reached everything is forgotten, which costs one computation for each kind of pod.
"""

from __future__ import annotations

from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

_MOST_OF_ALL = 16  # what takes more than this part is not kept

T = TypeVar("T")
K = TypeVar("K", bound=object)


class Remembered(Generic[K, T]):
    """Results by version and key; several threads may use it."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0  # what versions that are gone had counts on until all is forgotten
        self._kept: WeakKeyDictionary[K, tuple[object, dict[bytes, T]]] = WeakKeyDictionary()

    def get(self, version: K, valid_with: object, key: bytes) -> T | None:
        """Return a result, if it was kept for this version and the same object beside it."""
        kept = self._kept.get(version)
        return kept[1].get(key) if kept is not None and kept[0] is valid_with else None

    def keep(self, version: K, valid_with: object, key: bytes, result: T, size_bytes: int) -> None:
        """Keep a result, unless it is a good part of all that may be kept."""
        if size_bytes > self._most_bytes // _MOST_OF_ALL:
            return
        self._bytes += size_bytes
        if self._bytes > self._most_bytes:
            self._kept, self._bytes = WeakKeyDictionary(), size_bytes
        kept = self._kept.get(version)
        if kept is None or kept[0] is not valid_with:
            kept = self._kept[version] = valid_with, {}
        kept[1][memoryview(key).tobytes()] = result  # bytes from orjson take 4 KB, however few
