"""Roles from Leases: real pods, processes that really elect, and all three processes of ours.

A Lease that changes hands more than three times within ten minutes makes everybody a leader. So
leaders are killed in several workloads side by side, in none more often, and in one on purpose.
"""

from __future__ import annotations

import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from app.model.fields import Json
from app.model.role_leases import ROLE_LEASE_ANNOTATION as KEY
from app.ports import LEASES, PODS, VPAS
from tests.acceptance.cluster import kubectl
from tests.acceptance.electing import (
    REPLICAS,
    ROLES,
    SAMPLES,
    WEIGHT,
    Change,
    Electing,
    changes,
    cpu_of,
    electing,
    holder_of,
    target_of,
    vpa_of,
)
from tests.acceptance.elector import LEASE_SECONDS
from tests.acceptance.rows import Rows, row_test
from tests.acceptance.space import APP, annotation, item_of
from tests.acceptance.stage import EVICTED, Stage
from tests.acceptance.test_updating_rows import FAST, GATES
from tests.cluster.api import Refusal

ON: Final = "--role-leases"
FLAGS = (GATES, ON)
WEBHOOK = True
WORKERS = {
    "updater": (*FAST, ON, "--former-leader-shrinks-after=1s"),
    "recommender": (GATES, ON),
}
GRANTED = ("role-leases", "role-usage")  # the manifests beside those of the processes
ROWS = Rows()
test_row = row_test(ROWS)

WORKLOADS: Final = 7
KILLS: Final = 3  # of each
MOST_SECONDS: Final = 2.0  # of 95 in 100 promotions
CLOSE: Final = 0.05  # in which what is recommended may move


# --- the leader dies


@ROWS.row("RO-01", alone=True)
def leaders_die(stage: Stage) -> str:
    """The next leader grows within two seconds, nobody is evicted, and nothing is forgotten."""
    recommender = stage.worker("recommender", *WORKERS["recommender"])
    stage.worker("updater", *WORKERS["updater"])
    with electing(stage, *(f"db-{number}" for number in range(WORKLOADS))) as found:
        with ThreadPoolExecutor(WORKLOADS) as pool:
            list(pool.map(begin, found))
            targets = {one.vpa(role): one.target(role) for one in found for role in ROLES}
            before = uids(stage)
            with (
                changes(stage, LEASES, holder_of) as holders,
                changes(stage, PODS, cpu_of) as sizes,
                changes(stage, VPAS, target_of) as told,
            ):
                list(pool.map(die_in_turn, found))
        assert uids(stage) == before
        assert not stage.events(EVICTED)
        assert [one.unknown() for one in found] == [""] * WORKLOADS
        for change in told:
            assert change.value == pytest.approx(targets[change.name], rel=CLOSE), change
        assert recommender.stop() == 0  # it puts down what it learned
        for history in (one.history(role) for one in found for role in ROLES):
            assert history["totalSamplesCount"] > SAMPLES
            assert history["cpuHistogram"]["totalWeight"] > WEIGHT
    waited = sorted(promoted(change, sizes) for change in holders)
    assert len(waited) == WORKLOADS * KILLS
    most = waited[ceil(0.95 * len(waited)) - 1]
    text = (
        f"{len(waited)} leaders by Leases killed, in {WORKLOADS} workloads: from the change of the"
        f" Lease to the next one's resize {waited[len(waited) // 2]:.2f} s (median),"
        f" {most:.2f} s (p95), {waited[-1]:.2f} s at most; no pod was evicted."
    )
    assert most <= MOST_SECONDS, text
    return text


def begin(found: Electing) -> None:
    """Let a workload run until one of its pods leads, and is alone in having a leader's size."""
    found.size()
    found.start()
    found.settles(found.elect())


def die_in_turn(found: Electing) -> None:
    """Kill whoever leads, again and again, each time when all is as it should be."""
    for _ in range(KILLS):
        found.settles(found.fail_over())


def promoted(change: Change, sizes: list[Change]) -> float:
    """Return how long after a Lease changed hands its new holder's pod had another size."""
    return next(
        size.seconds - change.seconds
        for size in sizes
        if size.name == change.value and size.seconds >= change.seconds
    )


def uids(stage: Stage) -> set[str]:
    """Return who the pods of all workloads are."""
    return {pod["metadata"]["uid"] for pod in stage.admin.list(PODS, stage.space.name)}


@ROWS.row("RO-02")
def flaps(stage: Stage) -> None:
    """After the fourth change within ten minutes all pods have a leader's size, in place."""
    with electing(stage) as (found,):
        begin(found)
        before = uids(stage)
        for _ in range(KILLS):
            found.fail_over()
        assert found.unknown() == ""
        found.fail_over()
        expected = dict.fromkeys(found.sizes(), "leader")
        stage.eventually(lambda: found.sizes() == expected, "all are large")
        stage.eventually(lambda: found.unknown() == "RoleUnstable", "the VPA says why")
        assert uids(stage) == before
        assert not stage.events(EVICTED)


# --- a pod comes, the Lease is left alone


@ROWS.row("RO-03")
def comes_back(stage: Stage) -> None:
    """A pod that takes the name of the one that led is a follower, from its creation on."""
    with electing(stage) as (found,):
        found.size(kind="StatefulSet")
        found.start("StatefulSet")
        leader = found.elect()
        found.settles(leader)
        found.kill(leader)
        stage.admin.delete(PODS, stage.space.name, leader)
        stage.wait_ready(REPLICAS)
        pod = stage.admin.get(PODS, stage.space.name, leader)
        assert f"updated by {found.vpa('follower')}" in annotation(pod, "vpaUpdates")
        other = found.next(leader)
        found.run(leader)
        found.settles(other)
        assert not stage.events(EVICTED)


@ROWS.row("RO-04")
def expires(stage: Stage) -> None:
    """A Lease that nobody renews keeps its leader for two durations; then nobody leads."""
    with electing(stage) as (found,):
        begin(found)
        before, leader = uids(stage), found.holder()
        for pod in found.sizes():
            found.kill(pod)
        since = time.monotonic()
        stage.eventually(lambda: "was last held by" in found.role(leader), "the Lease is kept")
        assert found.role(leader).startswith("leader")
        stage.eventually(lambda: "is not held" in found.role(leader), "nobody leads")
        seconds = time.monotonic() - since
        assert 3 * LEASE_SECONDS - 2 < seconds < 3 * LEASE_SECONDS + 10
        found.settles("")
        assert uids(stage) == before
        assert not stage.events(EVICTED)


@ROWS.row("RO-05")
def goes_last(stage: Stage) -> None:
    """Where no pod can be resized in place the one that leads is the last to be evicted."""
    with electing(stage) as (found,):
        found.start()
        leader = found.elect()
        stage.refuse("resize")
        before = {pod["metadata"]["name"] for pod in stage.pods()}
        with changes(stage, PODS, cpu_of) as seen:
            found.size("Recreate")

            def gone() -> list[str]:
                return [one.name for one in seen if one.value is None and one.name in before]

            stage.eventually(lambda: len(gone()) == REPLICAS, "all are evicted")
        assert gone()[-1] == leader


# --- what people write


_LONG: Final = {"leaseDurationSeconds": 3600}
GARBAGE: Final[tuple[tuple[str, Json], ...]] = (
    ("UnreadableLease", {"holderIdentity": "hamster"}),
    ("UnreadableLease", {"holderIdentity": "hamster", "leaseDurationSeconds": 2_147_483_647}),
    ("NoPodMatches", {"holderIdentity": "stranger-0_1", **_LONG}),
    ("NoPodMatches", {"holderIdentity": "\u2603" * 1000, **_LONG}),
)
EMPTY: Final = dict.fromkeys(
    ("holderIdentity", "leaseDurationSeconds", "renewTime", "acquireTime", "leaseTransitions")
)


@ROWS.row("RO-06")
def garbage(stage: Stage) -> None:
    """What cannot be used of a Lease is a reason, and changes no pod; what can be used counts."""
    with electing(stage) as (found,):
        found.size()
        found.start()
        before = found.sizes()
        stage.space.create(item_of(LEASES, APP, spec={}))

        def write(spec: Json) -> None:
            stage.admin.merge(LEASES, stage.space.name, APP, {"spec": {**EMPTY, **spec}})

        for reason, spec in GARBAGE:
            write(spec)
            stage.eventually(partial(is_unknown, found, reason), f"{reason} of {spec}"[:200])
            stage.updater.wait_rounds(2)
            assert found.sizes() == before
        with pytest.raises(Refusal, match="must be greater than 0"):
            write({"leaseDurationSeconds": -1})
        pod = sorted(before)[0]
        times = dict.fromkeys(("renewTime", "acquireTime"), "9999-12-31T23:59:59.999999Z")
        write({"holderIdentity": pod, **times, **_LONG})
        found.settles(pod)
        assert not stage.events(EVICTED)


def is_unknown(found: Electing, reason: str) -> bool:
    """Say whether it is not known who leads, for a reason."""
    assert found.unknown() == reason
    return True


REFUSED: Final = {
    "role": "it begins with LABEL-KEY=LEASE-NAME",
    "role=DB": '"DB" is no name of a Lease',
    "role=db;leader=": "leader: a value is missing",
    "role=db;primary=leader": "after a semicolon comes leader=VALUE or follower=VALUE, each once",
    "tier=db": 'spec.selector must ask for the label "tier", as matchLabels do',
    "role=db;leader=primary": 'spec.selector takes neither "primary" nor "follower"',
}


@ROWS.row("RO-07")
def refused(stage: Stage) -> None:
    """`kubectl apply` says which annotation is wrong and why, and two VPAs name one Lease."""

    def applied(role: str, text: str) -> str:
        found = vpa_of(APP, role)
        found["metadata"] |= {"namespace": stage.space.name, "annotations": {KEY: text}}
        return told_by_kubectl(stage, found)

    for text, why in REFUSED.items():
        assert f'metadata.annotations[{KEY}]: Invalid value: "{text}": {why}' in applied(
            "leader", text
        )
    assert "created" in applied("leader", "role=db")
    said = applied("follower", "role=other")
    assert f"metadata.annotations[{KEY}]: Forbidden: " in said
    assert "both have to name one Lease" in said
    assert "created" in applied("follower", "role=db")
    assert f"metadata.annotations[{KEY}]: Invalid value" in applied("leader", "role")


def told_by_kubectl(stage: Stage, item: Json) -> str:
    """Return what `kubectl apply` says, whether it does it or not."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "vpa.json")
        path.write_text(json.dumps(item), "utf-8")
        try:
            return kubectl(stage.cluster, "apply", "-f", str(path))
        except subprocess.CalledProcessError as error:
            return str(error.stderr)
