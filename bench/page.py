"""The page of a large cluster: what a look costs, how large it is, and what the process needs.

Strategy: the page is a program of its own that watches a small API server, so that its memory is
its own. Pods change all the time. CPU is that of the whole process, less what it spends while
nobody looks; of sizes the largest counts.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Final

import httpx
import numpy as np
import orjson

from app.flags.command_line import parse
from app.model.fields import Json
from app.model.times import rfc3339
from app.page.core.charts import chart_html
from app.page.core.usage_ring import UsageRing
from app.page.core.usage_series import ChartRange, KnownUsage, UsageQuestion, pod_names
from app.page.core.workload_charts import workload_charts
from app.page.flags import ReportSettings
from app.page.report import write_report
from app.ports import DEPLOYMENTS, NAMESPACES, POD_METRICS, PODS, REPLICA_SETS, VPAS, Resource
from app.recommender.core.usage import UsageBatch
from app.runtime.clock import SystemClock
from app.updater.watches import sources
from bench.circumstances import Options, result
from bench.figures import Result, Row, Wanted
from bench.spent import cpu_seconds, memory_mb, peak_mb
from tests import make
from tests.cluster.programs import Program, free_port
from tests.kube.api_server import ApiServer, serving

VPAS_IN_ALL: Final = 5000
PODS_EACH: Final = 10
NAMESPACE_COUNT: Final = 50
REPORTED: Final = 200
READERS: Final = 50
READER_SECONDS: Final = 10.0
CHANGES_A_SECOND: Final = 10
_START_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class PageProgram:
    """The page under load."""

    client: httpx.Client
    session: int

    def get(self, path: str) -> httpx.Response:
        """Ask for a page."""
        return self.client.get(path).raise_for_status()


def bench(options: Options) -> Result:
    """Measure the page of one cluster."""
    vpas = options.size(VPAS_IN_ALL, 200)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name, _api() as api:
        began = time.monotonic()
        paths = _fill(api, vpas)
        print(f"  {vpas} VPAs made in {time.monotonic() - began:.0f} s", flush=True)
        with _running(Path(name), api, vpas) as page, _changing(api):
            rows += _measured(page, paths, options)
    rows += _day(vpas)
    rows += _report()
    where = f"{vpas:,} VPAs, {vpas * PODS_EACH:,} pods"
    return result(
        "page",
        "The page, ours alone",
        options,
        rows,
        ["plumbline page --kubeconfig=... --address=127.0.0.1:PORT"],
        [
            f"{where} in {NAMESPACE_COUNT} namespaces; {CHANGES_A_SECOND} pods change each second.",
            "CPU of a look is that of the process, less what it spends while nobody looks. Sizes "
            "are those of the HTML, not compressed.",
            f"{READERS} readers each ask for the fleet, then for a workload, every "
            f"{READER_SECONDS:.0f} s.",
        ],
    )


def _measured(page: PageProgram, paths: Sequence[str], options: Options) -> Iterator[Row]:
    count, seconds = options.size(200, 10), options.size(60, 10)
    memory = memory_mb(page.session)
    idle = _spent(page, lambda: Event().wait(seconds)) / seconds
    yield Row("CPU while nobody looks", "cores", ours=(idle,))
    pages = min(page.get("/fleet.json").json()["pages"], 9)
    fleet = [f"/?page={number % pages + 1}" for number in range(count)]
    limits = Wanted("<=", 300, "ours"), Wanted("<=", 200, "ours")
    yield from _looks(page, "the fleet", fleet, idle, seconds, limits)
    some = paths[:: max(len(paths) // count, 1)][:count]
    limits = Wanted("<=", 100, "ours"), Wanted("<=", 150, "ours")
    days = [f"{path}?range=24h" for path in some]
    yield from _looks(page, "a workload", days, idle, seconds, limits)
    spent = _spent(page, lambda: _crowd(page, paths, seconds)) / seconds
    yield Row(f"CPU with {READERS} readers", "cores", ours=(spent,), wanted=Wanted("<=", 1, "ours"))
    yield Row("memory once all is read", "MB", ours=(memory,), wanted=Wanted("<=", 600, "ours"))
    yield Row(
        "memory after the readers", "MB", ours=(memory_mb(page.session),),
        wanted=Wanted("<=", 600, "ours"),
    )  # fmt: skip
    yield Row("memory at most", "MB", ours=(peak_mb(page.session),))


def _looks(
    page: PageProgram,
    what: str,
    paths: Sequence[str],
    idle: float,
    seconds: float,
    limits: tuple[Wanted, Wanted],
) -> Iterator[Row]:
    """Look one after the other, long enough for what happens by itself to come as ever."""
    page.get(paths[0])  # templates are read once
    sizes: list[int] = []
    began = time.monotonic()

    def look() -> None:
        while time.monotonic() < began + seconds:
            sizes.append(len(page.get(paths[len(sizes) % len(paths)]).content))

    spent = _spent(page, look)
    lasted = time.monotonic() - began
    each = (spent - idle * lasted) / len(sizes) * 1000
    yield Row(f"{what}: CPU of a look", "ms", ours=(each,), wanted=limits[0])
    yield Row(f"{what}: size", "KB", ours=(max(sizes) / 1000,), wanted=limits[1])
    yield Row(f"{what}: time to the answer", "ms", ours=(lasted / len(sizes) * 1000,))


def _spent(page: PageProgram, work: Callable[[], object]) -> float:
    before = cpu_seconds(page.session)
    work()
    return cpu_seconds(page.session) - before


def _crowd(page: PageProgram, paths: Sequence[str], seconds: float) -> None:
    """Let readers look for a while, each at its own times."""
    until = time.monotonic() + seconds
    pause = Event()

    def read(number: int) -> None:
        pause.wait(number * READER_SECONDS / READERS)
        while time.monotonic() < until:
            began = time.monotonic()
            page.get("/")
            page.get(paths[number * 37 % len(paths)])
            pause.wait(max(READER_SECONDS - (time.monotonic() - began), 0.0))

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(read, range(READERS)))


# --- a day of usage


def _day(vpas: int) -> Iterator[Row]:
    """Keep the usage of a day, and draw a workload of it."""
    names = [
        (f"team-{n % NAMESPACE_COUNT}", f"service-{n}-7d4b9c6f5-{_suffix(pod)}", "app")
        for n in range(vpas)
        for pod in range(PODS_EACH)
    ]
    count = len(names)
    spread = np.arange(count, dtype=np.int64)
    zeros = np.zeros(count, np.int64)
    ring, end = UsageRing(), datetime.now(UTC)
    before = _resident_mb()
    for minute in (*range(1500, 60, -5), *range(60, -1, -1)):
        cpu, memory = (
            90 + (spread * 7 + minute * 13) % 97,
            (300 + spread * 3 % 41 + minute % 19) << 20,
        )
        batch = UsageBatch(names, cpu, memory, zeros, zeros)
        ring.take(batch, end - timedelta(minutes=minute))
    kept = _resident_mb() - before
    yield Row("a day of usage: memory", "MB", ours=(kept,))
    pods = pod_names("Deployment", "service-0", [])
    question = UsageQuestion("team-0", pods, ChartRange.DAY, end)
    began, looks = time.process_time(), 20
    for _ in range(looks):
        known = KnownUsage(ring.read(question), "")
        drawn = [chart_html(one) for one in workload_charts(question, known, {})]
    spent = (time.process_time() - began) / looks * 1000
    yield Row("its charts of a workload: CPU", "ms", ours=(spent,))
    yield Row("its charts of a workload: size", "KB", ours=(sum(map(len, drawn)) / 1000,))


def _report() -> Iterator[Row]:
    """Write all pages of some workloads into a file, with a day of usage."""
    now = datetime.now(UTC)
    names = [
        (f"team-{number % NAMESPACE_COUNT}", f"service-{number}") for number in range(REPORTED)
    ]
    items = [item for name in names for item in _objects(*name)]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "objects.json").write_bytes(orjson.dumps(make.snapshot_json(*items)))
        lines = (
            orjson.dumps(_recorded(namespace, f"{name}-7d4b9c6f5-{_suffix(pod)}", pod, now, step))
            for namespace, name in names
            for pod in range(2)
            for step in range(288)
        )
        (place / "events.jsonl").write_bytes(b"\n".join(lines))
        words = [
            f"--output={place / 'report.html'}",
            f"--objects={place / 'objects.json'}",
            f"--events={place / 'events.jsonl'}",
            f"--at={rfc3339(now)}",
        ]
        began = time.process_time()
        write_report(parse(ReportSettings, words, {}), SystemClock())
        spent = time.process_time() - began
        written = (place / "report.html").stat().st_size / 1e6
    what = f"report of {REPORTED} workloads"
    yield Row(f"{what}: size", "MB", ours=(written,), wanted=Wanted("<=", 3, "ours"))
    yield Row(f"{what}: CPU", "s", ours=(spent,))


def _recorded(namespace: str, pod: str, number: int, now: datetime, step: int) -> Json:
    return {
        "type": "usage",
        "time": rfc3339(now - timedelta(minutes=5 * step + 2)),
        "namespace": namespace,
        "pod": pod,
        "container": "app",
        "cpu": f"{90 + (number * 7 + step * 13) % 97}m",
        "memory": f"{300 + step % 19 + number}Mi",
    }


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# --- the cluster


@contextmanager
def _api() -> Iterator[ApiServer]:
    resources = {one.resource for one in sources("")} | {POD_METRICS}
    with serving(*resources) as api:
        yield api


def _fill(api: ApiServer, vpas: int) -> list[str]:
    """Make all objects; return the paths of the pages of VPAs."""
    paths = []
    for number in range(vpas):
        namespace, name = f"team-{number % NAMESPACE_COUNT}", f"service-{number}"
        for item in _objects(namespace, name):
            api.store(_RESOURCES[item["kind"]], item)
        paths.append(f"/namespaces/{namespace}/vpas/{name}")
    for number in range(NAMESPACE_COUNT):
        api.put(NAMESPACES, f"team-{number}")
    api.history.clear()
    return paths


_RESOURCES: Final[dict[str, Resource]] = {
    one.kind: one for one in (PODS, VPAS, DEPLOYMENTS, REPLICA_SETS, POD_METRICS)
}


def _objects(namespace: str, name: str) -> Iterator[Json]:
    labels = {"app": name}
    containers = [make.container_json(cpu="200m", memory="512Mi", memory_limit="1Gi")]
    hashed = f"{name}-7d4b9c6f5"
    for kind, called, owner in (
        ("Deployment", name, None),
        ("ReplicaSet", hashed, f"Deployment/{name}"),
    ):
        yield make.workload_json(
            f"{kind}/{called}", namespace=namespace, owner=owner, replicas=PODS_EACH,
            labels=labels, containers=containers,
        )  # fmt: skip
    bounds = make.amounts("80m", "256Mi"), make.amounts("400m", "900Mi")
    told = make.recommendation_json(cpu="120m", memory="400Mi", lower=bounds[0], upper=bounds[1])
    yield make.vpa_json(
        name, namespace=namespace, target=f"Deployment/{name}", recommendations=[told]
    )
    for number in range(PODS_EACH):
        pod = f"{hashed}-{_suffix(number)}"
        yield make.running_json(
            make.pod_json(
                *containers, name=pod, namespace=namespace, labels=labels,
                owner=f"ReplicaSet/{hashed}",
            )
        )  # fmt: skip
        yield _usage(namespace, pod, number)


def _suffix(number: int) -> str:
    return "".join("bcdfghjklm"[int(digit)] for digit in f"{number:05d}")


def _usage(namespace: str, pod: str, number: int) -> Json:
    return {
        "apiVersion": POD_METRICS.api_version,
        "kind": POD_METRICS.kind,
        "metadata": {"name": pod, "namespace": namespace},
        "timestamp": make.time(datetime.now(UTC)),
        "window": "15s",
        "containers": [
            {
                "name": "app",
                "usage": {"cpu": f"{90_000_000 + number * 7_654_321}n", "memory": "300000Ki"},
            }
        ],
    }


@contextmanager
def _changing(api: ApiServer) -> Iterator[None]:
    """Let pods change, each second some, until the block ends."""
    over = Event()
    pods = list(api.objects[PODS].values())

    def change() -> None:
        number = 0
        while not over.wait(1.0 / CHANGES_A_SECOND):
            pod = pods[number * 7919 % len(pods)]
            annotations = {"bench": str(number)}
            api.store(PODS, pod | {"metadata": pod["metadata"] | {"annotations": annotations}})
            number += 1

    thread = Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _running(folder: Path, api: ApiServer, vpas: int) -> Iterator[PageProgram]:
    """Run the page; it is yielded when it has seen all pods and their usage."""
    config = folder / "kubeconfig"
    config.write_text(_KUBECONFIG.format(url=api.url))
    port = free_port()
    words = ["page", f"--kubeconfig={config}", f"--address=127.0.0.1:{port}"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "app", *words]
    program = Program("page", command, folder / "page.log", environment)
    program.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
            page = PageProgram(client, program.pid)
            began = time.monotonic()
            program.wait_until(lambda: _is_whole(page, vpas), _START_SECONDS)
            print(f"  all is shown after {time.monotonic() - began:.0f} s", flush=True)
            yield page
    finally:
        program.stop()


_KUBECONFIG: Final = """\
apiVersion: v1
kind: Config
clusters: [{{name: bench, cluster: {{server: "{url}"}}}}]
users: [{{name: bench, user: {{}}}}]
contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]
current-context: bench
"""


def _is_whole(page: PageProgram, vpas: int) -> bool:
    try:
        sums = page.get("/fleet.json").json()["sums"]
    except httpx.HTTPError:
        return False
    return bool(sums["pods"] == vpas * PODS_EACH and sums["cpu"].get("usage"))
