"""Shows the ratchet between an HPA and a VPA on the same resource, and what ends it.

Run with `python -m bench.horizontal_ratchet`: a simulated day for each way on the in-memory
cluster, of a workload whose load goes up and down in steps. Table and picture go into
docs/with-hpa.md.

Strategy: all ways have the same load, so what they request may be compared cycle by cycle. History
counts half after half an hour instead of a day, and pods within their bounds are updated after
half an hour instead of twelve, so that a day shows what takes weeks.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Final, NamedTuple

from app.model.fields import Json
from app.model.pods import read_pod
from app.model.quantity import Quantity
from app.model.scalers import read_hpa
from app.ports import HPAS, POD_METRICS, Ref
from app.sizing.horizontal import WayOut, scale_point, way_out
from tests import make
from tests.flows.autoscaler import MINUTE, NAMESPACE, Autoscaler, autoscaler, vpa, workload

PAGE: Final = Path(__file__).parents[1] / "docs" / "with-hpa.md"
MARKS: Final = "<!-- the ratchet, by bench/horizontal_ratchet.py -->\n", "<!-- until here -->\n"
LEVELS: Final = "350m 700m 1050m 700m"
PERCENT: Final = 70
WORKERS: Final = 2
TOO_MUCH: Final = 1.2  # times what is compared with
RUN_AWAY: Final = 1.5
_BAR: Final = "█"


class Pace(NamedTuple):
    """How fast all goes."""

    step_minutes: int  # of the load
    half_life_minutes: int  # of history; also the age after which small changes are made
    cycles: int  # of four steps

    @property
    def cycle_seconds(self) -> float:
        """How long it takes until the load begins again."""
        return 4 * self.step_minutes * MINUTE


DAY: Final = Pace(60, 30, 6)


class Way(NamedTuple):
    """How the two live together."""

    name: str
    mode: str = ""  # of the VPA; empty: there is none
    horizontal: str = "hold"
    parts: bool = False  # the way out is taken after the first cycle


MODES: Final = ("Recreate", "InPlaceOrRecreate")
ALONE: Final = Way("the HPA alone")
WAYS: Final = (
    ALONE,
    *(Way("`--horizontal=ignore`", mode, "ignore") for mode in MODES),
    *(Way("`--horizontal=hold`", mode) for mode in MODES),
    *(Way("separated", mode, parts=True) for mode in MODES),
)


class Cycle(NamedTuple):
    """What pods requested on average while the load went through its steps once."""

    pods: float
    cores: float
    gibibytes: float
    best_cores: float  # with the least request that covers the usage of a pod 95 % of the time


def objects(way: Way, pace: Pace) -> list[Json]:
    """Return the workload, its HPA, and its VPA if it has one."""
    load = (
        f"noise: 0, cpu: steps {pace.step_minutes}m {LEVELS}, shared: cpu, memory: constant 200Mi"
    )
    found = workload(load=load, replicas=3)
    container = found["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "200m", "memory": "256Mi"}}
    metric = make.metric_json("cpu", PERCENT)
    hpa = make.hpa_json(metric, namespace=NAMESPACE, target="Deployment/web", most=100)
    return [found, hpa, *([vpa(mode=way.mode)] if way.mode else [])]


def play(way: Way, pace: Pace = DAY) -> list[Cycle]:
    """Let time pass; return the cycles."""
    half_life = f"{pace.half_life_minutes}m"
    with autoscaler(
        *objects(way, pace),
        flags=[f"--horizontal={way.horizontal}"],
        recommender=[f"--cpu-histogram-decay-half-life={half_life}"],
        updater=[f"--in-recommendation-bounds-eviction-lifetime-threshold={half_life}"],
    ) as cluster:
        # Begin where the cycle of the load does.
        now = cluster.world.sandbox.clock.now().timestamp()
        cluster.run(pace.cycle_seconds - now % pace.cycle_seconds)
        found = []
        for number in range(pace.cycles):
            if number == 1 and way.parts:
                part(cluster)
            found.append(cycle(cluster, pace))
        return found


def part(cluster: Autoscaler) -> None:
    """Make the change that is printed as the way out."""
    found = printed(cluster)
    ref = Ref(HPAS, NAMESPACE, found.scaler.name)
    cluster.world.sandbox.cluster.patch(ref, found.patch)


def printed(cluster: Autoscaler) -> WayOut:
    """Return the way out that keeps today's scale point."""
    (metric,) = read_hpa(cluster.world.sandbox.cluster.get(Ref(HPAS, NAMESPACE, "web"))).metrics
    point = scale_point(metric, map(read_pod, cluster.pods()))
    assert point is not None
    return way_out(NAMESPACE, metric, point)


def cycle(cluster: Autoscaler, pace: Pace) -> Cycle:
    """Let one cycle pass, looking at the pods a few times each step."""
    looks = 4 * 12
    pods: list[int] = []
    cores: list[float] = []
    memory: list[float] = []
    used: list[float] = []
    for _ in range(looks):
        cluster.run(pace.cycle_seconds / looks)
        requests = [total(cluster.requests(resource)) for resource in ("cpu", "memory")]
        pods.append(len(cluster.pods()))
        cores.append(requests[0])
        memory.append(requests[1] / 2**30)
        items = cluster.world.sandbox.cluster.list(POD_METRICS, NAMESPACE).items
        used.extend(total([item["containers"][0]["usage"]["cpu"]]) for item in items)
    best = sorted(used)[int(len(used) * 0.95)]
    return Cycle(mean(pods), mean(cores), mean(memory), mean(pods) * best)


def total(amounts: list[str]) -> float:
    """Add up amounts."""
    return sum(Quantity.read(amount).nano for amount in amounts) / 1e9


def table(found: dict[Way, list[Cycle]]) -> str:
    """Return what is to be read."""
    cycles = len(found[ALONE])
    hours = [f"to {4 * (number + 1)} h" for number in range(cycles)]
    last = found[ALONE][-1]
    head = ["", "VPA", *hours, "CPU requests", "memory requests"]
    lines = [head, ["---", "---", *["---:"] * (cycles + 2)]]
    for way, rows in found.items():
        pods = [f"{row.pods:.1f}" for row in rows]
        cpu, memory = rows[-1].cores, rows[-1].gibibytes
        lines.append(
            [
                way.name,
                f"`{way.mode}`" if way.mode else "none",
                *pods,
                f"{cpu:.2f} ({cpu / last.cores:.2f})",
                f"{memory:.2f} GiB ({memory / last.gibibytes:.2f})",
            ]
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def picture(figures: str) -> str:
    """Draw the pods of a table: beside a VPA that leaves the resource of the HPA, and one not."""
    head, _, *lines = ([cell.strip() for cell in line.split("|")] for line in figures.splitlines())
    by_way = {line[1]: line for line in lines}
    drawn = [f"{'average pods':<14}{'held':<24}both act".rstrip()]
    for column in range(3, len(head) - 3):
        held, ignored = (by_way[f"`--horizontal={word}`"][column] for word in ("hold", "ignore"))
        bars = (
            f"{held:>4} {_BAR * round(float(held)):<19}{ignored:>4} {_BAR * round(float(ignored))}"
        )
        drawn.append(f"{head[column]:<14}{bars}")
    return "".join(f"{line}\n" for line in ("```text", *drawn, "```"))


def problems(found: dict[Way, list[Cycle]]) -> list[str]:
    """Return what is not as it is claimed to be."""
    alone, wrong = found[ALONE][-1], []
    for way, rows in found.items():
        last = rows[-1]
        if way.horizontal == "ignore":
            is_right = last.pods > RUN_AWAY * alone.pods and last.pods > rows[0].pods
        elif way.parts:
            is_right = last.cores <= TOO_MUCH * last.best_cores
        else:
            is_right = last.cores <= TOO_MUCH * alone.cores
            is_right = is_right and last.gibibytes <= TOO_MUCH * alone.gibibytes
        if not is_right:
            wrong.append(f"{way.name} {way.mode}: {last}, the HPA alone: {alone}")
    return wrong


def main() -> int:
    """Play all ways, write the table, and tell whether all is as claimed."""
    with ProcessPoolExecutor(WORKERS) as workers:
        found = dict(zip(WAYS, workers.map(partial(play, pace=DAY), WAYS), strict=True))
    text = table(found)
    begin, end = MARKS
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n{picture(text)}\n{text}\n{end}{after}", "utf-8")
    print(text)
    for way, rows in found.items():
        if way.parts:
            print(f"{way.name} {way.mode}: {rows[-1].cores / rows[-1].best_cores:.2f} of the best")
    wrong = problems(found)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
