"""Owners are found once for all who ask, and no call waits longer than it may."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from app.kube.owner_lookup import LiveOwners, LookupTurns
from app.kube.transport import Deadlines
from app.model.kinds import OwnerReference, owner_key
from app.model.selectors import NOTHING, Selector
from app.model.workloads import Absent, Failed, Lookup, LookupResult, Workload
from app.ports import DEPLOYMENTS, REPLICA_SETS, LimitReached, LookupLimit, Resource
from tests import make
from tests.cases import cases
from tests.kube.api_server import ApiServer, serving
from tests.kube.api_state import PATIENCE_SECONDS
from tests.kube.connecting import connected
from tests.reached_limits import ReachedLimits
from tests.stepped_clock import START, SteppedClock

ROLLOUTS = Resource("argoproj.io", "v1alpha1", "rollouts", "Rollout")
SCALE_PATH = "/apis/argoproj.io/v1alpha1/namespaces/default/rollouts/web/scale"
SCALE = {
    "metadata": {"name": "web", "uid": "u1", "resourceVersion": "7"},
    "spec": {"replicas": 3},
    "status": {"selector": "app=web"},
}


def lookup(kind: str = "Rollout", api_version: str = "argoproj.io/v1alpha1") -> Lookup:
    """A look-up of an owner called web."""
    return Lookup("default", api_version, kind, "web", owner_key(api_version, kind, "web"))


REPLICA_SET = lookup("ReplicaSet", "apps/v1")


@contextmanager
def looking(
    *, most_flights: int = 1000, reached: LimitReached | None = None
) -> Iterator[tuple[ApiServer, LiveOwners, SteppedClock]]:
    """A server with a Rollout that can be scaled, and the way to find it."""
    clock = SteppedClock()
    with serving(ROLLOUTS, REPLICA_SETS, DEPLOYMENTS) as server:
        server.scales[ROLLOUTS, "default", "web"] = SCALE
        with connected(server, Deadlines(read_seconds=PATIENCE_SECONDS)) as cluster:
            live = LiveOwners(cluster, clock, reached or ReachedLimits(), most_flights=most_flights)
            try:
                yield server, live, clock
            finally:
                live.close()


def find(live: LiveOwners, asked: Lookup | None = None) -> LookupResult:
    """Look with all the time of a test."""
    return live.find(asked or lookup(), PATIENCE_SECONDS)


def test_a_custom_owner() -> None:
    """A custom owner is known by its scale."""
    with looking() as (_, live, _):
        found = find(live)

    assert isinstance(found, Workload)
    assert (found.key, found.replicas, found.owner) == (lookup().key, 3, None)
    assert found.selector == Selector.parse("app=web")


def test_a_built_in_owner() -> None:
    """A built-in owner is read by itself, with the owner above it."""
    above = {"ownerReferences": [make.owner_json("Deployment/web")]}
    with looking() as (server, live, _):
        server.put(REPLICA_SETS, "web", metadata=above, spec={"replicas": 2})
        found = find(live, REPLICA_SET)

    assert isinstance(found, Workload)
    assert (found.key, found.replicas, found.selector) == (REPLICA_SET.key, 2, NOTHING)
    assert found.owner == OwnerReference("apps/v1", "Deployment", "web", "uid-web", controller=True)


ODD_NAME = Lookup("default", "apps/v1", "ReplicaSet", "a/b", REPLICA_SET.key)


@cases(
    "asked",
    {
        "built in": (REPLICA_SET,),
        "no possible name": (ODD_NAME,),
        "unknown kind": (lookup("Workflow"),),
        "unknown group": (lookup("Job", "batch.volcano.sh/v1alpha1"),),
        "no possible group": (lookup(api_version="../../v1"),),
    },
)
def test_absent(asked: Lookup) -> None:
    """What is not there is absent, and asked for again only after half a minute."""
    with looking() as (server, live, clock):
        first = find(live, asked)
        count = len(server.requests)
        clock.wait(29)
        again = find(live, asked)

    assert (first, again, len(server.requests)) == (Absent(), Absent(), count)


def test_an_owner_that_is_gone() -> None:
    """A kind that can be scaled without such an object is absent."""
    with looking() as (server, live, _):
        server.scales = {(ROLLOUTS, "default", "other"): SCALE}

        assert find(live) == Absent()


def test_one_call_for_all() -> None:
    """Many questions at once share one look-up."""
    with looking() as (server, live, _), ThreadPoolExecutor(16) as pool:
        with server.holding("/scale"):
            answers = [pool.submit(find, live) for _ in range(16)]
            server.wait_for(lambda: bool(server.asked(SCALE_PATH)))
        found = [answer.result() for answer in answers]

    assert len(server.asked(SCALE_PATH)) == 1
    assert all(isinstance(one, Workload) for one in found)


def test_the_deadline_holds() -> None:
    """A call that cannot wait ends with a reason; the answer is there for the next one."""
    with looking() as (server, live, _):
        with server.holding("/scale"):
            late = live.find(lookup(), 0.01)
        found = find(live)

    assert late == Failed("no answer within 0.01 s")
    assert isinstance(found, Workload)
    assert len(server.asked(SCALE_PATH)) == 1


@cases(
    "status body message",
    {
        "trouble": (503, {"message": "etcd is away"}, "etcd is away"),
        "no permission": (403, {"message": "no right"}, "no right"),
        "bad selector": (200, {"status": {"selector": "a in"}}, "status.selector"),
        "bad scale": (200, {"spec": {"replicas": "x"}}, "spec.replicas"),
    },
)
def test_failures(status: int, body: dict[str, object], message: str) -> None:
    """A failure is told with its reason and asked for again soon."""
    with looking() as (server, live, clock):
        server.fail("/scale", status, body=body)
        failed = find(live)
        still = find(live)
        clock.wait(3)
        found = find(live)

    assert isinstance(failed, Failed)
    assert message in failed.message
    assert still == failed
    assert isinstance(found, Workload)


def test_an_old_owner_is_believed_while_the_server_is_away() -> None:
    """An owner known for long stays known when it cannot be read again, in time or at all."""
    with looking() as (server, live, clock):
        found = find(live)
        clock.wait(1300)
        with server.holding("/scale"):
            late = live.find(lookup(), 0.01)
        find(live)
        clock.wait(1300)
        server.fail("/scale", 500)
        away = find(live)

    assert (late, away, server.faults) == (found, found, [])


def test_owners_in_use_are_read_early() -> None:
    """What pods ask for is read again before it expires, so that none has to wait."""
    with looking() as (server, live, clock):
        find(live)
        clock.wait(1195)
        seconds = live.refresh(START)
        server.wait_for(lambda: len(server.asked(SCALE_PATH)) == 2)
        for _ in range(2):
            assert isinstance(find(live), Workload)

    assert (len(server.asked(SCALE_PATH)), seconds) == (2, 5)


def test_too_many() -> None:
    """A flood of look-ups is refused, not queued."""
    with looking(most_flights=1) as (server, live, _), server.holding("/scale"):
        live.find(lookup(), 0)

        assert live.find(REPLICA_SET, 0) == Failed("too many look-ups are under way")


def named(number: int, namespace: str = "default") -> Lookup:
    """One of many look-ups."""
    return replace(lookup(), name=f"web-{number}", namespace=namespace)


def test_namespaces_take_turns() -> None:
    """Whatever one namespace asks for, the look-up of another one comes next."""
    turns = LookupTurns(1000)
    for number in range(4_000):
        turns.add(named(number, "evil"))
    added = [turns.add(named(number, namespace)) for number in (1, 2) for namespace in "ab"]
    taken = [turns.take() for _ in range(6)]

    assert added == [True] * 4
    assert [(one.namespace, one.name) for one in taken if one] == [
        ("evil", "web-0"),
        ("a", "web-1"),
        ("b", "web-1"),
        ("evil", "web-1"),
        ("a", "web-2"),
        ("b", "web-2"),
    ]


def test_no_namespace_takes_all_threads() -> None:
    """While six look-ups of a namespace are under way, its next one waits."""
    turns = LookupTurns(1000)
    for number in range(8):
        turns.add(named(number))
    taken = [one for _ in range(8) if (one := turns.take())]
    turns.done(taken[0])

    assert [one.name for one in taken] == [f"web-{number}" for number in range(6)]
    assert turns.take() == named(6)


@cases(
    "namespaces each expected",
    {
        "one may have half of all": (1, 1000, 500),
        "two have all": (2, 1000, 1000),
        "each may have some": (200, 1000, 500 + 500 + 198 * 8),
        "few are all right": (100, 10, 1000),
    },
)
def test_shares(namespaces: int, each: int, expected: int) -> None:
    """What may wait is limited, for all together and for each namespace."""
    turns = LookupTurns(1000)
    added = [
        turns.add(named(number, f"n-{namespace}"))
        for namespace in range(namespaces)
        for number in range(each)
    ]

    assert sum(added) == expected


def test_a_limit_is_counted() -> None:
    """What is refused for want of room is counted."""
    reached = ReachedLimits()
    with looking(most_flights=1, reached=reached) as (server, live, _), server.holding("/scale"):
        live.find(lookup(), 0)
        live.find(REPLICA_SET, 0)

        assert reached.counts == {LookupLimit.OWNER_LOOKUPS: 1}


def test_names_that_no_object_can_have() -> None:
    """What is too long for any object is absent, and nothing of it is kept."""
    with looking() as (server, live, _):
        found = [find(live, replace(lookup(), name="x" * 10**size)) for size in (3, 6)]

        assert (found, server.requests) == ([Absent(), Absent()], [])


def test_closed() -> None:
    """After closing nothing is looked up."""
    with looking() as (server, live, _):
        live.close()

        assert isinstance(find(live), Failed)
        assert server.requests == []
