"""A recording an hour at a time, in the units of the recommender.

Strategy: whole millicores and bytes, rounded up as `metrics.k8s.io` is read; where nothing was
measured there is ABSENT. What is requested is believed until something else is recorded. A pod is
there from its first known step on, and gone when nothing has been heard of it for a while, which
is all that can be known at that time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.backtest.core.recorded_fleet import Fleet
from app.backtest.recording import Measured, Recording
from app.recommender.core.histograms import Amounts, Counts, Flags, Floats, Times
from app.recommender.core.moments import HOUR, SECOND
from app.recommender.core.usage import ABSENT

CUT_OFF: Final = 0.97  # of a limit, from which on usage may have been cut off by it
THROTTLED: Final = 0.01  # of the scheduler's periods

_SLACK: Final = 1 - 2.0**-22  # what float32 makes of a whole number of millicores stays that
_NEVER: Final = -(2**31)
STAYS: Final = 3  # steps without a sample, before a pod counts as gone
_MILLI_DIGITS: Final = 3
_HOUR_SECONDS: Final = HOUR // SECOND
_MOST: Final = 2.0**62


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some steps, a line each; a column for each row of the fleet."""

    first: int  # step of the recording
    times: Times  # when each step ends
    is_there: Flags
    cpu: Amounts  # millicores, or ABSENT
    memory: Amounts  # bytes, or ABSENT
    requests: Floats  # cores, then bytes; 0 is none, and what was never known
    limits: Floats  # likewise
    knows: Flags  # whether requests were known by then: of cores, then of bytes
    silence: Counts  # steps in which it counted as gone, of one that is heard again
    kills: Amounts
    is_cut_off: Flags


def steps_a_round(step_seconds: int) -> int:
    """Return how many steps make an hour, or one if a step is longer."""
    return max(_HOUR_SECONDS // step_seconds, 1)


def blocks(recording: Recording, fleet: Fleet) -> Iterator[Block]:
    """Yield the hours of a fleet."""
    length = steps_a_round(recording.step)
    believed = np.full((4, len(fleet.rows)), np.nan)
    last_known = np.full(len(fleet.rows), _NEVER)
    for first in range(0, recording.count, length):
        steps = range(first, min(first + length, recording.count))

        def told(measure: Measured, steps: range = steps) -> Floats:
            part = measure[:, steps.start : steps.stop][fleet.rows]
            return np.ascontiguousarray(part.T, dtype=np.float64)

        amounts = [told(recording.cpu), told(recording.memory)]
        asked = [
            np.round(told(recording.cpu_request), _MILLI_DIGITS),
            told(recording.memory_request),
            told(recording.cpu_limit),
            told(recording.memory_limit),
        ]
        kills = np.nan_to_num(told(recording.oom_kills))
        is_known = ~np.isnan(np.stack([*amounts, *asked])).all(axis=0) | (kills > 0)
        is_there = np.zeros(is_known.shape, dtype=np.bool_)
        silence = np.zeros(is_known.shape, dtype=np.int64)
        for index, step in enumerate(steps):
            is_back = is_known[index] & (last_known > _NEVER)
            silence[index] = np.where(is_back, np.maximum(step - last_known - STAYS, 0), 0)
            last_known = np.where(is_known[index], step, last_known)
            is_there[index] = step - last_known < STAYS
        told_by_then = np.stack([_filled(*each) for each in zip(asked, believed, strict=True)])
        believed = told_by_then[:, -1]
        given = np.nan_to_num(told_by_then)
        yield Block(
            first=first,
            times=(recording.start + (np.array(steps) + 1) * recording.step) * SECOND,
            is_there=is_there,
            cpu=whole_millicores(amounts[0]),
            memory=whole_bytes(amounts[1]),
            requests=np.stack([given[0], given[1]], axis=-1),
            limits=np.stack([given[2], given[3]], axis=-1),
            knows=~np.isnan(np.stack([told_by_then[0], told_by_then[1]], axis=-1)),
            silence=silence,
            kills=kills.astype(np.int64),
            is_cut_off=_cut_off(amounts, given, told(recording.throttled), kills),
        )


def whole_millicores(cores: Floats) -> Amounts:
    """Return CPU as samples tell it."""
    return _whole(cores * 1000.0 * _SLACK)


def whole_bytes(memory: Floats) -> Amounts:
    """Return memory as samples tell it."""
    return _whole(memory)


def _whole(amounts: Floats) -> Amounts:
    known = np.clip(np.ceil(amounts), 0, _MOST)
    return np.where(np.isnan(known), ABSENT, np.nan_to_num(known)).astype(np.int64)


def _filled(amounts: Floats, before: Floats) -> Floats:
    """Return amounts with what was known last in place of what is not known."""
    found = np.empty_like(amounts)
    for index, line in enumerate(amounts):
        before = np.where(np.isnan(line), before, line)
        found[index] = before
    return found


def _cut_off(amounts: list[Floats], given: Floats, throttled: Floats, kills: Floats) -> Flags:
    cpu, memory = (
        (limit > 0) & (used >= CUT_OFF * limit)
        for used, limit in zip(amounts, (given[2], given[3]), strict=True)
    )
    return np.asarray(cpu | memory | (throttled >= THROTTLED) | (kills > 0))
