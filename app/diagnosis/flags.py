"""Flags of what explains decisions: the moment, and how the deciding processes are started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.flags.flags import QUANTITY, FlagKind, flag, optional
from app.model.fields import time_at
from app.model.quantity import Quantity
from app.updater.flags import interval_flag


def _moment(texts: Sequence[str]) -> datetime:
    found = time_at({"time": texts[-1]}, "time", "")
    if found is None:
        raise ValueError(texts[-1])
    return found


MOMENT: Final = FlagKind("TIME", "a time such as 2026-01-05T10:00:00Z", _moment)


def at_flag() -> datetime | None:
    """Return the field for the moment that is looked at."""
    return flag("at", optional(MOMENT), "", "evaluate at this time; empty for now")


@dataclass(frozen=True, slots=True)
class Circumstances:
    """When and how often."""

    at: datetime | None = at_flag()
    max_cpu_boost: Quantity | None = flag(
        "max-allowed-cpu-boost",
        optional(QUANTITY),
        "",
        "maximum CPU that a container may request while it is boosted, as the webhook's flag says",
    )
    interval: timedelta = interval_flag()
