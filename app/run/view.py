"""What `plumbline run` shows, as values: activities, a row for each VPA, totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.diagnosis.core.attention import Status
from app.model.text import span
from app.output import Tone

_KIND_WIDTH: Final = 9


class ActivityKind(StrEnum):
    """The kind of an activity, in one word."""

    RECOMMEND = "recommend"
    CREATE = "create"  # a pod that was sized as it was created
    BOOST = "boost"  # the same, with more CPU for its start
    RESIZE = "resize"
    UNBOOST = "boost-end"
    EVICT = "evict"
    WAIT = "wait"  # something is wanted, and something stands in the way
    KILL = "kill"  # for memory
    REFUSE = "refuse"  # an object, by the cluster or by the webhook
    SKIP = "skip"  # objects of kinds that the cluster in memory does not have
    WRITE = "write"  # something that is reported instead of being sent
    STORY = "story"  # done by the demo itself
    TROUBLE = "trouble"  # something of ours went wrong


TONES: Mapping[ActivityKind, Tone] = {
    ActivityKind.RECOMMEND: Tone.FAINT,
    ActivityKind.CREATE: Tone.GOOD,
    ActivityKind.BOOST: Tone.GOOD,
    ActivityKind.RESIZE: Tone.GOOD,
    ActivityKind.UNBOOST: Tone.GOOD,
    ActivityKind.EVICT: Tone.CAREFUL,
    ActivityKind.WAIT: Tone.CAREFUL,
    ActivityKind.KILL: Tone.BAD,
    ActivityKind.REFUSE: Tone.BAD,
    ActivityKind.SKIP: Tone.FAINT,
    ActivityKind.WRITE: Tone.FAINT,
    ActivityKind.STORY: Tone.STRONG,
    ActivityKind.TROUBLE: Tone.BAD,
}


@dataclass(frozen=True, slots=True)
class Activity:
    """Something that happened, and why."""

    at: datetime
    kind: ActivityKind
    who: str
    why: str
    namespace: str = ""
    workload: str = ""  # of the pod that it is about; under its name repeats are folded


@dataclass(frozen=True, slots=True)
class ResourceAmounts:
    """One resource of a pod: millicores, or bytes; None is not known."""

    request: int | None = None
    usage: int | None = None
    target: int | None = None
    lower: int | None = None
    upper: int | None = None

    @property
    def is_outside(self) -> bool:
        """Whether the request is outside of its bounds."""
        if self.request is None or self.lower is None or self.upper is None:
            return False
        return not self.lower <= self.request <= self.upper


@dataclass(frozen=True, slots=True)
class VpaRow:
    """The pods of one VPA; amounts are those of an average pod."""

    namespace: str
    vpa: str
    mode: str
    pods: int
    cpu: ResourceAmounts
    memory: ResourceAmounts
    status: Status


@dataclass(frozen=True, slots=True)
class Upcoming:
    """Something that will happen."""

    at: datetime
    what: str


@dataclass(frozen=True, slots=True)
class Sums:
    """What all pods under VPAs request together."""

    cpu_millicores: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ReviewCounts:
    """What the webhook answered so far."""

    reviews: int = 0
    pods_changed: int = 0
    vpas_refused: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """What was done so far."""

    reviewed: ReviewCounts = ReviewCounts()
    done: Counter[ActivityKind] = field(default_factory=Counter)  # how often each
    refusals: Counter[str] = field(default_factory=Counter)  # pods that had to wait, by reason
    before: Sums = Sums()  # as the templates have it
    after: Sums = Sums()
    killed_at: datetime | None = None  # the last OOM kill


@dataclass(frozen=True, slots=True)
class ClusterSpeed:
    """How fast the time of a cluster passes; None is that of a real one."""

    speed: float | None = None
    is_paused: bool = False


REAL_TIME: Final = ClusterSpeed()


@dataclass(frozen=True, slots=True)
class View:
    """Everything that is shown at a moment."""

    title: str
    now: datetime
    lasted: timedelta
    pace: ClusterSpeed
    rows: Sequence[VpaRow]
    activities: Sequence[Activity]  # the latest last
    totals: Totals
    upcoming: Upcoming | None = None
    is_dry: bool = False  # what is counted would have been done


# --- as plain lines


def activity_line(found: Activity) -> str:
    """Return an activity as one plain line."""
    who = f"{found.namespace}/{found.who}" if found.namespace else found.who
    return f"{found.at:%H:%M:%S} {found.kind:<{_KIND_WIDTH}} {who}: {found.why}"


def summary(view: View) -> Iterator[str]:
    """Yield the last words."""
    totals = view.totals
    reviews, done = totals.reviewed, totals.done
    would = ", in which nothing was written; this would have been done" if view.is_dry else ""
    yield f"After {span(view.lasted)} of the cluster's time{would}:"
    requests = ", ".join(requests_texts(totals))
    yield f"  requests of all pods under VPAs  {requests}  ({_saved(totals)})"
    changed = reviews.pods_changed
    yield f"  reviews answered                 {reviews.reviews}, {changed} pods changed"
    if reviews.vpas_refused:
        yield f"  VPAs refused                     {reviews.vpas_refused}"
    yield (
        f"  pods evicted, resized in place   {done[ActivityKind.EVICT]}, "
        f"{done[ActivityKind.RESIZE]}, and {done[ActivityKind.UNBOOST]} startup boosts ended"
    )
    yield f"  OOM kills                        {done[ActivityKind.KILL]}"
    yield f"  pods that had to wait            {_waited(totals)}"
    if done[ActivityKind.TROUBLE]:
        yield f"  errors of ours                   {done[ActivityKind.TROUBLE]}"


def requests_texts(totals: Totals) -> tuple[str, str]:
    """Say how much is requested of CPU and of memory, and how much would be without us."""
    before, after = totals.before, totals.after
    return (
        f"CPU {_cores(before.cpu_millicores)} → {_cores(after.cpu_millicores)} cores",
        f"memory {_gib(before.memory_bytes)} → {_gib(after.memory_bytes)} GiB",
    )


def _saved(totals: Totals) -> str:
    cpu = totals.before.cpu_millicores - totals.after.cpu_millicores
    memory = totals.before.memory_bytes - totals.after.memory_bytes
    return ", ".join((
        f"{_cores(abs(cpu))} cores {'saved' if cpu >= 0 else 'added'}",
        f"{_gib(abs(memory))} GiB {'saved' if memory >= 0 else 'added'}",
    ))  # fmt: skip


def _cores(millicores: int) -> str:
    return f"{float(f'{millicores / 1000:.3g}'):g}"


def _gib(count_bytes: int) -> str:
    return f"{float(f'{count_bytes / 2**30:.3g}'):g}"


def _waited(totals: Totals) -> str:
    found = [f"{count} {reason}" for reason, count in sorted(totals.refusals.items())]
    return ", ".join(found) or "none"
