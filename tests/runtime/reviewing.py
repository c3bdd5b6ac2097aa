"""A reviewer on objects, with sources and numbers that a test can look into."""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import orjson
from prometheus_client import CollectorRegistry

from app.admission.app import Webhook
from app.admission.core.validate import Phase
from app.admission.metrics import AdmissionMetrics, Drop
from app.admission.responses import Arrival
from app.admission.reviews import BegunReview, Reviewer, ReviewRules, Sources
from app.model.errors import Unavailable
from app.model.fields import Json
from app.model.gates import ServerVersion
from app.model.snapshot import Snapshot
from app.model.vpa import Vpa
from app.model.workloads import Absent, Lookup, LookupResult
from app.ports import Owners, Siblings
from app.runtime.access import Guard
from tests import make
from tests.reached_limits import ReachedLimits
from tests.stepped_clock import SteppedClock

# The answer to `{`.
UNREADABLE = (
    b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"",'
    b'"allowed":true,"auditAnnotations":{"reason":"UnreadableReview","message":"unexpected end of '
    b'data: line 1 column 2 (char 1)"},"warnings":["unreadable review, admitted unchanged: '
    b'unexpected end of data: line 1 column 2 (char 1)"]}}'
)
# One workload, and a VPA that gives its pods 250m.
WEB = (make.vpa_json(cpu="250m", mode="Recreate"), make.workload_json())


class Counted(AdmissionMetrics):
    """Metrics as a list of what was counted, without the times."""

    def __init__(self) -> None:
        super().__init__(CollectorRegistry())
        self.seen: list[tuple[str, ...]] = []

    def review(self, status: str, resource: str, seconds: float) -> None:
        """Note a review."""
        assert seconds >= 0
        self.seen.append(("review", status, resource))

    def pod(self, *, applied: bool) -> None:
        """Note a pod."""
        self.seen.append(("pod", str(applied)))

    def pod_skipped(self, reason: str) -> None:
        """Note a pod that was left alone."""
        self.seen.append(("skipped", reason))

    def pod_failed_open(self, reason: str) -> None:
        """Note a pod that was not decided about."""
        self.seen.append(("failed open", reason))

    def review_dropped(self, reason: Drop) -> None:
        """Note a review that nothing was done about."""
        self.seen.append(("dropped", reason))

    def vpa_refused(self, reason: str) -> None:
        """Note a refusal."""
        self.seen.append(("refused", reason))

    def timer(self, step: str) -> Callable[[float], object]:
        """Leave the times of a step out."""
        return lambda _seconds: step


class BrokenNumbers(Counted):
    """Numbers that cannot be counted any more."""

    def review(self, status: str, resource: str, seconds: float) -> None:
        """Raise."""
        raise OSError(28, f"no space left for {status} {resource} {seconds}")

    def pod_failed_open(self, reason: str) -> None:
        """Raise."""
        raise OSError(28, f"no space left for {reason}")

    def timer(self, step: str) -> Callable[[float], object]:
        """Return what raises."""

        def broken(seconds: float) -> None:
            raise OSError(28, f"no space left for {step} {seconds}")

        return broken


class NoOwners:
    """Owners that are not there."""

    def find(self, _lookup: Lookup, _deadline_seconds: float, /) -> LookupResult:
        """Find nothing."""
        return Absent()


@dataclass
class Stored:
    """The VPAs that an API server has stored; None if it does not tell."""

    vpas: tuple[Vpa, ...] | None = ()
    may_list: bool = True

    def of(self, _namespace: str) -> tuple[Vpa, ...] | None:
        """Return them."""
        assert self.may_list
        return self.vpas

    def named(self, _namespace: str, name: str) -> Vpa | None:
        """Return one of them."""
        if self.vpas is None:
            raise Unavailable("not now")
        return next((vpa for vpa in self.vpas if vpa.name == name), None)


@dataclass
class Desk:
    """A reviewer and what belongs to it."""

    reviewer: Reviewer
    numbers: Counted
    clock: SteppedClock = field(default_factory=SteppedClock)
    reached: ReachedLimits = field(default_factory=ReachedLimits)

    def answer(self, review: object, phase: Phase = Phase.MUTATING, seconds: float = 5.0) -> Json:
        """Return the answer to a review."""
        found = self.begun(orjson.dumps(review), phase)
        if isinstance(found, BegunReview):
            found = self.reviewer.finish(found, found.arrival.began + seconds)
        response: Json = orjson.loads(found)["response"]
        return response

    def app(self, guard: Guard | None = None) -> Webhook:
        """Return the application in front of the reviewer; it asks nobody for tokens."""
        return Webhook(self.reviewer, guard or Guard())

    def begun(self, body: bytes, phase: Phase = Phase.MUTATING) -> bytes | BegunReview:
        """Return the answer to a review, or what it waits for."""
        return begun(self.reviewer, body, phase)


def begun(reviewer: Reviewer, body: bytes, phase: Phase = Phase.MUTATING) -> bytes | BegunReview:
    """Return the answer to a review, or what it waits for."""
    arrival = Arrival(reviewer.now(), phase)
    request = reviewer.read(body, arrival)
    return request if isinstance(request, bytes) else reviewer.begin(request, arrival)


def desk(
    *items: Json,
    owners: Owners | None = None,
    siblings: Siblings | None = None,
    snapshot: Callable[[], Snapshot] | None = None,
    rules: ReviewRules | None = None,
    is_live: bool = True,
    is_read: Callable[[], bool] = lambda: True,
    numbers: Counted | None = None,
    server_version: Callable[[], ServerVersion | None] = lambda: None,
) -> Desk:
    """Return a reviewer that knows these objects."""
    known = make.snapshot(*items)
    clock, numbers = SteppedClock(), numbers or Counted()
    sources = Sources(
        snapshot or (lambda: known),
        owners or NoOwners(),
        siblings or Stored(),
        is_live,
        is_read,
        server_version,
    )
    reached = ReachedLimits()
    reviewer = Reviewer(sources, rules or ReviewRules(), numbers, clock, reached=reached)
    return Desk(reviewer, numbers, clock, reached)


def patch_of(response: Json) -> list[Json]:
    """Return the operations that an answer carries."""
    patch: list[Json] = orjson.loads(b64decode(response["patch"]))
    return patch


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.records.append(record)


@contextmanager
def logged(handler: logging.Handler) -> Iterator[None]:
    """Send what the web room logs, all of it, to a handler alone."""
    logger = logging.getLogger("admission")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before
