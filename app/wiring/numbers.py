"""Numbers that several processes share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


@contextmanager
def shared_numbers() -> Iterator[None]:
    """Let the processes started meanwhile add up their numbers in a folder.

    prometheus_client decides where numbers live when it is first imported, so this comes before
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
