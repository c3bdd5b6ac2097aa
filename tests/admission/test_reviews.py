"""Reviews that need look-ups are finished in time, and whatever breaks lets the object pass."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import orjson
import pytest

from app.admission.core.overlap import LIFETIME_SECONDS, Disjointness
from app.admission.core.validate import Phase
from app.admission.reviews import BegunReview, Reviewer, ReviewRules, Sources
from app.model.fields import Json
from app.model.snapshot import Snapshot
from app.model.vpa import Vpa
from app.model.workloads import Absent, Failed, Lookup, LookupResult
from tests import make
from tests.cases import cases
from tests.make import ALL_GATES
from tests.runtime.reviewing import (
    UNREADABLE,
    WEB,
    BrokenNumbers,
    Counted,
    Desk,
    Lines,
    Stored,
    desk,
    logged,
    patch_of,
)
from tests.stepped_clock import SteppedClock

POD = make.review_json(make.pod_json(cpu="100m"))
WARN = ReviewRules(disjointness=Disjointness.WARN)
WEB_SET = "StatefulSet/web"
WAIT_SECONDS = 30.0  # for other threads; nothing comes near it


@dataclass
class Owners:
    """Owners by kind and name; each answer takes some seconds of a clock."""

    known: dict[str, LookupResult] = field(default_factory=dict)
    seconds: float = 0.0
    clock: SteppedClock = field(default_factory=SteppedClock)
    asked: list[tuple[str, float]] = field(default_factory=list)

    def find(self, lookup: Lookup, deadline_seconds: float, /) -> LookupResult:
        """Return what is known, or that it takes too long."""
        self.asked.append((str(lookup.key), deadline_seconds))
        self.clock.wait(min(self.seconds, deadline_seconds))
        if self.seconds > deadline_seconds:
            return Failed("no answer in time")
        return self.known.get(str(lookup.key), Absent())


def asking(owners: Owners, *items: Json) -> Desk:
    """Return a desk where owners share the clock."""
    at = desk(*items, owners=owners)
    owners.clock = at.clock
    return at


def test_an_ordinary_review_looks_nothing_up() -> None:
    """What the snapshot holds is not asked for."""
    owners = Owners()
    at = asking(owners, *WEB)
    assert isinstance(at.begun(orjson.dumps(POD)), bytes)
    assert not owners.asked


def test_owners_are_looked_up_one_above_the_other() -> None:
    """A pod waits for the owners that no snapshot holds, up to the topmost one."""
    owners = Owners(
        {
            "ReplicaSet/web-1": make.workload("ReplicaSet/web-1", owner="Deployment/web"),
            "Deployment/web": make.workload("Deployment/web", owner="x.io/v1/Shop/web"),
        },
        seconds=1.0,
    )
    at = asking(owners, make.vpa_json(target="Deployment/web", cpu="250m"))
    response = at.answer(make.review_json(make.pod_json(owner="ReplicaSet/web-1")))
    assert patch_of(response)
    assert owners.asked == [
        ("ReplicaSet/web-1", 5.0),
        ("Deployment/web", 4.0),
        ("Shop.x.io/web", 3.0),
    ]


def test_all_look_ups_share_one_deadline() -> None:
    """The time that a review waited before it was taken up is over for its look-ups as well."""
    owners = Owners({"ReplicaSet/a": make.workload("ReplicaSet/a", owner="Job/b")}, seconds=2.0)
    at = asking(owners, make.vpa_json())
    begun = at.begun(orjson.dumps(make.review_json(make.pod_json(owner="ReplicaSet/a"))))
    assert isinstance(begun, BegunReview)
    at.clock.wait(1.0)
    response = orjson.loads(at.reviewer.finish(begun, 4.0))["response"]
    assert owners.asked == [("ReplicaSet/a", 3.0), ("Job/b", 1.0)]
    assert at.clock.monotonic() == 4.0
    assert response["auditAnnotations"] == {
        "reason": "OwnerUnknown",
        "message": "Job/b: no answer in time",
    }


def test_a_review_that_waited_too_long() -> None:
    """When the time is over before anything is looked up, what is known already still counts."""
    owners = Owners({"StatefulSet/web": make.workload()})
    at = asking(owners, make.vpa_json(cpu="250m"))
    begun = at.begun(orjson.dumps(POD))
    assert isinstance(begun, BegunReview)
    at.clock.wait(60.0)
    assert "patch" in orjson.loads(at.reviewer.finish(begun, 4.0))["response"]
    assert owners.asked == [("StatefulSet/web", 0.0)]


@cases(
    "known reason message",
    {
        "a failure": ({WEB_SET: Failed("no way")}, "OwnerUnknown", "StatefulSet/web: no way"),
        "no such owner": ({}, "OwnerUnknown", "StatefulSet/web does not exist"),
        "a circle": (
            {WEB_SET: make.workload(owner=WEB_SET)},
            "OwnershipCycle",
            "StatefulSet/web owns itself in a circle",
        ),
        "a chain without end": (
            {
                WEB_SET: make.workload(owner="Job/0"),
                **{f"Job/{i}": make.workload(f"Job/{i}", owner=f"Job/{i + 1}") for i in range(100)},
            },
            "OwnerUnknown",
            "more than 10 owners to look up",
        ),
    },
)
def test_pods_pass_when_owners_are_not_found(
    known: dict[str, LookupResult], reason: str, message: str
) -> None:
    """A pod whose owner cannot be told passes as it is; that is counted and logged."""
    at, lines = desk(make.vpa_json(cpu="1"), owners=Owners(known)), Lines()
    with logged(lines):
        response = at.answer(POD)
    assert response == {
        "uid": "review-1",
        "allowed": True,
        "auditAnnotations": {"reason": reason, "message": message},
    }
    assert at.numbers.seen == [
        ("pod", "False"),
        ("failed open", reason),
        ("review", "skipped", "Pod"),
    ]
    assert [record.getMessage() for record in lines.records] == ["pod admitted unchanged"]


def test_pods_pass_while_not_all_is_read() -> None:
    """A snapshot that is not whole decides about no pod; each is counted, some are logged."""
    is_read = False
    at, lines = desk(*WEB, is_read=lambda: is_read), Lines()
    with logged(lines):
        for seconds in (0.0, 59.0, 1.0):
            at.clock.wait(seconds)
            response = at.answer(POD)
    assert response["auditAnnotations"] == {
        "reason": "NotRead",
        "message": "the cluster's objects are not read yet",
    }
    assert at.numbers.seen.count(("failed open", "NotRead")) == 3
    assert [record.__dict__["reason"] for record in lines.records] == ["NotRead", "NotRead"]
    is_read = True
    assert "patch" in at.answer(POD)


def test_overlaps_are_unknown_while_not_all_is_read() -> None:
    """A snapshot that is not whole tells of no overlap, not even as a warning."""
    at = desk(make.vpa_json("old"), rules=WARN, is_read=lambda: False)
    assert at.answer(vpa_review("new"))["auditAnnotations"] == {"reason": "SiblingsUnknown"}


# --- VPAs beside siblings


def vpa_review(name: str, target: str = "StatefulSet/web", **labels: str) -> Json:
    """Return the creation of a VPA for the pods with some labels."""
    selector = {"matchLabels": labels} if labels else None
    return make.review_json(make.vpa_json(name, target=target, mode="Off", selector=selector))


def stored(name: str, **labels: str) -> Vpa:
    """Return a VPA of the same target that is stored already."""
    return make.vpa(name, selector={"matchLabels": labels} if labels else None)


@cases(
    "siblings labels allowed",
    {
        "alone": ((), {}, True),
        "beside one that takes all": ((stored("old"),), {}, False),
        "kept apart": ((stored("old", role="a"),), {"role": "b"}, True),
        "not kept apart": ((stored("old", role="a"),), {"role": "a"}, False),
        "beside itself": ((stored("new"),), {}, True),
    },
)
def test_vpas_are_judged_beside_those_stored(
    siblings: tuple[Vpa, ...], labels: dict[str, str], allowed: bool
) -> None:
    """Two VPAs for the same pods are refused, by what is stored and not by the snapshot."""
    at = desk(make.vpa_json("stale"), siblings=Stored(siblings))
    assert at.answer(vpa_review("new", **labels))["allowed"] is allowed


@pytest.mark.parametrize("phase", Phase)
def test_siblings_that_cannot_be_read(phase: Phase) -> None:
    """Without the others a VPA passes with a warning; what is wrong with itself still counts."""
    at = desk(siblings=Stored(None), is_read=lambda: False)
    response = at.answer(vpa_review("new"), phase)
    assert response["allowed"]
    assert "the other VPAs could not be read" in response["warnings"][0]
    assert response["auditAnnotations"] == {"reason": "SiblingsUnknown"}
    wrong = make.with_value(vpa_review("new"), "request.object.spec.updatePolicy.updateMode", "x")
    assert not at.answer(wrong, phase)["allowed"]


class Broken:
    """Siblings that break their promise."""

    def of(self, _namespace: str) -> tuple[Vpa, ...] | None:
        """Raise."""
        raise LookupError("broken")

    def named(self, _namespace: str, _name: str) -> Vpa | None:
        """Raise."""
        raise LookupError("broken")


def test_siblings_that_raise() -> None:
    """An error while siblings are read is the same as not to have read them."""
    lines = Lines()
    with logged(lines):
        response = desk(siblings=Broken(), is_read=lambda: False).answer(vpa_review("new"))
    assert response["auditAnnotations"] == {"reason": "SiblingsUnknown"}
    assert [record.getMessage() for record in lines.records] == ["siblings not read"]


def test_warnings_need_no_look_up() -> None:
    """Where an overlap only warns, the snapshot is good enough."""
    at = desk(make.vpa_json("old"), siblings=Broken(), rules=WARN)
    assert isinstance(at.begun(orjson.dumps(vpa_review("new"))), bytes)
    response = at.answer(vpa_review("new"))
    assert response["allowed"]
    assert "old" in response["warnings"][0]


@pytest.mark.parametrize("phase", Phase)
def test_what_boosts_need(phase: Phase) -> None:
    """A VPA is judged beside its workload and the version of the API server."""
    boosts = vpa_review("new")
    boosts["request"]["object"]["spec"]["startupBoost"] = make.boost_json(factor=2)
    rules = ReviewRules(ALL_GATES)
    at = desk(make.workload_json(), rules=rules, server_version=lambda: (1, 32))
    told = " ".join(at.answer(boosts, phase)["warnings"])
    assert "this is Kubernetes 1.32" in told
    assert told.endswith("missing in app")


class Gate:
    """Siblings that are listed once the gate opens; tells how many wait there."""

    def __init__(self, vpas: Sequence[Vpa] = ()) -> None:
        self.vpas = list(vpas)
        self.open = threading.Event()
        self.arrived = threading.Semaphore(0)
        self.most_inside = self.lists = 0
        self._inside = 0
        self._lock = threading.Lock()

    def of(self, _namespace: str) -> tuple[Vpa, ...] | None:
        """Wait for the gate."""
        with self._lock:
            self._inside += 1
            self.lists += 1
            self.most_inside = max(self.most_inside, self._inside)
        self.arrived.release()
        assert self.open.wait(WAIT_SECONDS)
        with self._lock:
            self._inside -= 1
        return tuple(self.vpas)

    def named(self, _namespace: str, name: str) -> Vpa | None:
        """Return one at once."""
        return next((vpa for vpa in self.vpas if vpa.name == name), None)


def test_parallel_creations_of_rivals() -> None:
    """Of many VPAs for the same pods that come at once one passes, though none is stored yet."""
    gate = Gate()
    at = desk(siblings=gate)
    with ThreadPoolExecutor(8) as pool:
        reviews = [vpa_review(f"v{i}") for i in range(8)]
        answers = [pool.submit(at.answer, review, Phase.MUTATING, 60.0) for review in reviews]
        assert gate.arrived.acquire(timeout=WAIT_SECONDS)
        gate.open.set()
        allowed = [found.result(WAIT_SECONDS)["allowed"] for found in answers]
    assert allowed.count(True) == 1
    assert gate.most_inside == 1


def test_reviews_of_a_namespace_share_lists() -> None:
    """However many VPAs are written at once, a namespace is listed once at a time for all."""
    gate = Gate()
    at = desk(siblings=gate)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(at.answer, vpa_review("a", "StatefulSet/a"), Phase.MUTATING, 60.0)
        assert gate.arrived.acquire(timeout=WAIT_SECONDS)
        others = [
            pool.submit(at.answer, vpa_review(f"v{i}", f"StatefulSet/{i}"), seconds=60.0)
            for i in range(7)
        ]
        gate.open.set()
        assert all(one.result(WAIT_SECONDS)["allowed"] for one in (first, *others))
    assert gate.most_inside == 1


def test_a_list_that_takes_too_long() -> None:
    """What was watched is believed when what is stored cannot be read in time."""
    gate = Gate()
    at = desk(make.vpa_json("old"), siblings=gate)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(at.answer, vpa_review("first", "Job/x"), Phase.MUTATING, 60.0)
        assert gate.arrived.acquire(timeout=WAIT_SECONDS)
        rival = at.answer(vpa_review("rival"), seconds=0.0)
        other = at.answer(vpa_review("other", "Job/y"), seconds=0.0)
        gate.open.set()
        assert first.result(WAIT_SECONDS)["allowed"]
    assert rival["auditAnnotations"]["reason"] == "Overlapping"
    assert other["auditAnnotations"]["reason"] == "Accepted"


def many(*names: str) -> list[Json]:
    """Return the VPAs of a namespace with many, some of them for one target."""
    others = [make.vpa_json(f"v{i}", target=f"Job/{i}") for i in range(2_000)]
    return [*others, *(make.vpa_json(name) for name in names)]


@cases(
    "stored_names allowed",
    {
        "it is there": (("old",), False),
        "it has gone": ((), True),
    },
)
def test_a_large_namespace_is_not_listed(stored_names: tuple[str, ...], allowed: bool) -> None:
    """Among many VPAs only those that overlap in the snapshot are read from the API server."""
    siblings = Stored(tuple(make.vpa(name) for name in stored_names))
    at = desk(*many("old"), siblings=siblings)
    siblings.may_list = False
    assert at.answer(vpa_review("new"))["allowed"] is allowed
    assert at.answer(vpa_review("apart", "Job/x"))["allowed"]


def test_a_claim_ends() -> None:
    """A VPA that was let pass and not stored within a moment is forgotten."""
    at = desk()
    assert at.answer(vpa_review("one"))["allowed"]
    assert not at.answer(vpa_review("two"))["allowed"]
    assert at.answer(vpa_review("one"))["allowed"]
    at.clock.wait(LIFETIME_SECONDS)
    assert at.answer(vpa_review("two"))["allowed"]


def test_a_claim_counts_for_those_who_began_before_it_was_stored() -> None:
    """A list that was begun a while ago lacks what was accepted since, though it is stored now."""
    gate = Gate()
    at = desk(siblings=gate)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(at.answer, vpa_review("first"), Phase.MUTATING, 60.0)
        assert gate.arrived.acquire(timeout=WAIT_SECONDS)
        assert at.answer(vpa_review("rival"), seconds=0.0)["allowed"]
        at.clock.wait(2 * LIFETIME_SECONDS)
        gate.open.set()
        assert not first.result(WAIT_SECONDS)["allowed"]


def test_a_claim_ends_though_the_clock_is_set_back() -> None:
    """A time of day that runs twice lets no VPA stand in the way of others for longer."""
    at = desk()
    assert at.answer(vpa_review("one"))["allowed"]
    at.clock.wait(LIFETIME_SECONDS)
    at.clock.set_back(3600)
    assert at.answer(vpa_review("two"))["allowed"]


@cases(
    "first",
    {
        "dry run": (make.with_value(vpa_review("one"), "request.dryRun", True),),
        "refused": (
            make.with_value(vpa_review("one"), "request.object.spec.updatePolicy.updateMode", "x"),
        ),
        "a deletion": (make.review_json(old=make.vpa_json("one"), operation="DELETE"),),
    },
)
def test_what_will_not_be_stored_claims_nothing(first: Json) -> None:
    """Only a VPA that is about to be stored stands in the way of others."""
    at = desk()
    at.answer(first)
    assert at.answer(vpa_review("two"))["allowed"]


def test_nothing_is_claimed_where_nothing_is_stored() -> None:
    """On recorded objects every review is a question of its own."""
    at = desk(is_live=False)
    assert all(at.answer(vpa_review(name))["allowed"] for name in ("one", "two", "three"))


# --- what breaks


def broken_snapshot() -> Snapshot:
    """Raise."""
    raise ZeroDivisionError("secret of an object")


class BrokenLog(logging.Handler):
    """A log that raises."""

    def emit(self, record: logging.LogRecord) -> None:
        """Raise."""
        raise RuntimeError(record.getMessage())


class BrokenOwners:
    """Owners that break their promise."""

    def find(self, _lookup: Lookup, _deadline_seconds: float, /) -> LookupResult:
        """Raise."""
        raise ConnectionError("broken")


def reviewer(snapshot: Callable[[], Snapshot], numbers: Counted) -> Reviewer:
    """Return a reviewer on what may be broken."""
    sources = Sources(snapshot, BrokenOwners(), Stored())
    return Reviewer(sources, WARN, numbers, SteppedClock())


def without_web() -> Snapshot:
    """Return a snapshot that lacks the pod's owner."""
    return make.snapshot(make.vpa_json())


@pytest.mark.parametrize("handler", [Lines, BrokenLog])
@pytest.mark.parametrize("numbers", [Counted, BrokenNumbers])
@cases(
    "snapshot review",
    {
        "pod": (broken_snapshot, POD),
        "pod with look-up": (without_web, POD),
        "VPA": (broken_snapshot, vpa_review("v")),
    },
)
def test_nothing_escapes(
    snapshot: Callable[[], Snapshot],
    review: Json,
    numbers: type[Counted],
    handler: type[logging.Handler],
) -> None:
    """Whatever breaks, and though counting and logging break too, the object passes."""
    at, lines = Desk(reviewer(snapshot, numbers()), Counted()), handler()
    with logged(lines):
        response = at.answer(review)
    assert response == {
        "uid": "review-1",
        "allowed": True,
        "auditAnnotations": {"reason": "InternalError"},
    }
    if isinstance(lines, Lines):
        assert [record.getMessage() for record in lines.records] == ["review failed"]
        assert lines.records[0].exc_info


def test_what_breaks_is_counted() -> None:
    """A pod that passed because something broke is counted as such; a VPA is no pod."""
    for review, counted in (
        (POD, [("failed open", "InternalError"), ("review", "error", "unknown")]),
        (vpa_review("v"), [("review", "error", "unknown")]),
    ):
        at = desk(snapshot=broken_snapshot, rules=WARN)
        at.answer(review)
        assert at.numbers.seen == counted


@pytest.mark.parametrize("handler", [Lines, BrokenLog])
def test_an_unreadable_review_is_answered_though_the_log_is_broken(
    handler: type[logging.Handler],
) -> None:
    """Logging that something cannot be read may fail as well."""
    at = Desk(reviewer(broken_snapshot, BrokenNumbers()), Counted())
    with logged(handler()):
        assert at.begun(b"{") == UNREADABLE


# --- what is logged


@cases(
    "review message keys",
    {
        "a changed pod": (POD, "pod sized", {"namespace", "pod", "reason", "why", "changes"}),
        "a refusal": (
            make.review_json(make.vpa_json(mode="x")),
            "VPA refused",
            {"uid", "resource", "object", "problems"},
        ),
        "no review": ({"request": 7}, "review not readable", {"error"}),
    },
)
def test_one_line(review: Json, message: str, keys: set[str]) -> None:
    """What changes or stops something is told in one line, with a constant message."""
    lines = Lines()
    with logged(lines):
        desk(*WEB).answer(review)
    (record,) = lines.records
    assert (record.msg, record.args) == (message, ())
    extra = record.__dict__.keys() - logging.makeLogRecord({}).__dict__.keys()
    assert extra - {"taskName"} == keys


@cases(
    "review",
    {
        "no controller": (make.review_json(make.pod_json(owner=None)),),
        "no VPA": (make.review_json(make.pod_json(namespace="other")),),
        "no creation": (make.review_json(make.pod_json(), operation="UPDATE"),),
        "an accepted VPA": (make.review_json(make.vpa_json(mode="Off")),),
        "another resource": (make.review_json(make.workload_json()),),
    },
)
def test_no_line(review: Json) -> None:
    """What passes as it came is not worth a line."""
    lines = Lines()
    with logged(lines):
        desk(*WEB).answer(review)
    assert not lines.records


def test_changes_tell_amounts_and_nothing_else() -> None:
    """The line about a pod tells what it gets; the rest of the pod is nobody's business."""
    secret = {"name": "PASSWORD", "value": "hunter2"}
    pod = make.pod_json(
        make.container_json(cpu="100m", env=[secret], args=["hunter2"]),
        annotations={"token": "hunter2"},
    )
    lines = Lines()
    with logged(lines):
        desk(*WEB).answer(make.review_json(pod))
    (record,) = lines.records
    assert record.__dict__["changes"] == {"/spec/containers/0/resources/requests/cpu": "250m"}
    assert "hunter2" not in str(record.__dict__)
