"""A rotation never leaves an API server without the CA of what is served."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.admission.core.rotation import (
    Generation,
    Issuing,
    NextStep,
    Rotation,
    RotationRules,
    RotationState,
    defect,
    plan,
    renewal_time,
)
from tests.cases import cases

NOTHING, ISSUE_FIRST, ISSUE_NEXT, PUBLISH_CA, SWAP_SERVING, RETIRE_CA = Rotation
NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
RULES = RotationRules(settle_seconds=30, grace_seconds=3600)


def generation(
    name: str, made: datetime = NOW, days: int = 90, trouble: str = "", missing: str = ""
) -> Generation:
    """A generation whose only authority has this fingerprint."""
    return Generation(
        frozenset({name}), made, made + days * DAY, trouble, (missing,) if missing else ()
    )


def bundle(*names: str) -> frozenset[str]:
    """The CAs that a configuration carries."""
    return frozenset(names)


OLD, NEW = generation("0a"), generation("0b")
DUE = generation("0a", NOW - 70 * DAY)
DEAD = generation("0a", NOW - 90 * DAY)
BROKEN = generation("0a", trouble="the key does not fit")


def known(
    current: Generation | None = None,
    upcoming: Generation | None = None,
    bundles: tuple[frozenset[str] | None, ...] = (None, None),
    retiring: frozenset[str] = frozenset(),
    age_seconds: float = 0,
) -> RotationState:
    """A situation that has been so for some seconds."""
    return RotationState(current, upcoming, retiring, bundles, NOW - timedelta(seconds=age_seconds))


BOTH = bundle("0a", "0b")

CASES = [
    pytest.param(known(), ISSUE_FIRST, "no certificate", id="nothing anywhere"),
    pytest.param(known(bundles=()), ISSUE_FIRST, "no certificate", id="no configurations"),
    pytest.param(known(bundles=(bundle(), None)), ISSUE_FIRST, "", id="trusting nothing"),
    pytest.param(known(bundles=(bundle("ff"), None)), ISSUE_NEXT, "", id="a lost pair is trusted"),
    pytest.param(known(DEAD), ISSUE_FIRST, "expired", id="expired, never published"),
    pytest.param(known(DEAD, bundles=(bundle("0a"),)), ISSUE_NEXT, "expired", id="expired"),
    pytest.param(known(BROKEN), ISSUE_FIRST, "key does not fit", id="half a pair"),
    pytest.param(known(generation("0a", NOW + DAY)), ISSUE_FIRST, "not valid", id="too early"),
    pytest.param(known(OLD, bundles=(None, bundle())), PUBLISH_CA, "lacks", id="not published"),
    pytest.param(known(OLD, bundles=(None, None)), NOTHING, "good", id="nothing registered yet"),
    pytest.param(known(OLD, bundles=(bundle("0a"),) * 2), NOTHING, "good", id="steady"),
    pytest.param(known(DUE, bundles=(bundle("0a"),) * 2), ISSUE_NEXT, "expires", id="due"),
    pytest.param(
        known(generation("0a", missing="svc"), bundles=(bundle("0a"),)),
        ISSUE_NEXT,
        "not made out to svc",
        id="another service name",
    ),
    pytest.param(
        known(DUE, NEW, (bundle("0a"), BOTH)), PUBLISH_CA, "lacks", id="one still lacks it"
    ),
    pytest.param(known(DUE, NEW, (BOTH, BOTH)), NOTHING, "a moment", id="just published"),
    pytest.param(known(DUE, NEW, (BOTH, BOTH), age_seconds=30), SWAP_SERVING, "", id="settled"),
    pytest.param(known(DUE, NEW), SWAP_SERVING, "nothing else", id="nobody to convince"),
    pytest.param(known(DEAD, NEW, (bundle("0b"),)), SWAP_SERVING, "nothing else", id="only ours"),
    pytest.param(known(DEAD, NEW, (BOTH,)), NOTHING, "a moment", id="others are trusted"),
    pytest.param(
        known(DUE, DEAD, (bundle("0a"),)), ISSUE_NEXT, "expires", id="upcoming died meanwhile"
    ),
    pytest.param(known(NEW, bundles=(BOTH, BOTH)), NOTHING, "stays", id="just swapped"),
    pytest.param(
        known(NEW, bundles=(BOTH, BOTH), retiring=bundle("0a"), age_seconds=3600),
        RETIRE_CA,
        "time to swap",
        id="grace is over",
    ),
    pytest.param(
        known(NEW, bundles=(bundle("0b"), BOTH), age_seconds=3600),
        RETIRE_CA,
        "",
        id="retired from one only",
    ),
    pytest.param(
        known(NEW, bundles=(bundle("0b"),), retiring=bundle("0a")),
        PUBLISH_CA,
        "lacks",
        id="somebody took the retiring CA out",
    ),
    pytest.param(
        known(NEW, bundles=(bundle("0b", "ee"),), age_seconds=3600),
        RETIRE_CA,
        "",
        id="a stranger's CA leaves",
    ),
]


@pytest.mark.parametrize(("situation", "step", "reason"), CASES)
def test_plan(situation: RotationState, step: Rotation, reason: str) -> None:
    """Each situation has one next step, and it says why."""
    planned = plan(situation, NOW, RULES)
    assert planned.action is step
    assert reason in planned.reason


@cases(
    "situation issuing step reason",
    {
        "no files": (known(), Issuing.NEVER, NOTHING, "not ours to make"),
        "files are due": (DUE, Issuing.NEVER, NOTHING, "not ours to renew"),
        "CA is told by others": (DUE, Issuing.ONCE, NOTHING, "not ours to renew"),
        "first of our own": (known(), Issuing.ONCE, ISSUE_FIRST, ""),
    },
)
def test_issuing(
    situation: RotationState | Generation, issuing: Issuing, step: Rotation, reason: str
) -> None:
    """What is not ours is never made anew, and the plan says so."""
    if isinstance(situation, Generation):
        situation = known(situation, bundles=(bundle("0a"),))
    planned = plan(situation, NOW, replace(RULES, issuing=issuing))
    assert planned.action is step
    assert reason in planned.reason


@cases(
    "situation until",
    {
        "until the renewal": (known(OLD), renewal_time(OLD, RULES)),
        "settled": (known(DUE, NEW, (BOTH, BOTH), age_seconds=10), NOW + timedelta(seconds=20)),
        "the grace is over": (
            known(NEW, bundles=(BOTH,), age_seconds=600),
            NOW + timedelta(seconds=3000),
        ),
    },
)
def test_wait(situation: RotationState, until: datetime) -> None:
    """A wait names its end."""
    planned = plan(situation, NOW, RULES)
    assert planned.action is NOTHING
    assert planned.wait_until == until


@given(st.integers(0, 2**256 - 1))
def test_renewal_time(number: int) -> None:
    """Renewal comes after two thirds of a life, and within the jitter of that."""
    life = generation(f"{number:064x}", days=100)
    assert NOW + (100 * 2 / 3) * DAY <= renewal_time(life, RULES) <= NOW + 72 * DAY


T = TypeVar("T")


@dataclass
class CrashingCluster:
    """A cluster in which every write may be the last one before a crash."""

    now: datetime = NOW
    current: Generation | None = None
    upcoming: Generation | None = None
    retiring: frozenset[str] = frozenset()
    bundles: list[frozenset[str] | None] = field(default_factory=lambda: [None, None])
    served: list[tuple[datetime, Generation]] = field(default_factory=list)
    trusted: list[list[tuple[datetime, frozenset[str] | None]]] = field(
        default_factory=lambda: [[], []]
    )
    made: int = 0
    watched: tuple[object, datetime] = (None, NOW)
    writes_left: int = 0

    def step(self, writes: int = 9) -> NextStep:
        """Take the next step, and crash after so many writes of it."""
        state = (self.current, self.upcoming, self.retiring, tuple(self.bundles))
        if self.watched[0] != state:
            self.watched = (state, self.now)
        self.writes_left = writes
        step = plan(RotationState(*state, self.watched[1]), self.now, RULES)
        match step.action:
            case Rotation.ISSUE_FIRST:
                self._store(self._issue(), None, self.retiring)
            case Rotation.ISSUE_NEXT:
                self._store(self.current, self._issue(), self.retiring)
            case Rotation.PUBLISH_CA:
                self._publish(self._everything(), only_missing=False)
            case Rotation.SWAP_SERVING:
                former = self.current.authorities if self.current else frozenset()
                self._store(self.upcoming, None, self.retiring | former)
            case Rotation.RETIRE_CA:
                assert self.current is not None
                self._store(self.current, None, frozenset())
                self._publish(self.current.authorities, only_missing=False)
            case Rotation.NOTHING:
                self._publish(self._everything(), only_missing=True)
        return step

    def restart(self) -> None:
        """Forget what only memory holds."""
        self.watched = (None, self.now)

    def _everything(self) -> frozenset[str]:
        on_ring = [g.authorities for g in (self.current, self.upcoming) if g]
        return self.retiring.union(*on_ring, *(b for b in self.bundles if b))

    def _issue(self) -> Generation:
        self.made += 1
        return generation(f"{self.made:08x}", self.now)

    def _store(
        self, current: Generation | None, upcoming: Generation | None, retiring: frozenset[str]
    ) -> None:
        if self.writes_left:
            self.writes_left -= 1
            self.current, self.upcoming, self.retiring = current, upcoming, retiring
            if current:
                self.served.append((self.now, current))

    def _publish(self, trusted: frozenset[str], *, only_missing: bool) -> None:
        for which, bundle in enumerate(self.bundles):
            if self.writes_left and (bundle is None or not only_missing):
                self.writes_left -= 1
                self.bundles[which] = trusted
                self.trusted[which].append((self.now, trusted))

    def check(self) -> None:
        """Whatever a slow replica serves is trusted by whatever a slow API server sees."""
        replica = self.now - timedelta(seconds=RULES.grace_seconds - 1)
        api_server = self.now - timedelta(seconds=RULES.settle_seconds - 1)
        for made in held_since(self.served, replica):
            if self.now >= made.not_after:
                continue  # trust does not help it
            for history in self.trusted:
                views = held_since(history, api_server)
                assert all(view is None or made.authorities <= view for view in views)


def held_since(history: list[tuple[datetime, T]], since: datetime) -> list[T]:
    """What held at some moment after `since`: the last value before it and all later ones."""
    before = [value for at, value in history if at <= since]
    return before[-1:] + [value for at, value in history if at > since]


def serving(name: str) -> CrashingCluster:
    """A cluster that serves and trusts one generation."""
    made = generation(name)
    cluster = CrashingCluster(current=made, bundles=[bundle(name)] * 2, served=[(NOW, made)])
    cluster.trusted = [[(NOW, bundle(name))], [(NOW, bundle(name))]]
    return cluster


def bereft() -> CrashingCluster:
    """A cluster whose ring was lost while replicas serve from memory."""
    cluster = serving("ff")
    cluster.current = None
    cluster.bundles[1], cluster.trusted[1] = None, []
    return cluster


STARTS = {"empty": CrashingCluster, "serving": lambda: serving("ff"), "ring lost": bereft}
ACTIONS = st.one_of(
    st.integers(0, 3),  # a step that crashes after so many writes
    st.sampled_from(["step", "restart"]),
    st.sampled_from([1, 31, 3601, 86_400 * 20, 86_400 * 70]).map(
        lambda seconds: timedelta(seconds=seconds)
    ),
)


@settings(max_examples=300, deadline=None)
@example("empty", [1, timedelta(days=20), timedelta(days=70)])  # expired, never published
@given(st.sampled_from(sorted(STARTS)), st.lists(ACTIONS, max_size=40))
def test_rotation(start: str, actions: list[int | str | timedelta]) -> None:
    """Crashes, restarts and pauses anywhere break no call, and end in a steady state."""
    cluster = STARTS[start]()
    for action in actions:
        match action:
            case int():
                cluster.step(action)
            case timedelta():
                cluster.now += action
            case "restart":
                cluster.restart()
            case _:
                cluster.step()
        cluster.check()
    for _ in range(20):
        step = cluster.step()
        cluster.check()
        if step.action is NOTHING and step.reason == "the certificate is good":
            break
        cluster.now = (step.wait_until if step.action is NOTHING else None) or cluster.now
    assert cluster.current is not None
    assert cluster.bundles == [cluster.current.authorities] * 2
    assert not cluster.retiring
    assert defect(cluster.current, cluster.now) == ""
