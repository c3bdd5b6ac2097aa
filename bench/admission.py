"""Both webhooks under load, beside a plain TLS echo in the same run.

Strategy: real TLS, keep-alive, a well-known load generator. A thousand different pods of 200
workloads come in random order, so that no cache of one answer shines.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import orjson

from bench import deciding
from bench.circumstances import Options, result
from bench.figures import SIDES, Found, Result, Row, Wanted
from bench.reviews import review
from bench.spent import memory_mb
from bench.stage import Stage, running, shown, stage
from bench.webhooks import NAMESPACE, Called, certificates, fill, flags_of, webhook
from bench.wrk import Load, Seen, load
from tests.cluster.control_plane import HOST
from tests.cluster.programs import Program, eventually, free_port

REVIEWS: Final = 2000
WORKLOADS: Final = 200
CONNECTIONS: Final = 32
FIXED: Final = 2000  # a second
ECHO_BYTES: Final = 1100  # as many as in an answer
ECHO: Final = "a plain TLS echo in Python, the ceiling"
ALONE: Final = "a decision alone, without a server"


@dataclass(frozen=True, slots=True)
class Scene:
    """So many VPAs in the namespace, and what is wanted there."""

    vpas: int
    rate: Wanted
    p99: Wanted | None = None


def bench(options: Options) -> Result:
    """Measure both sides."""
    few = Scene(100, Wanted(">=", 1.2), Wanted("<=", 0.5))
    many = Scene(options.size(2000, 400), Wanted(">=", 3))
    rows: list[Row] = []
    with stage() as on:
        certificates(on.folder)
        bodies = _bodies(on.folder)
        rows += (echo := _ceiling(on, bodies, options))
        rows.append(alone := _alone(options))
        notes = []
        for scene in (few, many):
            rows += (seen := _rows(on, bodies, scene, options))
            notes.append(_bound(scene, [*echo, alone, *seen]))
        rows.append(_memory(on, options.size(20_000, 3000), options))
    size = len(orjson.dumps(review(NAMESPACE, "app-100", REVIEWS)))
    places = ("--port=...", "--tls-cert-file=...", "--tls-private-key=...")
    return result(
        "admission",
        "Admission",
        options,
        rows,
        [
            *(shown(side, "admission", (*flags_of(side), *places)) for side in SIDES),
            f"wrk -t2 -c{CONNECTIONS} --latency -s load.lua https://{HOST}:PORT",
        ],
        [
            f"{REVIEWS:,} different pod reviews of {size:,} bytes, of {WORKLOADS} workloads, in "
            f"random order, over TLS with keep-alive, {CONNECTIONS} connections.",
            "The load generator uses the same cores, so a rate is at most the number of cores "
            "divided by the sum of the CPU time per request of both.",
            *notes,
            "CPU and memory are those of all processes of a server; shared memory counts once. "
            "Ours has one worker process per core and one that supervises them.",
        ],
    )


def _bodies(folder: Path) -> Path:
    path = folder / "reviews.jsonl"
    found = (review(NAMESPACE, f"app-{n % WORKLOADS}", n) for n in range(REVIEWS))
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in found))
    return path


def _ceiling(on: Stage, bodies: Path, options: Options) -> list[Row]:
    found = Found()
    with _echo(on.folder) as called:
        for number in range(options.rounds):
            load(on.folder, Load(called.url, bodies, 1, CONNECTIONS), called.session)
            asked = Load(called.url, bodies, options.size(8, 2), CONNECTIONS)
            seen = load(on.folder, asked, called.session)
            found.add("ours", "rate", seen.rate)
            found.add("ours", "cpu", seen.cpu_us)
            found.add("ours", "generator", seen.own_cpu_us)
            text = f"{seen.rate:,.0f}/s, {seen.cpu_us:.0f} us a request"
            print(f"  echo, round {number + 1}: {text}", flush=True)
    return [
        found.row("rate", f"{ECHO}: rate", "1/s"),
        found.row("cpu", f"{ECHO}: CPU a request", "us"),
        found.row("generator", f"{ECHO}: CPU of the generator a request", "us"),
    ]


def _alone(options: Options) -> Row:
    """Decide about the same pods in this process."""
    decider, asked = deciding.reviewer(WORKLOADS), deciding.bodies(WORKLOADS, REVIEWS)
    deciding.seconds_each(decider, asked)  # what is read first is slower
    costs = [deciding.seconds_each(decider, asked) for _ in range(options.rounds)]
    return Row(f"{ALONE}: CPU a request", "us", ours=tuple(cost * 1e6 for cost in costs))


@contextmanager
def _echo(folder: Path) -> Iterator[Called]:
    """Run a plain uvicorn that answers each POST with so many bytes."""
    port, certs = free_port(), folder / "certs"
    command = [
        *(sys.executable, "-m", "uvicorn", "bench.echo:app", f"--host={HOST}", f"--port={port}"),
        *(f"--workers={os.cpu_count() or 1}", "--http=httptools", "--loop=uvloop"),
        *("--lifespan=off", "--no-access-log", "--log-level=error"),
        f"--ssl-certfile={certs / 'serverCert.pem'}",
        f"--ssl-keyfile={certs / 'serverKey.pem'}",
    ]
    environment = {**os.environ, "PLUMBLINE_ECHO_BYTES": str(ECHO_BYTES)}
    with running(Program("echo", command, folder / "echo.log", environment)) as program:
        called = Called(port, program.pid)
        eventually(lambda: _listens(port), "the echo listens")
        yield called


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError:
        return False
    return True


def _rows(on: Stage, bodies: Path, scene: Scene, options: Options) -> list[Row]:
    """Load both by turns, as fast as they answer and at a fixed rate."""
    fill(on, scene.vpas, WORKLOADS)
    found, seconds = Found(), options.size(8, 2)
    fastest = Load("", bodies, seconds, CONNECTIONS)
    for number, side in options.turns():
        with webhook(on, side) as called:
            _loaded(on, called, fastest, 2)  # what is read first is slower
            most = _loaded(on, called, fastest, seconds)
            calm = _loaded(on, called, fastest, seconds, FIXED)
            found.add(side, "memory", memory_mb(called.session))
        found.add(side, "rate", most.rate)
        found.add(side, "cpu", most.cpu_us)
        found.add(side, "generator", most.own_cpu_us)
        found.add(side, "p50", most.p50_ms)
        found.add(side, "p99", most.p99_ms)
        found.add(side, "failed", most.failed + calm.failed)
        found.add(side, "rate, fixed", calm.rate)
        found.add(side, "p50, fixed", calm.p50_ms)
        found.add(side, "p99, fixed", calm.p99_ms)
        text = f"{most.rate:,.0f}/s, p99 {most.p99_ms:.1f} ms, {most.cpu_us:.0f} us a request"
        print(f"  {scene.vpas} VPAs, round {number}, {side}: {text}", flush=True)
    where = f"{scene.vpas:,} VPAs"
    named = {
        "rate": (f"{where}: rate", "1/s", scene.rate),
        "p50": (f"{where}: p50 at that rate", "ms", None),
        "p99": (f"{where}: p99 at that rate", "ms", scene.p99),
        "cpu": (f"{where}: CPU a request", "us", None),
        "generator": (f"{where}: CPU of the generator a request", "us", None),
        "rate, fixed": (f"{where}: rate when {FIXED:,}/s are asked for", "1/s", None),
        "p50, fixed": (f"{where}: p50 then", "ms", None),
        "p99, fixed": (f"{where}: p99 then", "ms", None),
        "failed": (f"{where}: calls that failed", "", None),
        "memory": (f"{where}: memory", "MB", None),
    }
    return [found.row(key, *words) for key, words in named.items()]


def _bound(scene: Scene, rows: Sequence[Row]) -> str:
    """Tell what the rate that is wanted leaves for a request, and what ours spends it on."""
    found = {row.what: row for row in rows}
    where, cores = f"{scene.vpas:,} VPAs", os.cpu_count() or 1
    wanted = scene.rate.limit * median(found[f"{where}: rate"].upstream)
    generator = median(found[f"{where}: CPU of the generator a request"].ours)
    ours = median(found[f"{where}: CPU a request"].ours)
    echo, alone = (median(found[f"{what}: CPU a request"].ours) for what in (ECHO, ALONE))
    return (
        f"With {where}, {scene.rate.limit:g} times upstream's rate would leave a server "
        f"{cores * 1e6 / wanted - generator:.0f} us of CPU per request, beside the generator. "
        f"Ours takes {ours:.0f} us, {alone:.0f} us of them for the decision; the echo server, "
        f"which neither reads a review nor decides anything, takes {echo:.0f} us."
    )


def _loaded(on: Stage, called: Called, asked: Load, seconds: int, rate: float = 0) -> Seen:
    wanted = Load(called.url, asked.bodies, seconds, asked.connections, rate)
    return load(on.folder, wanted, called.session)


def _memory(on: Stage, vpas: int, options: Options) -> Row:
    here = 1000
    fill(on, here, here, vpas - here)
    found = Found()
    for _, side in options.turns():
        with webhook(on, side) as called:
            found.add(side, "memory", memory_mb(called.session))
    where = f"{vpas:,} VPAs of {vpas // 1000} namespaces"
    row = found.row("memory", f"{where}: memory", "MB")
    print(f"  {where}: {row.upstream}, {row.ours} MB", flush=True)
    return row
