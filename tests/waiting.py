"""Waits for what other processes and threads bring about."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

_LOOK_SECONDS = 0.02


def eventually(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Return whether something comes to hold within some time."""
    until = monotonic() + seconds
    pause = threading.Event()
    while not holds():
        if monotonic() > until:
            return False
        pause.wait(_LOOK_SECONDS)
    return True
