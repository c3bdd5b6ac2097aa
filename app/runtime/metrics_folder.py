"""The folder in which several processes add up their metrics."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


@contextmanager
def metrics_folder() -> Iterator[None]:
    """Let the processes started meanwhile add up their metrics in a folder.

    prometheus_client decides where metrics live when it is first imported, so this comes before
    anything that imports it.
    """
    if os.environ.get(_VARIABLE):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="plumbline-numbers-") as folder:
        os.environ[_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[_VARIABLE]
