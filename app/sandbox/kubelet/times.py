"""How long a kubelet and its runtime take for what they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.ports import Json


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds; of what a real kubelet was seen to take unless a test wants otherwise."""

    notice: float = 0.02  # until a change of a pod is seen
    start: float = 1.0  # from the node to running containers
    stop: float = 1.0  # until a program has ended that was asked to
    resize: float = 0.015  # until the runtime has applied new resources
    error: float = 0.3  # until a refusal of the runtime is told
    error_retry: float = 1.0  # until the runtime is asked again
    shrink_error: float = 5.0  # until it is told why memory cannot shrink
    shrink_retry: float = 10.0
    deferred_retry: float = 180.0
    room_retry: float = 0.13  # after room became free
    housekeeping: float = 5.0  # between two looks at what the programs use


@dataclass(frozen=True, slots=True)
class Runtime:
    """The container runtime, as far as a test may want it to be odd."""

    times: Times = Times()
    # Why it refuses to resize a pod, empty if it does not.
    refuses: Callable[[Json], str] = lambda _pod: ""


FIRST_PAUSE_SECONDS: Final = 10.0  # before the second restart of a container
LONGEST_PAUSE_SECONDS: Final = 300.0
GOOD_RUN_SECONDS: Final = 2 * LONGEST_PAUSE_SECONDS  # after which a crash is the first again
