"""Measures `plumbline record` on a real Prometheus: many containers, two weeks, killed and resumed.

Run with `python -m bench.recording`, or with numbers of containers and days, e.g.
`python -m bench.recording 1000 14`. A database is made by `promtool`: half of the containers are in
one namespace, and three in ten are replaced by others once. It needs `prometheus` on the PATH and,
for 1,000 containers and two weeks, 3 GB in the folder for temporary files.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Final, TextIO

import httpx
import numpy as np

from app.backtest.recording import Recording
from app.backtest.recording_file import load_recording
from app.recommender.prometheus_connection import PrometheusConnection
from tests.cluster.programs import eventually
from tests.real_prometheus import serving, written_database

CONTAINERS, DAYS = 1_000, 14
STEP: Final = 300
SCRAPED: Final = 120  # seconds between looks at the kubelet
STATED: Final = 300  # and at kube-state-metrics
NAMESPACES: Final = 20  # the first of which has half of all containers
REPLACED: Final = 10  # of so many pods three are
BLOCK: Final = 54 * 3600  # as long as Prometheus makes its own
MI: Final = 2**20
KILLS: Final = (0.3, 0.6)  # shares of the pieces that are read when it is killed


@dataclass(frozen=True)
class Pod:
    """A pod with one container, and when it is there."""

    number: int
    name: str
    begin: int
    end: int

    @property
    def labels(self) -> str:
        """The labels of its series."""
        space = 0 if self.number % 2 else self.number // 2 % (NAMESPACES - 1) + 1
        return f'namespace="team-{space}",pod="{self.name}",container="app"'

    @property
    def dice(self) -> np.random.Generator:
        """Chance that is always the same for this pod."""
        return np.random.default_rng(self.number + 100_000 * self.name.endswith("b"))


def fleet(containers: int, begin: int, end: int) -> Iterator[Pod]:
    """Yield all pods; those that are replaced are so in the middle."""
    middle = (begin + (end - begin) // 2) // STEP * STEP
    for number in range(containers):
        name = f"app-{number // 2}-5d4f-{number}"
        if number % REPLACED < 3:
            yield Pod(number, f"{name}a", begin, middle)
            yield Pod(number, f"{name}b", middle, end + 1)
        else:
            yield Pod(number, f"{name}a", begin, end + 1)


def memory_of(pod: Pod, times: Sequence[int], begin: int) -> list[int]:
    """Return the bytes of a pod; each amount tells its time, so that nothing can be mistaken."""
    least = 100 * MI + pod.number * 4096
    return [least + (time - begin) // SCRAPED % 1_000 * 65_536 for time in times]


Family = Callable[[Pod, Sequence[int], int], Iterator[tuple[str, Sequence[object]]]]


def usage(pod: Pod, times: Sequence[int], _begin: int) -> Iterator[tuple[str, Sequence[object]]]:
    """Yield the counter of CPU: some rate, and noise that says the time."""
    rate = 0.05 + pod.number % 40 / 20
    yield "", [round((time - pod.begin) * rate + time // 600 % 7, 2) for time in times]


FAMILIES: Final[Mapping[str, tuple[int, Family]]] = {
    "container_memory_working_set_bytes": (
        SCRAPED,
        lambda pod, times, begin: iter([("", memory_of(pod, times, begin))]),
    ),
    "container_cpu_usage_seconds_total": (SCRAPED, usage),
    "container_cpu_cfs_periods_total": (
        SCRAPED,
        lambda pod, times, _: iter(
            [("", [(time - pod.begin) * 10 for time in times])] if pod.number % 4 == 0 else []
        ),
    ),
    "container_cpu_cfs_throttled_periods_total": (
        SCRAPED,
        lambda pod, times, _: iter(
            [("", [(time - pod.begin) * 2 for time in times])] if pod.number % 4 == 0 else []
        ),
    ),
    "kube_pod_owner": (
        STATED,
        lambda pod, times, _: iter(
            [(f',owner_kind="StatefulSet",owner_name="app-{pod.number // 2}"', [1] * len(times))]
        ),
    ),
    "kube_pod_container_resource_requests": (
        STATED,
        lambda _, times, __: iter(
            [
                (',resource="cpu"', [0.5] * len(times)),
                (',resource="memory"', [512 * MI] * len(times)),
            ]
        ),
    ),
    "kube_pod_container_resource_limits": (
        STATED,
        lambda _, times, __: iter([(',resource="memory"', [1024 * MI] * len(times))]),
    ),
    "kube_pod_container_status_restarts_total": (
        STATED,
        lambda pod, times, begin: iter(
            [("", [(time - begin) // 86_400 * (pod.number % 5 == 0) for time in times])]
        ),
    ),
}


def write(file: TextIO, pods: Sequence[Pod], begin: int, block: range) -> None:
    """Write what was scraped within a block, metric by metric."""
    for metric, (every, family) in FAMILIES.items():
        kind = "counter" if metric.endswith("_total") else "gauge"
        file.write(f"# TYPE {metric.removesuffix('_total')} {kind}\n")
        for pod in pods:
            first = max(block.start, pod.begin)
            times = range(first + -first % every, min(block.stop, pod.end), every)
            if not times:
                continue
            for labels, values in family(pod, times, begin):
                head = f"{metric}{{{pod.labels}{labels}}} "
                file.writelines(
                    f"{head}{value} {time}\n" for value, time in zip(values, times, strict=True)
                )
    file.write("# EOF\n")


def database(folder: Path, pods: Sequence[Pod], begin: int, end: int) -> None:
    """Make the database of a Prometheus, block by block."""
    written_database(folder, ["# TYPE nothing gauge", f"nothing 1 {end}", "# EOF"], now())
    for start in range(begin // BLOCK * BLOCK, end + 1, BLOCK):
        path = folder / "block"
        with path.open("w") as file:
            write(file, pods, begin, range(max(start, begin), min(start + BLOCK, end + 1)))
        command = ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=54h"]
        made = [*command, "openmetrics", str(path), str(folder / "data")]
        subprocess.run(made, check=True, capture_output=True)
        path.unlink()


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


# --- what is measured


@dataclass(frozen=True)
class Served:
    """What a Prometheus has answered so far."""

    requests: float
    sent: float  # bytes, compressed

    @staticmethod
    def by(access: PrometheusConnection) -> Served:
        """Ask it."""
        text = httpx.get(f"{access.address}/metrics", verify=access.ca_file).text
        found = {
            line.partition(" ")[0]: float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith("prometheus_http_") and "/api/v1/query" in line
        }
        return Served(
            sum(n for name, n in found.items() if name.startswith("prometheus_http_requests_")),
            sum(n for name, n in found.items() if "response_size_bytes_sum" in name),
        )


def command(access: PrometheusConnection, days: int, until: int, file: Path) -> list[str]:
    """Return the command line."""
    told = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    words = [f"--prometheus-address={access.address}", f"--prometheus-ca-file={access.ca_file}"]
    words += [f"--days={days}", f"--until={told}", f"--output={file}"]
    return [sys.executable, "-m", "app", "record", *words]


def recorded(words: Sequence[str], access: PrometheusConnection) -> None:
    """Record once without a break, and print what it took."""
    before, began = Served.by(access), time.monotonic()
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    told = process.stderr.read() if process.stderr is not None else ""
    _, status, used = os.wait4(process.pid, 0)
    seconds, after = time.monotonic() - began, Served.by(access)
    if status:
        raise SystemExit(told)
    print(told.strip())
    print(
        f"{after.requests - before.requests:,.0f} requests, "
        f"{(after.sent - before.sent) / 1e6:,.1f} MB of compressed answers, {seconds:.0f} s, "
        f"{used.ru_utime + used.ru_stime:.0f} s of CPU, {used.ru_maxrss / 1024:,.0f} MB at its "
        "highest",
        flush=True,
    )


def killed(words: Sequence[str], access: PrometheusConnection, file: Path, pieces: int) -> None:
    """Record, killed twice with SIGKILL, and print how many requests that took."""
    before, folder = Served.by(access), file.with_name(f"{file.name}.pieces")
    for share in KILLS:
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        wanted = max(int(pieces * share), 1)
        eventually(
            lambda wanted=wanted: len(list(folder.glob("*.npz"))) >= wanted,  # type: ignore[misc]
            f"{wanted} pieces are read",
            seconds=600,
        )
        process.send_signal(signal.SIGKILL)
        process.wait()
    print(f"killed with {len(list(folder.glob('*.npz')))} of {pieces} pieces read", flush=True)
    recorded(words, access)
    total = Served.by(access).requests - before.requests
    print(f"{total:,.0f} requests with all that was read twice; folder left: {folder.exists()}")


def check(found: Recording, pods: Sequence[Pod], begin: int) -> None:
    """Compare the highest memory of each step with what was put in."""
    rows = {row.pod: index for index, row in enumerate(found.rows)}
    for pod in pods:
        first = max(pod.begin, found.start)
        times = np.arange(first + -first % SCRAPED, min(pod.end, found.end + 1), SCRAPED)
        wanted = np.full(found.count, np.nan)
        columns = (times - 1 - found.start) // STEP
        inside = (columns >= 0) & (columns < found.count)
        amounts = np.array(memory_of(pod, times.tolist(), begin))
        np.fmax.at(wanted, columns[inside], amounts[inside])
        np.testing.assert_array_equal(found.memory[rows[pod.name]], wanted.astype(np.float32))
    assert len(rows) == len(pods)


def main() -> None:
    """Measure one size."""
    containers, days = map(int, sys.argv[1:3]) if len(sys.argv) == 3 else (CONTAINERS, DAYS)
    end = int(now().timestamp()) // STEP * STEP - STEP
    begin = end - days * 86_400
    pods = list(fleet(containers, begin, end))
    folder = Path(mkdtemp(prefix="recording-"))
    try:
        began = time.monotonic()
        database(folder, pods, begin, end)
        print(f"{containers:,} containers, {days} days, database: ", end="")
        print(f"{time.monotonic() - began:.0f} s", flush=True)
        with serving(folder, now(), "--storage.tsdb.retention.time=400d") as access:
            whole, again = folder / "whole.npz", folder / "again.npz"
            recorded(command(access, days, end, whole), access)
            found = load_recording(whole)
            print(f"{whole.stat().st_size / 1e6:.1f} MB; {len(found.rows):,} rows", flush=True)
            check(found, pods, begin)
            killed(command(access, days, end, again), access, again, pieces_of(found))
            other = load_recording(again)
            assert other.rows == found.rows
            for (name, one), (_, two) in zip(found.arrays(), other.arrays(), strict=True):
                np.testing.assert_array_equal(one, two, name)
            print("the same as without a break, and as what was put in")
    finally:
        rmtree(folder)


def pieces_of(found: Recording) -> int:
    """Return about how many pieces a recording has."""
    return max(len(found.rows) * found.count // 250_000, NAMESPACES)


if __name__ == "__main__":
    main()
