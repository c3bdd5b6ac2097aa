"""The folder in which several processes add up their metrics."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
_PREFIX: Final = "plumbline-metrics-"


@contextmanager
def metrics_folder() -> Iterator[None]:
    """Let the processes started meanwhile add up their metrics in a folder.

    prometheus_client decides where metrics live when it is first imported, so this comes before
    anything that imports it. A process that is killed leaves its folder behind, which the next one
    removes: in a pod both are in the same memory. Whose process lives is locked.
    """
    if os.environ.get(_VARIABLE):
        yield
        return
    _remove_abandoned()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder, _locked(Path(folder)):
        os.environ[_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[_VARIABLE]


def _remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), _locked(folder):  # in use, or another user's
            shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder that no other process holds; the end of the process lets go of it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
