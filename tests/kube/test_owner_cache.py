"""How long an answer about an owner may be used."""

from __future__ import annotations

from dataclasses import replace

from app.kube.owner_lookup import OwnerCache, life_seconds
from app.model.kinds import owner_key
from app.model.workloads import Absent, Failed, Lookup, LookupResult, scaled_workload
from tests.cases import cases


def lookup(name: str = "web", kind: str = "Rollout") -> Lookup:
    """A look-up of a custom owner, or of a built-in one."""
    api_version = "apps/v1" if kind == "ReplicaSet" else "argoproj.io/v1"
    return Lookup("default", api_version, kind, name, owner_key(api_version, kind, name))


OWNER = scaled_workload("default", "argoproj.io/v1", "Rollout", {"metadata": {"name": "web"}})
BUILT_IN = lookup(kind="ReplicaSet")


@cases(
    "asked found seconds",
    {
        "absent": (lookup(), Absent(), 30),
        "failed": (lookup(), Failed("down"), 3),
        "built in": (BUILT_IN, OWNER, 2),
        "built in, absent": (BUILT_IN, Absent(), 30),
    },
)
def test_lives(asked: Lookup, found: LookupResult, seconds: float) -> None:
    """What does not exist is asked for again soon, failures sooner."""
    cache = OwnerCache()
    cache.keep(asked, found, 100)

    assert cache.fresh(asked, 100 + seconds - 0.1) == found
    assert cache.fresh(asked, 100 + seconds) is None


def test_lives_are_spread() -> None:
    """Owners live 10 to 20 minutes, each its own time, the same for every process."""
    lives = [life_seconds(lookup(f"web-{number}"), OWNER) for number in range(200)]

    assert min(lives) >= 600
    assert max(lives) <= 1200
    assert max(lives) - min(lives) > 500
    assert lives[0] == life_seconds(lookup("web-0"), OWNER)


@cases(
    "read_at now due kept",
    {
        "young": (0, 500, [], 1),
        "about to expire": (0, 1190, [lookup()], 1),
        "expired, in use": (0, 3599, [lookup()], 1),
        "not asked for in an hour": (0, 3600, [], 0),
        "asked for within the hour": (2000, 3700, [lookup()], 1),
    },
)
def test_due(read_at: float, now: float, due: list[Lookup], kept: int) -> None:
    """Owners in use are read again early; the others are forgotten."""
    cache = OwnerCache()
    cache.keep(lookup(), OWNER, 0)
    cache.fresh(lookup(), read_at)

    assert (cache.due(now), len(cache)) == (due, kept)


def test_what_is_not_there_is_not_asked_for_without_need() -> None:
    """Absence, failures and built-in owners are only looked up for a pod."""
    cache = OwnerCache()
    for asked, found in ((lookup("a"), Absent()), (lookup("b"), Failed("x")), (BUILT_IN, OWNER)):
        cache.keep(asked, found, 0)
    early = (cache.due(1), len(cache))

    assert early == ([], 3)
    assert (cache.due(30), len(cache)) == ([], 1)
    assert (cache.due(90), len(cache)) == ([], 0)


def test_absence_that_repeats_lives_longer() -> None:
    """What is absent again lives twice as long, up to five minutes."""
    cache, now, looked_at = OwnerCache(), 0, list[int]()
    for now in range(0, 1500, 60):
        cache.due(now)
        if cache.fresh(lookup(), now) is None:
            looked_at.append(now)
            cache.keep(lookup(), Absent(), now)

    assert looked_at == [0, 60, 120, 240, 480, 780, 1080, 1380]


def test_absence_that_ends() -> None:
    """What came and went again is absent as for the first time."""
    cache = OwnerCache()
    for now, found in ((0, Absent()), (30, Absent()), (90, OWNER), (1500, Absent())):
        cache.keep(lookup(), found, now)

    assert cache.fresh(lookup(), 1529) == Absent()
    assert cache.fresh(lookup(), 1530) is None


def test_the_namespace_with_most_answers_makes_room() -> None:
    """50,000 owners of one namespace do not displace the one of another."""
    cache = OwnerCache(most_entries=100)
    mine = replace(lookup(), namespace="mine")
    cache.keep(mine, OWNER, 0)
    for number in range(50_000):
        cache.keep(lookup(f"web-{number}"), Absent(), 1)

    assert (len(cache), cache.displaced) == (100, 49_901)
    assert cache.fresh(mine, 2) == OWNER
    assert cache.fresh(lookup("web-49999"), 2) == Absent()
    assert cache.fresh(lookup("web-0"), 2) is None


def test_a_failure_does_not_unmake_an_owner() -> None:
    """An owner that was there is believed for an hour; absence is believed at once."""
    cache = OwnerCache()
    cache.keep(lookup(), OWNER, 0)

    assert cache.keep(lookup(), Failed("down"), 1500) == OWNER
    assert cache.fresh(lookup(), 1502) == OWNER
    assert cache.fresh(lookup(), 1503) is None
    assert cache.believed(lookup(), 3599) == OWNER
    assert cache.believed(lookup(), 3600) is None
    assert cache.keep(lookup(), Failed("down"), 3600) == Failed("down")
    assert cache.keep(lookup(), Absent(), 3601) == Absent()
    assert cache.believed(lookup(), 3602) is None
    assert cache.believed(lookup("other"), 3602) is None
