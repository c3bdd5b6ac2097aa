"""What is shown while everything runs, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from app.output.report import Tone


class What(StrEnum):
    """What happened, in one word."""

    RECOMMEND = "recommend"
    CREATE = "create"  # a pod that was sized as it was created
    BOOST = "boost"  # the same, with more CPU for its start
    RESIZE = "resize"
    UNBOOST = "unboost"
    EVICT = "evict"
    WAIT = "wait"  # something is wanted, and something stands in the way
    KILL = "kill"  # for memory
    REFUSE = "refuse"  # an object, by the cluster or by the webhook
    WRITE = "write"  # something that is told instead of being sent
    STORY = "story"  # done by the demonstration itself
    TROUBLE = "trouble"  # something of ours went wrong


TONES: Mapping[What, Tone] = {
    What.RECOMMEND: Tone.FAINT,
    What.CREATE: Tone.GOOD,
    What.BOOST: Tone.GOOD,
    What.RESIZE: Tone.GOOD,
    What.UNBOOST: Tone.GOOD,
    What.EVICT: Tone.CAREFUL,
    What.WAIT: Tone.CAREFUL,
    What.KILL: Tone.BAD,
    What.REFUSE: Tone.BAD,
    What.WRITE: Tone.FAINT,
    What.STORY: Tone.STRONG,
    What.TROUBLE: Tone.BAD,
}


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened, and why."""

    at: datetime
    what: What
    who: str
    why: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Amounts:
    """One resource of a pod: millicores, or bytes; None is not known."""

    request: int | None = None
    usage: int | None = None
    target: int | None = None
    lower: int | None = None
    upper: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """The pods of one VPA; amounts are those of an average pod."""

    namespace: str
    vpa: str
    pods: int
    cpu: Amounts
    memory: Amounts
    standing: str  # why nothing is done about most of its pods, or what is


@dataclass(frozen=True, slots=True)
class Sums:
    """What all pods under VPAs request together."""

    cpu_millicores: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """What was done so far."""

    reviews: int = 0
    pods_changed: int = 0
    vpas_refused: int = 0
    evictions: int = 0
    resizes: int = 0
    unboosts: int = 0
    kills: int = 0
    refusals: Mapping[str, int] = field(default_factory=dict)  # pods that had to wait, by reason
    troubles: int = 0
    before: Sums = Sums()  # as the templates have it
    after: Sums = Sums()


@dataclass(frozen=True, slots=True)
class View:
    """Everything that is shown at a moment."""

    title: str
    now: datetime
    lasted: timedelta
    speed: str
    reviews_per_minute: float
    rows: Sequence[Row]
    happenings: Sequence[Happening]  # the latest last
    totals: Totals
    is_dry: bool = False  # what is counted would have been done
