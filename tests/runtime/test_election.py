"""At most one leader at any moment, and soon one again; the Lease is as client-go writes it."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.flags.command_line import parse
from app.kube.connection import Pacer
from app.model.errors import NotSent
from app.model.token_bucket import TokenBucket
from app.ports import LEASES, Cluster, Json, Ref
from app.run.simulated import SharedCluster
from app.runtime.election import (
    HELD_ANNOTATION,
    LEAST_CALL_SECONDS,
    Campaign,
    Election,
    ElectionRules,
    Standing,
    Unopposed,
    election,
    lease,
    lease_spec,
    micro_time,
)
from app.updater.flags import UpdaterSettings
from tests.cases import cases
from tests.cluster_in_memory import ClusterInMemory, outage
from tests.stepped_clock import SteppedClock

RULES = ElectionRules("kube-system", "vpa-recommender-lease")
SHORT = [
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=1s",
]


class Contest:
    """Candidates around one Lease."""

    def __init__(self, rules: ElectionRules = RULES) -> None:
        self.rules = rules
        self.clock = SteppedClock()
        self.cluster = ClusterInMemory(self.clock.now)

    def candidate(self, identity: str) -> Election:
        """Another candidate."""
        return Election(self.cluster, self.rules, identity, self.clock)

    def two(self) -> tuple[Election, Election]:
        """Two candidates."""
        return self.candidate("one"), self.candidate("two")

    def step(self, election: Election, after_seconds: float = 0.0) -> Standing:
        """Let time pass, then let one candidate try."""
        self.clock.wait(after_seconds)
        return election.step(self.clock.now())

    def spec(self) -> Json:
        """The Lease's spec."""
        found = self.cluster.get(Ref(LEASES, RULES.namespace, RULES.name))["spec"]
        assert isinstance(found, dict)
        return found

    def put(self, spec: Json) -> None:
        """Write the Lease as another program does."""
        self.cluster.create(Ref(LEASES, RULES.namespace), lease(RULES.namespace, RULES.name, spec))


@pytest.fixture
def contest() -> Contest:
    """A Lease that is not there yet."""
    return Contest()


def test_first_leader(contest: Contest) -> None:
    """The first to come creates the Lease, with client-go's fields."""
    one = contest.candidate("one")
    assert not one.is_leading()
    assert contest.step(one) == Standing(True, "one", 2.0)
    assert one.is_leading()
    assert contest.spec() == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-03-01T12:00:00.000000Z",
        "renewTime": "2026-03-01T12:00:00.000000Z",
        "leaseTransitions": 0,
    }


def test_renewal(contest: Contest) -> None:
    """A renewal changes the time alone."""
    one = contest.candidate("one")
    contest.step(one)
    before = contest.spec()
    contest.step(one, 2)
    assert contest.spec() == {**before, "renewTime": "2026-03-01T12:00:02.000000Z"}


def test_follower(contest: Contest) -> None:
    """While the leader renews, no candidate leads, and candidates do not come at once."""
    one, two, three = (contest.candidate(name) for name in ("one", "two", "three"))
    contest.step(one)
    standing = contest.step(two)
    assert (standing.leading, standing.leader) == (False, "one")
    assert standing.reason == "one holds the lease"
    assert 1 <= standing.wait_seconds <= 1.5
    assert standing.wait_seconds != contest.step(three).wait_seconds
    contest.cluster.failures = outage(1)
    assert 2 <= contest.step(two).wait_seconds <= 4.4
    contest.cluster.failures = [NotSent("no connection")]
    assert 1 <= contest.step(two, 60).wait_seconds <= 1.5


def test_takeover(contest: Contest) -> None:
    """A silent leader is followed soon after it has given up, by our clock."""
    one, two = contest.two()
    contest.step(one)
    assert not contest.step(two).leading
    assert contest.step(two, 12.9).wait_seconds == pytest.approx(0.1)
    assert not two.is_leading()
    assert contest.step(two, 0.1) == Standing(True, "two", 2.0)
    assert not one.is_leading()
    assert contest.spec()["leaseTransitions"] == 1
    assert contest.spec()["acquireTime"] == "2026-03-01T12:00:13.000000Z"
    assert not contest.step(one).leading


def test_old_times_in_the_lease(contest: Contest) -> None:
    """A new candidate waits the whole time, whatever times the Lease tells: clocks differ."""
    contest.put({"holderIdentity": "x", "leaseDurationSeconds": 5, "renewTime": "1999-01-01"})
    two = contest.candidate("two")
    assert not contest.step(two).leading
    assert not contest.step(two, 4.9).leading
    assert contest.step(two, 0.1).leading


@cases(
    "promise seconds",
    {
        "none, as of upstream's": (None, 14),
        "ours": ("x 12", 12),
        "ours, with other flags": ("x 3.5", 3.5),
        "of a former holder": ("one 3", 14),
        "later than the duration": ("x 20", 14),
        "no number": ("x soon", 14),
        "nonsense": ("12", 14),
    },
)
def test_when_the_holder_stops(contest: Contest, promise: str | None, seconds: float) -> None:
    """A candidate steps in early only where the holder says that it has stopped by then."""
    body = lease(RULES.namespace, RULES.name, {"holderIdentity": "x", "leaseDurationSeconds": 14})
    body["metadata"]["annotations"] = {} if promise is None else {HELD_ANNOTATION: promise}
    contest.cluster.create(Ref(LEASES, RULES.namespace), body)
    two = contest.candidate("two")
    contest.step(two)
    assert not contest.step(two, seconds - 0.1).leading
    assert contest.step(two, 0.1).leading


def test_candidates_with_other_flags(contest: Contest) -> None:
    """However long a candidate says it would hold the Lease itself, it waits for its holder."""
    rules = ElectionRules(RULES.namespace, RULES.name, 60.5, 59, 1)
    one = Election(contest.cluster, rules, "one", contest.clock)
    two = contest.candidate("two")
    contest.step(one)
    contest.step(two)
    assert contest.spec()["leaseDurationSeconds"] == 61
    contest.clock.wait(58.9)
    assert not contest.step(two).leading
    assert one.is_leading()
    assert contest.step(two, 0.6).leading
    assert not one.is_leading()


def test_last_calls(contest: Contest) -> None:
    """What a leader ends after its time it ends before a candidate may come."""
    one, two = contest.two()
    contest.step(one)
    contest.step(two)
    contest.clock.wait(10)
    assert (one.is_leading(), one.may_finish()) == (False, True)
    contest.clock.wait(2)
    assert not one.may_finish()
    assert not contest.step(two).leading


@pytest.mark.parametrize("age_seconds", [0, 2, 5, 9.9, 11.9])
def test_calls_end_before_the_next_leader(contest: Contest, age_seconds: float) -> None:
    """Late calls have little time, and none once another candidate may lead."""
    one, two = contest.two()
    contest.step(one)
    contest.step(two)
    contest.clock.wait(age_seconds)
    seconds = one.calls_end_at - contest.clock.monotonic()
    assert 0 < seconds <= 12
    contest.clock.wait(seconds)
    assert not one.may_finish()
    assert not contest.step(two).leading


@st.composite
def election_rules(draw: st.DrawFn) -> ElectionRules:
    """Periods that the flags take."""
    retry = draw(st.floats(0.1, 30))
    renew = retry * draw(st.floats(1.21, 5))
    lease_seconds = max(renew * draw(st.floats(1.01, 3)), 3.0)
    return ElectionRules(RULES.namespace, RULES.name, lease_seconds, renew, retry)


@cases(
    "lease renew retry share",
    {
        "as the flags have it": (15, 10, 2, 1.0),
        "many retries": (15, 10, 0.5, 1.0),
        "few retries": (15, 10, 8, 1.0),
        "no room for one more retry": (15, 14.9, 12.3, 1.0),
        "a short Lease": (10, 9.9, 8, 0.9875),
        "as short as may be": (3, 2, 1, 0.5),
    },
)
def test_when_a_leader_may_act(lease: float, renew: float, retry: float, share: float) -> None:
    """A leader that renews in time may begin calls all the time, but with very short periods."""
    rules = ElectionRules(RULES.namespace, RULES.name, lease, renew, retry)
    contest = Contest(rules)
    one = contest.candidate("one")
    pause, looks = contest.step(one).wait_seconds, list[bool]()
    for _ in range(1_000):
        looks.append(one.calls_end_at - contest.clock.monotonic() > LEAST_CALL_SECONDS)
        contest.clock.wait(pause / 1_000)
    assert looks.count(True) / len(looks) == pytest.approx(share, abs=0.002)
    assert rules.acting_share == pytest.approx(share)


@cases(
    "flags told",
    {
        "defaults": ([], []),
        "few retries": (["--leader-elect-retry-period=8s"], []),
        "short periods": (SHORT, [("a leader may act only part of the time", 0.5)]),
        "short periods, and no election": ([*SHORT, "--leader-elect=false"], []),
    },
)
def test_periods_that_are_too_short_are_told(
    flags: list[str], told: list[tuple[str, float]], caplog: pytest.LogCaptureFixture
) -> None:
    """What costs a leader a part of its time is logged when the process starts."""
    contest = Contest()
    flags = ["--leader-elect", *flags]
    settings = parse(UpdaterSettings, flags, {}).election
    election(settings, SharedCluster(cast("Cluster", contest.cluster)), contest.clock)
    assert [(one.message, vars(one)["share"]) for one in caplog.records] == told


@given(election_rules())
def test_a_leader_always_comes_to_act(rules: ElectionRules) -> None:
    """With no periods that the flags take is a leader too late for every call."""
    assert 0 < rules.acting_share <= 1
    assert rules.renew_seconds <= rules.held_seconds <= rules.lease_seconds


@settings(deadline=None)
@given(
    election_rules(),
    st.floats(0.05, 20),
    st.integers(1, 5),
    st.lists(st.tuples(st.floats(0, 3), st.booleans(), st.integers(0, 20)), max_size=20),
)
def test_no_call_of_a_deposed_leader_begins(
    rules: ElectionRules, rate: float, burst: int, moves: list[tuple[float, bool, int]]
) -> None:
    """Whatever the rate, and however many wait, a call begins before another one may lead."""
    contest = Contest(rules)
    one, two = contest.two()
    clock = contest.clock
    pacer = Pacer(TokenBucket.full(rate, burst), monotonic=clock.monotonic, sleep=clock.wait)
    contest.step(one)
    contest.step(two)
    begins: list[float] = []
    for retries, renews, calls in moves:
        contest.cluster.failures = [] if renews else outage(1)
        contest.step(one, retries * rules.retry_seconds)
        contest.cluster.failures = []
        if contest.step(two).leading:
            break
        for _ in range(calls if one.may_finish() else 0):
            with suppress(NotSent):
                begins.append(clock.monotonic() + pacer.reserve("a call", one.calls_end_at))
    while not two.is_leading():
        contest.step(two, rules.retry_seconds / 20)
    assert all(begun < clock.monotonic() for begun in begins)


def test_last_calls_of_a_leader_that_was_followed(contest: Contest) -> None:
    """A leader that sees another one, or let go, ends nothing any more."""
    one, two = contest.two()
    contest.step(one)
    one.release(contest.clock.now())
    assert not one.may_finish()
    contest.step(one)
    assert one.may_finish()
    lease = Ref(LEASES, RULES.namespace, RULES.name)
    contest.cluster.replace(lease, {**contest.cluster.get(lease), "spec": {"holderIdentity": ""}})
    contest.step(two)
    contest.step(one)
    assert not one.may_finish()


def test_terms(contest: Contest) -> None:
    """A term lasts until another candidate leads; an outage does not end it."""
    one, two = contest.two()
    contest.step(one)
    contest.step(one, 11)
    assert one.term == 1
    contest.step(two)
    contest.step(two, 13)
    two.release(contest.clock.now())
    contest.step(one)
    assert (one.term, two.term) == (2, 1)


def test_unopposed() -> None:
    """Without an election we always lead, and for one term."""
    assert (Unopposed().is_leading(), Unopposed().may_finish(), Unopposed().term) == (True, True, 0)


def test_takeover_of_a_killed_leader() -> None:
    """Whenever a leader is killed, another one leads within fourteen and a half seconds."""
    for killed in range(21):
        contest = Contest()
        one, two = contest.two()
        due_one, due_two = 0.0, 0.3
        death = 20 + killed / 10
        while not two.is_leading():
            if due_one <= min(due_two, death):
                contest.clock.wait(due_one - contest.clock.monotonic())
                due_one += one.step(contest.clock.now()).wait_seconds
            else:
                contest.clock.wait(due_two - contest.clock.monotonic())
                due_two += two.step(contest.clock.now()).wait_seconds
        assert 10 < contest.clock.monotonic() - death <= 14.5


@cases(
    "spec leading transitions",
    {
        "empty": ({}, True, 0),
        "released": ({"holderIdentity": ""}, True, 1),
        "no holder": ({"holderIdentity": None, "leaseTransitions": 4}, True, 5),
        "ours from before a restart": ({"holderIdentity": "one"}, True, None),
        "held, no duration": ({"holderIdentity": "x"}, False, None),
        "odd": ({"holderIdentity": "x", "leaseDurationSeconds": "?"}, False, None),
    },
)
def test_found_lease(contest: Contest, spec: Json, leading: bool, transitions: int | None) -> None:
    """A Lease of whatever program is understood."""
    contest.put(spec)
    assert contest.step(contest.candidate("one")).leading is leading
    assert contest.spec().get("leaseTransitions") == transitions


def test_outage(contest: Contest) -> None:
    """A leader that cannot renew steps down before others may step in, and comes back."""
    one = contest.candidate("one")
    contest.step(one)
    contest.cluster.failures = outage(2)
    assert contest.step(one, 2) == Standing(True, "one", 2.0, "connection refused")
    assert contest.step(one, 7.9).leading
    contest.clock.wait(0.1)
    assert contest.step(one).leading
    contest.clock.wait(10)
    assert not one.is_leading()


def test_release(contest: Contest) -> None:
    """A leader that ends lets the next one in at once."""
    one, two = contest.two()
    contest.step(one)
    assert not contest.step(two, 1).leading
    one.release(contest.clock.now())
    assert contest.spec()["holderIdentity"] == ""
    assert contest.spec()["leaseDurationSeconds"] == 1
    assert not one.is_leading()
    assert contest.step(two).leading
    one.release(contest.clock.now())
    assert contest.spec()["holderIdentity"] == "two"


def test_release_during_an_outage(contest: Contest, caplog: pytest.LogCaptureFixture) -> None:
    """A release that cannot be told is no reason not to end."""
    one = contest.candidate("one")
    contest.step(one)
    contest.cluster.failures = outage(1)
    one.release(contest.clock.now())
    assert not one.is_leading()
    assert [record.message for record in caplog.records] == ["lease was not released"]


@pytest.mark.parametrize("existing", [False, True], ids=["both create", "both take over"])
def test_race(contest: Contest, existing: bool) -> None:
    """Of two who write at the same time one leads."""
    if existing:
        contest.put({"holderIdentity": ""})
    one, two = contest.two()
    contest.cluster.before_write = partial(contest.step, two)
    assert not contest.step(one).leading
    assert two.is_leading()


CANDIDATES = 3
MOVES = st.tuples(
    st.integers(0, CANDIDATES - 1),
    st.sampled_from([0.0, 0.5, 2.0, 3.0, 9.0, 16.0]),  # seconds that pass before
    st.sampled_from(["step", "step", "step", "outage", "release", "restart", "race"]),
)


@settings(deadline=None)
@given(st.lists(MOVES, max_size=60))
def test_at_most_one_leader(moves: list[tuple[int, float, str]]) -> None:
    """Whatever happens, two never lead at a time, and calm ends in one leader."""
    contest = Contest()
    replicas = [contest.candidate(f"replica-{at}") for at in range(CANDIDATES)]

    def check() -> None:
        assert sum(replica.is_leading() for replica in replicas) <= 1

    for at, seconds, move in moves:
        contest.clock.wait(seconds)
        check()
        if move == "release":
            replicas[at].release(contest.clock.now())
        elif move == "restart":
            replicas[at] = contest.candidate(f"replica-{at}")
        else:
            contest.cluster.failures = outage(1) if move == "outage" else []
            if move == "race":
                rival = replicas[(at + 1) % CANDIDATES]
                contest.cluster.before_write = partial(contest.step, rival)
            contest.step(replicas[at])
        check()
    contest.cluster.failures = []
    for _ in range(20):
        contest.clock.wait(1)
        for replica in replicas:
            contest.step(replica)
            check()
    assert sum(replica.is_leading() for replica in replicas) == 1


def test_campaign(caplog: pytest.LogCaptureFixture) -> None:
    """Coming and going of leadership calls back once each, and the end lets go."""
    caplog.set_level("INFO")
    contest = Contest()
    heard: list[str] = []
    election = contest.candidate("one")
    campaign = Campaign(election, lambda: heard.append("start"), lambda: heard.append("stop"))
    now = contest.clock.now
    assert campaign.tick(now()) == 2.0
    campaign.tick(now())
    contest.cluster.failures = outage(1)
    contest.clock.wait(10)
    campaign.tick(now())
    campaign.tick(now())
    assert heard == ["start", "stop", "start"]
    assert [record.message for record in caplog.records] == ["leadership changed"] * 3
    campaign.close(now())
    assert heard[-1] == "stop"
    assert contest.spec()["holderIdentity"] == ""
    campaign.close(now() + timedelta(seconds=1))
    assert len(heard) == 4


def test_campaign_that_was_deposed_between_two_steps(contest: Contest) -> None:
    """A term of another candidate is told, also if ours is back before the next step."""
    one, two = contest.two()
    heard: list[str] = []
    campaign = Campaign(one, lambda: heard.append("start"), lambda: heard.append("stop"))
    campaign.tick(contest.clock.now())
    contest.step(two)
    contest.step(two, 13)
    two.release(contest.clock.now())
    campaign.tick(contest.clock.now())
    assert heard == ["start", "stop", "start"]


def test_failing_callback(contest: Contest) -> None:
    """What leadership could not start is started with the next step."""
    heard: list[str] = []

    def start() -> None:
        heard.append("start")
        if len(heard) == 1:
            raise ValueError("not yet")

    campaign = Campaign(contest.candidate("one"), start)
    with pytest.raises(ValueError, match="not yet"):
        campaign.tick(contest.clock.now())
    campaign.tick(contest.clock.now())
    campaign.tick(contest.clock.now())
    assert heard == ["start", "start"]


@cases(
    "microsecond expected",
    {
        "zeros stay": (0, "2026-03-01T12:00:00.000000Z"),
        "six digits": (1, "2026-03-01T12:00:00.000001Z"),
    },
)
def test_micro_time(microsecond: int, expected: str) -> None:
    """A MicroTime always has six digits and no offset."""
    assert micro_time(datetime(2026, 3, 1, 12, 0, 0, microsecond, tzinfo=UTC)) == expected


def test_lease() -> None:
    """What is written is read."""
    assert lease_spec(lease("kube-system", "a", {"holderIdentity": "x"})) == {"holderIdentity": "x"}


@pytest.mark.parametrize("found", [{}, {"spec": None}, {"spec": "?"}])
def test_lease_without_spec(found: dict[str, object]) -> None:
    """A Lease without a usable spec is an empty one."""
    assert lease_spec(found) == {}
