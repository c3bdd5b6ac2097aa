"""The guide for authors of VPAs: its objects are applied, its outputs and tables are what happens.

Strategy: two clusters. In one the page is followed from top to bottom, with all three processes.
The other one has no recommender: the test writes recommendations, so tables have round numbers.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
import orjson
import pytest
import yaml

from app.commands.replay import played
from app.commands.replay_flags import ReplaySettings
from app.flags.command_line import parse
from app.model import pods
from app.ports import LEASES, VPAS, Json, Ref
from app.recommender.core.estimation import multipliers
from app.recommender.core.status import ConditionType
from app.run.world import World
from app.sandbox.load import ANNOTATION as LOAD
from app.updater.core.decisions import Reason
from app.updater.core.patching import (
    RAISED_ANNOTATION,
    UPDATED_AT_ANNOTATION,
    UPDATED_BY_ANNOTATION,
)
from tests import make
from tests.flows.autoscaler import MINUTE
from tests.flows.trials import NAMESPACE, Trial, cluster, outcomes, sizes
from tests.kubectl import Kubectl
from tests.sandbox_objects import events_in, pods_in
from tests.test_docs import BLOCK, ROOT, text

PAGE: Final = ROOT / "docs/vpas.md"
APPLICATIONS: Final = ROOT / "docs/examples/applications.yaml"
ANNOTATIONS: Final = (
    pods.OBSERVED_ANNOTATION,
    pods.UPDATES_ANNOTATION,
    pods.BOOST_KEY_PREFIX,
    pods.UNBOOST_KEY_PREFIX,
    pods.IN_PLACE_ANNOTATION,
    UPDATED_AT_ANNOTATION,
    UPDATED_BY_ANNOTATION,
    RAISED_ANNOTATION,
)


# --- the page


def section(title: str) -> str:
    """Return what stands below a heading, up to the next one."""
    _, _, after = text(PAGE).partition(f"# {title}\n")
    assert after
    return re.split(r"^##+ ", after, maxsplit=1, flags=re.MULTILINE)[0]


def table(title: str, number: int = 0) -> list[list[str]]:
    """Return the rows of a table below a heading, the first one too, without marks for code."""
    tables = re.findall(r"(?:^\|.*\n)+", BLOCK.sub("", section(title)), re.MULTILINE)
    head, _, *rows = (
        [cell.strip() for cell in line.strip("|").replace("`", "").split("|")]
        for line in tables[number].splitlines()
    )
    return [head, *rows]


def objects(body: str) -> Iterator[Json]:
    """Yield the objects of a block; one that is only a spec belongs to a VPA on some Deployment."""
    for number, item in enumerate(yaml.safe_load_all(body), start=1):
        yield item if "kind" in item else vpa(f"spec-{number}", item["spec"])


def specs(title: str) -> list[Json]:
    """Return the specs that a block below a heading shows."""
    (body,) = (body for language, body in BLOCK.findall(section(title)) if language == "yaml")
    return [item["spec"] for item in yaml.safe_load_all(body)]


def vpa(name: str, spec: Json) -> Json:
    """Return a VPA on the Deployment of its name."""
    return make.vpa_json(name, target=f"Deployment/{name}", created=None, spec=spec)


# --- from top to bottom


@dataclass(frozen=True)
class Walk:
    """A cluster in which the page was followed, and what that showed."""

    world: World
    refused: Sequence[str]  # objects, each with the reason
    consoles: Sequence[tuple[str, str]]  # as they came out, and as they are shown


@pytest.fixture(scope="module")
def walk() -> Iterator[Walk]:
    """Follow the page: apply each object, run each command."""
    with cluster(recommends=True) as world:
        assert world.sandbox.apply(text(APPLICATIONS)) == []
        refused: list[str] = []
        consoles: list[tuple[str, str]] = []
        for language, body in BLOCK.findall(text(PAGE)):
            if language == "yaml":
                found = world.sandbox.apply(*objects(body))
                refused += [f"{one.name}: {one.why}" for one in found]
            elif language == "console":
                consoles.append((typed(world, body), body))
        yield Walk(world, refused, consoles)


def typed(world: World, shown: str) -> str:
    """Return a console block as it comes out when its commands are run."""
    kubectl, lines = Kubectl(world.sandbox), []
    for command in re.findall(r"^\$ (.*)$", shown, re.MULTILINE):
        lines.append(f"$ {command}\n")
        if command.startswith("sleep "):
            world.sandbox.advance(float(command.removeprefix("sleep ")))
        else:
            lines.append(kubectl(command))
    return "".join(lines)


def test_objects_are_accepted(walk: Walk) -> None:
    """Every object of the page passes schema and webhook."""
    assert walk.refused == []


def test_commands_print_what_is_shown(walk: Walk) -> None:
    """Every command of the page prints what is shown."""
    assert walk.consoles
    for came_out, shown in walk.consoles:
        assert came_out == shown


@pytest.mark.parametrize("name", ["ledger", "report"])
def test_applications_are_sized(walk: Walk, name: str) -> None:
    """A singleton is resized and a job is sized; nothing is evicted for either."""
    sandbox = walk.world.sandbox
    found = pods_in(sandbox, NAMESPACE, f"app={name}")
    newest = max(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    (target,) = targets(walk.world, name)
    assert newest["spec"]["containers"][0]["resources"]["requests"] == target
    assert name not in str(events_in(sandbox, NAMESPACE, "EvictedByVPA"))


def targets(world: World, name: str) -> list[Json]:
    """Return what a VPA recommends for its containers."""
    status = world.sandbox.cluster.get(Ref(VPAS, NAMESPACE, name))["status"]
    return [one["target"] for one in status["recommendation"]["containerRecommendations"]]


def test_a_manager_that_elects_by_a_lease(walk: Walk) -> None:
    """The replica that holds the Lease gets what its work needs, the other one what is allowed."""
    sandbox = walk.world.sandbox
    sandbox.advance(30 * MINUTE)
    lease = sandbox.cluster.get(Ref(LEASES, NAMESPACE, "my-manager-id"))
    leader = lease["spec"]["holderIdentity"].partition("_")[0]
    (target,), (least,) = (targets(walk.world, f"manager-{one}") for one in ("leader", "standby"))
    found = {
        pod["metadata"]["name"]: pod["spec"]["containers"][0]["resources"]["requests"]
        for pod in pods_in(sandbox, NAMESPACE, "app=manager")
    }

    assert (len(found), found.pop(leader)) == (2, target)
    assert least == {"cpu": "100m", "memory": "256Mi"}
    assert list(found.values()) == [least]
    assert "manager" not in str(events_in(sandbox, NAMESPACE, "EvictedByVPA"))


def test_container_policies(walk: Walk) -> None:
    """A container that is off stays; of the other one only memory changes."""
    sandbox = walk.world.sandbox
    (spec,) = specs("Container policies")
    assert sandbox.apply(vpa("api", spec)) == []
    sandbox.advance(10 * MINUTE)
    (target,) = targets(walk.world, "api")
    assert target == {"memory": "250Mi"}
    for pod in pods_in(sandbox, NAMESPACE, "app=api"):
        cpu, memory = sizes(pod), sizes(pod, "memory")
        assert cpu == {"api": ("100m", "none"), "istio-proxy": ("100m", "none")}
        assert memory == {"api": ("250Mi", "500Mi"), "istio-proxy": ("128Mi", "none")}


# --- tables


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A cluster without a recommender."""
    with cluster(recommends=False) as found:
        yield found


def container(
    name: str = "app", *, cpu: str = "200m", limit: str = "none", probe: str | None = None
) -> Json:
    """Return a container."""
    amounts = (None if amount == "none" else amount for amount in (cpu, limit))
    request, cpu_limit = amounts
    found = make.container_json(
        name, image="app:1", cpu=request, memory="400Mi", cpu_limit=cpu_limit
    )
    return found if probe is None else {**found, f"{probe}Probe": PROBE}


def test_modes(world: World) -> None:
    """Each mode does to new pods and to running ones what the table says."""
    head, *rows = table("Update modes")
    assert head[1:] == ["New pods", "Running pods that need more", "Running pods that need less"]
    for mode, *shown in ([re.split(r"\W", row[0])[0], *row[1:]] for row in rows):
        trials = [
            Trial(f"{mode.lower()}-{target[0]}", policy(mode), [container()], {"app": target})
            for target in ((400, 800), (100, 200))
        ]
        more, less = outcomes(world, trials)
        is_sized = sizes(trials[0].created(world))["app"][0] == "400m"
        assert ["sized" if is_sized else "unchanged", more, less] == shown


def policy(mode: str) -> Json:
    """Return the spec of a VPA with a mode."""
    return {"updatePolicy": {"updateMode": mode}}


CHANGES: Final = {"twice the": 2.0, "half the": 0.5, "5 % more": 1.05, "a quarter of the": 0.25}


def test_fewer_evictions(world: World) -> None:
    """Which changes evict pods, by each of the two ways to have fewer evictions."""
    title = "Fewer evictions: UpscaleOnly and evictionRequirements"
    for number, (changes, *shown) in enumerate(table(title)[1:]):
        cpu, memory = (CHANGES[part.rpartition(" ")[0]] for part in changes.split(", "))
        target = {"app": (int(200 * cpu), int(400 * memory))}
        trials = [
            Trial(f"fewer-{number}-{which}", spec, [container()], target)
            for which, spec in enumerate(specs(title))
        ]
        assert outcomes(world, trials) == shown


def test_limits(world: World) -> None:
    """What a new pod gets, by its template and by what the VPA controls."""
    (_, *titles), *rows = table("What happens to limits")
    for number, (template, *shown) in enumerate(rows):
        cpu, limit = template.partition(" (")[0].split(", ")
        for title, cell in zip(titles, shown, strict=True):
            (values,) = re.findall(r"Requests[A-Z]\w+", title)
            policies = [{"containerName": "*", "controlledValues": values}]
            name = f"limit-{number}-{values.lower()}"
            spec = {"resourcePolicy": {"containerPolicies": policies}}
            trial = Trial(name, spec, [container(cpu=cpu, limit=limit)], {"app": (300, 400)})
            assert cell == ", ".join(sizes(first_pod(world, trial))["app"])


def first_pod(world: World, trial: Trial) -> Json:
    """Create a Deployment after its VPA, and return one of its pods as it is created."""
    trial.recommend(world)
    trial.deploy(world)
    world.sandbox.advance(1)
    return next(iter(trial.pods(world).values()))


SLOW: Final = {LOAD: "startup: 1 8"}
PROBE: Final[Json] = {"httpGet": {"port": 8080}, "periodSeconds": 1}
ENDS: Final = {  # by whether the pod is Ready late: without a duration, and with one
    False: (("at once",), ("60 s after the start",)),
    True: (
        ("when Ready", "when it succeeds, as the pod is Ready then"),
        ("60 s after Ready", "60 s after that"),
    ),
}


def test_boosts(world: World) -> None:
    """What the containers of each example get at first, and after the boost; limits follow."""
    names = ("jvm", "proxy")
    containers = [container(name, limit="400m", probe="readiness") for name in names]
    _, *rows = table("Startup boost")
    for (number, *shown), spec in zip(rows, specs("Startup boost"), strict=True):
        recommended = dict.fromkeys(names, (300, 400))
        trial = Trial(f"boost-{number}", spec, containers, recommended, SLOW)
        first = first_pod(world, trial)
        world.sandbox.advance(MINUTE)
        after = trial.pods(world)[first["metadata"]["uid"]]
        had, has = sizes(first), sizes(after)
        assert shown == [size for name in names for size in (had[name][0], has[name][0])]
        for request, limit in (*had.values(), *has.values()):
            assert make.quantity(limit).milli == 2 * make.quantity(request).milli


def test_ends_of_boosts(world: World) -> None:
    """When a boost ends, by probe and duration."""
    (_, *durations), *rows = table("Startup boost", 1)
    for title, *shown in rows:
        probe = None if title == "no probe" else title.split()[0]
        for number, (duration, cell) in enumerate(zip(durations, shown, strict=True)):
            boost = {"type": "Factor", "factor": 2, **yaml.safe_load(duration_field(duration))}
            spec = {**policy("Off"), "startupBoost": {"cpu": boost}}
            name = f"end-{len(title)}-{number}"
            trial = Trial(name, spec, [container(probe=probe)], {}, SLOW)
            assert cell in end_of_boost(world, trial)


def duration_field(title: str) -> str:
    """Return what the title of a column asks for, as YAML."""
    return "{}" if title.startswith("no ") else title


def end_of_boost(world: World, trial: Trial) -> tuple[str, ...]:
    """Return when the boost of a pod ends, in the words of the page."""
    pod = first_pod(world, trial)
    assert sizes(pod)["app"] == ("400m", "none")
    for _ in range(100):
        pod = next(iter(trial.pods(world).values()))
        if sizes(pod)["app"] == ("200m", "none"):
            break
        world.sandbox.advance(1)
    ready = next(one for one in pod["status"]["conditions"] if one["type"] == "Ready")
    began, was_ready = map(
        datetime.fromisoformat, (pod["status"]["startTime"], ready["lastTransitionTime"])
    )
    is_slow = was_ready - began > timedelta(seconds=5)
    lasted = (world.sandbox.clock.now() - was_ready).total_seconds()
    at_once, later = ENDS[is_slow]
    return at_once if 0 <= lasted <= 2 else later if 60 <= lasted <= 62 else (f"{lasted} s",)


# --- figures


def test_bounds_close_in() -> None:
    """The upper bound is as far from usage as it is told."""
    told = re.findall(
        r"times (\d+) after\s+(\d+) (hours?|day)", section("When will it do something?")
    )
    days = [float(count) / (1 if unit == "day" else 24) for _, count, unit in told]
    factors = multipliers(np.array(days))[:, 2]
    assert [float(factor) for factor, *_ in told] == pytest.approx(factors.tolist())
    assert len(told) == 3


@pytest.mark.parametrize(
    ("before", "after", "cpu_hours", "memory_hours"),
    [((100, 500), (400, 1500), (3, 4), (0, 0.5)), ((400, 1500), (100, 500), (72, 96), (72, 96))],
)
def test_targets_follow_usage(
    tmp_path: Path,
    before: tuple[int, int],
    after: tuple[int, int],
    cpu_hours: tuple[float, float],
    memory_hours: tuple[float, float],
) -> None:
    """After days of history a rise counts for memory at once, a fall after three to four days."""
    start, change = make.NOW, make.NOW + timedelta(days=6)
    half_hours = [start + timedelta(minutes=30 * count) for count in range(1, 48 * 11)]
    events = (usage(moment, *(before if moment < change else after)) for moment in half_hours)
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(map(orjson.dumps, events)))
    items = [make.workload_json(), make.pod_json(status={"phase": "Running"}), make.vpa_json()]
    (tmp_path / "objects.jsonl").write_bytes(b"\n".join(map(orjson.dumps, items)))
    flags = [
        "--csv",
        "--recommender-interval=30m",
        f"--start={make.time(start)}",
        *(f"--{name}={tmp_path / name}.jsonl" for name in ("objects", "events")),
    ]
    lines = b"".join(played(parse(ReplaySettings, flags, {}))).decode().splitlines()
    rows = [line.split(",") for line in lines[1:]]
    for column, (least, most) in ((-2, cpu_hours), (-1, memory_hours)):
        last = rows[-1][column]
        first = next(row[0] for row in rows if row[column] == last)
        hours = (datetime.fromisoformat(first) - change) / timedelta(hours=1)
        assert least <= hours <= most


def usage(moment: datetime, cpu: int, memory: int) -> Json:
    """Return a sample."""
    who = {"namespace": "default", "pod": "web-0", "container": "app"}
    amounts = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return {"time": make.time(moment), "type": "usage", **who, **amounts}


# --- names


def test_names_exist() -> None:
    """Conditions and annotations are all that are written, reasons some that are given."""
    title = "Conditions and annotations"
    conditions = {row[0] for row in table(title)[1:]}
    annotations = {name for row in table(title, 1)[1:] for name in row[0].split(", ")}
    reasons = {name for row in table("When nothing happens")[1:] for name in row[0].split(", ")}
    never_written = {ConditionType.CONFIG_DEPRECATED, ConditionType.FETCHING_HISTORY}
    assert conditions == set(ConditionType) - never_written
    assert {name.removesuffix("CONTAINER") for name in annotations} == set(ANNOTATIONS)
    assert reasons < set(Reason)


ONE_ROUND: Final = """
sleep() { slept="$slept."; [ "$slept" = . ]; }
kubectl() {
  case "$1 $2" in
    "get lease") printf %s "$HOLDER"; return "$FAILS" ;;
    "get pods") echo pod/db-0; echo pod/db-1 ;;
    *) echo "$*" ;;
  esac
}
"""


@pytest.mark.parametrize(
    ("holder", "fails", "roles"),
    [
        ("db-1", 0, ["follower", "leader"]),
        ("db-0_5b6f", 0, ["leader", "follower"]),
        ("", 0, []),
        ("db-1", 1, []),
    ],
)
def test_labels_follow_the_lease(holder: str, fails: int, roles: list[str]) -> None:
    """The holder gets the leader's label; without a holder no pod is labelled."""
    (script,) = (body for language, body in BLOCK.findall(text(PAGE)) if language == "sh")
    command, env = ["sh", "-c", ONE_ROUND + script], {"HOLDER": holder, "FAILS": str(fails)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    labelled = [
        f"label --overwrite pod/db-{number} role={role}" for number, role in enumerate(roles)
    ]
    assert (done.stdout.splitlines(), done.stderr) == (labelled, "")
