"""`python -m tests.soak [HOURS [SEED]]`: a week of an autoscaler's life, with faults, in memory.

It fails on growth, on a budget that is broken, on a wasted eviction, on a pod that stays boosted,
and on lost history. Growth is judged from 72 hours on. The same seed chooses the same faults.
"""

from __future__ import annotations

import logging
import sys
from random import SystemRandom
from time import monotonic

from tests.soak.story import Story, lines

_WEEK_HOURS = 7 * 24
_SEEDS = 10**6


def main(words: list[str]) -> int:
    """Play; return 1 if something went wrong."""
    logging.lastResort = None  # warnings are what a soak is made of
    hours = int(words[0]) if words else _WEEK_HOURS
    seed = int(words[1]) if words[1:] else SystemRandom().randrange(_SEEDS)
    began = monotonic()
    _say(f"seed {seed}: {hours} hours")
    outcome = Story(seed).play(hours, _say)
    for line in lines(outcome):
        _say(line)
    _say(f"seed {seed}: {hours} hours in {monotonic() - began:.0f} s")
    return 1 if outcome.problems else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
